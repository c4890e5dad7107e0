package main

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A notice on a terminal is one line, cut to the width of the window, and gone
// when the wait is over.
func TestNoticeOnATerminal(t *testing.T) {
	tty := newTerminal(t)
	letGo := tty.fifo("go")
	holder, _ := tty.startAlone("xlock", "run", "lock", "sh", "-c", "read _ <go")
	tty.holding()
	tty.check(unix.IoctlSetWinsize(tty.fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 40}))
	tty.shell()
	tty.typeKeys("xlock run lock echo got it\n")
	tty.expect(`\rxlock: waiting 1s, next in line: lock i\x1b\[K`)
	tty.expect(`\rxlock: waiting 2s, next in line: lock i\x1b\[K`)
	letGo()
	text := tty.expect(`got it\r\n`)
	if !strings.HasSuffix(text, "\r\x1b[Kgot it\r\n") || strings.Contains(text, "\n\r") {
		t.Errorf("at the end of the wait: %q", text)
	}
	tty.expect(`prompt> `)
	tty.ended(holder, "0")
}

// In the background a notice is a line of its own; and there is none if the
// terminal stops who writes from there, as the lock would be granted to a stopped
// process.
func TestNoticeInTheBackground(t *testing.T) {
	for settings, noticed := range map[string]bool{"-tostop": true, "tostop": false} {
		t.Run(settings, func(t *testing.T) {
			tty := newTerminal(t)
			letGo := tty.fifo("go")
			holder, _ := tty.startAlone("xlock", "run", "lock", "sh", "-c", "read _ <go")
			tty.holding()
			tty.resize(24)
			tty.shell()
			tty.typeKeys("stty " + settings + "; xlock run lock sh -c 'echo >done' &\n")
			tty.expect(`prompt> `)
			tty.await("it waits", func() bool { return distinct(tty.inspect().Kernel.Waiters) == 1 })
			tty.typeKeys("xlock run lock true\n")
			text := tty.expect(`xlock: waiting 2s, 1 ahead`) // the other has waited for longer
			if got := strings.Contains(text, "\nxlock: waiting 1s, next in line: "); got != noticed {
				t.Errorf("a notice: %v, want %v: %q", got, noticed, text)
			}
			letGo()
			tty.await("its command runs", func() bool {
				_, err := os.Stat(tty.path("done"))
				return err == nil
			})
			tty.ended(holder, "0")
		})
	}
}
