package main

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// outcomeIsHangup fails the test unless the record says that the command was
// ended by HUP.
func (b bench) outcomeIsHangup() {
	b.t.Helper()
	b.released()
	if o := b.inspect().Content.Record.Outcome; o == nil || o.Signal != "SIGHUP" {
		b.t.Errorf("the command's outcome is %+v, want SIGHUP", o)
	}
}

// The window is closed while a job is in the foreground of its shell, which
// hands the hang-up on to its jobs (bash(1)).
func TestHangUpOfShell(t *testing.T) {
	for _, line := range []string{"xlock run lock ./tell INT", "xlock run -o lock ./tell INT", "xlock run lock ./tell INT &"} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			tty := newTerminal(t)
			tty.addListener()
			shell := tty.shell()
			tty.typeKeys(line + "\n")
			tty.expect(`ready`)
			xlock, command := tty.holding()
			tty.hangUp()
			tty.ended(shell, "SIGHUP")
			tty.await("xlock has ended", func() bool { return gone(xlock) })
			if !gone(command) {
				t.Error("the command is still there")
			}
			tty.outcomeIsHangup()
		})
	}
}

// The window is closed and xlock is what was started in it, as by ssh -t, xterm
// -e or docker run -t. The kernel then tells the leader of the session alone
// (tty_vhangup(9)), which is xlock; without it the command would be.
func TestHangUpOfLeader(t *testing.T) {
	for _, opts := range [][]string{{"run"}, {"run", "-o"}, {"run", "-F"}} {
		t.Run(fmt.Sprint(opts), func(t *testing.T) {
			t.Parallel()
			tty := newTerminal(t)
			tty.addListener()
			xlock := tty.start(append(append([]string{"xlock"}, opts...), "lock", "./tell", "INT")...)
			tty.expect(`ready`)
			tty.hangUp()
			tty.ended(xlock, "SIGHUP")
			if opts[len(opts)-1] == "-F" { // nobody was left to write the record
				return
			}
			tty.outcomeIsHangup()
		})
	}
}

// What was started in the window is a script, which dies of it. The kernel then
// tells the foreground of the session that has lost its leader.
func TestHangUpOfScript(t *testing.T) {
	t.Parallel()
	tty := newTerminal(t)
	tty.addListener()
	script := tty.start("sh", "-c", "xlock run lock ./tell INT; echo not reached")
	tty.expect(`ready`)
	xlock, command := tty.holding()
	tty.hangUp()
	tty.ended(script, "SIGHUP")
	tty.await("xlock has ended", func() bool { return gone(xlock) })
	if !gone(command) {
		t.Error("the command is still there")
	}
	tty.outcomeIsHangup()
}

// With nohup(1) both go on.
func TestHangUpIgnored(t *testing.T) {
	t.Parallel()
	tty := newTerminal(t)
	letGo := tty.fifo("go")
	shell := tty.shell()
	tty.typeKeys("nohup xlock run lock sh -c 'echo ready >/dev/tty; read x <go; echo $x >said'\n")
	tty.expect(`ready\r\n`)
	xlock, _ := tty.holding()
	tty.hangUp()
	tty.ended(shell, "SIGHUP") // after it has sent its own to the jobs
	tty.send(xlock, unix.SIGHUP)
	letGo()
	tty.await("xlock has ended", func() bool { return gone(xlock) })
	said, err := os.ReadFile(tty.path("said"))
	tty.check(err)
	if string(said) != "go\n" {
		t.Errorf("the command read %q", said)
	}
	tty.released()
}
