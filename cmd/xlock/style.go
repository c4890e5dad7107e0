package main

import (
	"io"
	"os"
	"regexp"

	"golang.org/x/sys/unix"

	"xlock/internal/lock"
)

// style is how a report is written: with colours, or plain.
type style struct{ colours bool }

// styleFor gives colours to a terminal, unless NO_COLOR asks for none
// (no-color.org).
func styleFor(w io.Writer) style {
	return style{colours: isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	return err == nil
}

func (s style) state(state lock.State) string {
	colour := map[lock.State]string{
		lock.Free:         "32", // green
		lock.Held:         "33", // yellow
		lock.Abandoned:    "36", // cyan
		lock.UnknownState: "35", // magenta
	}[state]
	if !s.colours || colour == "" {
		return string(state)
	}
	return "\x1b[1;" + colour + "m" + string(state) + "\x1b[m" // console_codes(4), ECMA-48 SGR
}

// uncoloured takes out what state puts in.
func uncoloured(line string) string {
	return regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(line, "")
}
