package main

import (
	"fmt"
	"os"
	"time"
	"unicode"

	"golang.org/x/sys/unix"
)

// silent is the screen of -q.
type silent struct{}

func (silent) live(string) bool { return false }
func (silent) add(string)       {}
func (silent) clear()           {}

// errorOutput is standard error as a screen: a terminal in whose foreground we
// are, or a log.
type errorOutput struct {
	file    *os.File
	message func(text string) string // makes a line of it
	shown   bool
}

func (o *errorOutput) add(text string) {
	if o.ready() {
		o.clear()
		sayLine(o.file, o.message(text))
	}
}

// ready reports whether a notice can be written without a wait: nobody reads a
// full pipe, the user has stopped the terminal (^S), or the terminal would stop
// us for writing from the background (tostop, termios(3)). The lock may be
// granted meanwhile, and nobody would run the command.
func (o *errorOutput) ready() bool {
	fd := int(o.file.Fd())
	if settings, err := unix.IoctlGetTermios(fd, getTermios); err == nil &&
		settings.Lflag&unix.TOSTOP != 0 && !inForeground(fd) {
		return false
	}
	return writable(fd, 0)
}

// writable waits for a descriptor that takes at least a line, no longer than the
// limit (poll(2)).
func writable(fd int, limit time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	n, err := unix.Poll(fds, int(limit.Milliseconds()))
	for err == unix.EINTR {
		n, err = unix.Poll(fds, int(limit.Milliseconds()))
	}
	return err != nil || n > 0
}

// live writes over the line, cut to the width, as a line that wraps cannot be
// written over. In the background it would write over what somebody types.
func (o *errorOutput) live(text string) bool {
	fd := int(o.file.Fd())
	size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || os.Getenv("TERM") == "dumb" || !inForeground(fd) {
		o.shown = false // what stands on the line now is somebody else's
		return false
	}
	if !o.ready() {
		return true
	}
	o.shown = true
	fmt.Fprintf(o.file, "\r%s%s", cut(o.message(text), int(size.Col)-1), clearToEnd)
	return true
}

func (o *errorOutput) clear() {
	if o.shown && o.ready() {
		fmt.Fprint(o.file, "\r"+clearToEnd)
		o.shown = false
	}
}

const clearToEnd = "\x1b[K" // console_codes(4), ECMA-48 EL

func inForeground(fd int) bool {
	group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

// cut shortens text to a number of columns. Characters of which some terminals
// make two columns are counted as two.
func cut(text string, columns int) string {
	const firstWide = 0x1100 // Hangul Jamo; below are no wide ones (Unicode, UAX 11)
	for i, r := range text {
		switch {
		case unicode.Is(unicode.Mn, r):
		case r >= firstWide:
			columns -= 2
		default:
			columns--
		}
		if columns < 0 {
			return text[:i]
		}
	}
	return text
}
