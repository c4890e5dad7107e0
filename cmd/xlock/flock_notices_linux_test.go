package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// On a terminal a busy lock is told in the words of xlock run; elsewhere flock is as
// silent as flock(1).
func TestFlockBusyOnATerminal(t *testing.T) {
	tty := newTerminal(t)
	letGo := tty.fifo("go")
	holder, _ := tty.startAlone("xlock", "run", "lock", "sh", "-c", "read _ <go")
	tty.holding()
	tty.check(os.WriteFile(tty.path("foreign"), []byte("somebody's\n"), 0o600))
	const byRun = `held by pid \d+ \(sh\), user \w+, since .* ago\); see: xlock inspect `
	tests := []struct{ command, want string }{
		{"xlock flock -n lock echo no", `flock: busy: lock is ` + byRun + `lock\r\nstatus 1`},
		{"xlock flock -n -E 9 lock echo no", `flock: busy: lock is ` + byRun + `lock\r\nstatus 9`},
		{"xlock flock -w 0.01 lock echo no", `flock: gave up waiting: lock is ` + byRun + `lock\r\nstatus 1`},
		{"xlock flock --verbose -n lock echo no", `flock: failed to get lock\r\nflock: busy: lock is ` + byRun + `lock\r\nstatus 1`},
		{"xlock flock -n 9 9<>lock", `flock: busy: /\S+/lock is ` + byRun + `/\S+/lock\r\nstatus 1`},
		{"xlock flock -n lock echo no 2>said; cat said", `status 0`},
		{"xlock flock . xlock flock -n . true", `flock: busy: \. is held\r\nstatus 1`},
		{"xlock flock foreign xlock flock -n foreign true", `flock: busy: foreign is held by somebody whom its record does not name \(pid \d+\): .*\r\nstatus 1`},
		{"xlock flock --fcntl other xlock flock -n --fcntl other true", `flock: busy: other is held\r\nstatus 1`},
		{
			"xlock flock other xlock flock -n other true",
			`flock: busy: other is held by pid \d+ \(xlock\), user \w+, since .*; see: xlock inspect other\r\nstatus 1`,
		},
		{"xlock flock -n other echo yes", `yes\r\nstatus 0`},
	}
	var script strings.Builder
	for _, test := range tests {
		script.WriteString(test.command + "; echo status $?\n")
	}
	shell := tty.start("sh", "-c", script.String())
	for _, test := range tests {
		got := tty.expect(`status \d+\r\n`)
		if !regexp.MustCompile(`^` + test.want + `\r\n$`).MatchString(got) {
			t.Errorf("%s: it prints %q", test.command, got)
		}
	}
	tty.ended(shell, "0")
	letGo()
	tty.ended(holder, "0")
}

// Who waits at a terminal is told as by xlock run, and the line is gone when the
// wait is over.
func TestFlockNoticeOnATerminal(t *testing.T) {
	for name, command := range map[string]string{
		"file":       "xlock flock lock echo got it",
		"limit":      "xlock flock -w 60 lock echo got it",
		"descriptor": "xlock flock 9 9<>lock && echo got it",
	} {
		t.Run(name, func(t *testing.T) {
			tty := newTerminal(t)
			letGo := tty.fifo("go")
			holder, _ := tty.startAlone("xlock", "run", "lock", "sh", "-c", "read _ <go")
			tty.holding()
			tty.check(unix.IoctlSetWinsize(tty.fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 32}))
			tty.shell()
			tty.typeKeys(command + "\n")
			tty.expect(`\rflock: waiting 1s, next in line\x1b\[K`)
			letGo()
			text := tty.expect(`got it\r\n`)
			if !strings.HasSuffix(text, "\r\x1b[Kgot it\r\n") {
				t.Errorf("at the end of the wait: %q", text)
			}
			tty.expect(`prompt> `)
			tty.ended(holder, "0")
		})
	}
}

// Elsewhere who waits says nothing, while a later xlock run has its first notice.
func TestFlockNoNotice(t *testing.T) {
	b := newBench(t)
	letGo := b.fifo("go")
	holder, _ := b.startAlone("xlock", "run", "lock", "sh", "-c", "read _ <go")
	b.holding()
	silent, said := b.startAlone("xlock", "flock", "lock", "echo", "got it")
	b.await("flock waits", func() bool { return distinct(b.inspect().Kernel.Waiters) == 1 })
	later, notices := b.startAlone("xlock", "run", "lock", "true")
	notices.expect(`^xlock: waiting 1s, 1 ahead: `)
	letGo()
	if got := said.expect(`got it\n`); got != "got it\n" {
		t.Errorf("it prints %q", got)
	}
	b.ended(holder, "0")
	b.ended(silent, "0")
	b.ended(later, "0")
}
