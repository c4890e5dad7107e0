package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"xlock/internal/testenv"
)

// endings are the signals that tell a process to end.
func endings() []syscall.Signal {
	return []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM}
}

// lockFile is all there is to see of the lock file without reading it again.
func (b bench) lockFile() string {
	b.t.Helper()
	info, err := os.Stat(b.path("lock"))
	b.check(err)
	text, err := os.ReadFile(b.path("lock"))
	b.check(err)
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("inode %d, mode %v, modified %v: %s", st.Ino, info.Mode(), info.ModTime(), text)
}

func (b bench) awaitWaiters(n int) {
	b.t.Helper()
	b.await("the kernel shows who waits", func() bool { return distinct(b.inspect().Kernel.Waiters) == n })
}

// rest is what is printed until the end.
func (w *watched) rest() string {
	w.t.Helper()
	text, err := io.ReadAll(w.from)
	w.check(err)
	return w.pending + string(text)
}

// Who waits can be told to end, and ends by the very signal: at once, silently,
// and as if it had never been there.
func TestToldToEndWhileWaiting(t *testing.T) {
	for _, line := range []string{"run -q", "run -q -w 1h", "run -q -F"} {
		for _, sig := range endings() {
			t.Run(line+" "+perlName(sig), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.addListener()
				holder, held := b.startAlone("xlock", "run", "lock", "./tell")
				held.expect(`ready`)
				before := b.lockFile()
				waiter, said := b.startAlone(append(append([]string{"xlock"}, strings.Fields(line)...), "lock", "touch", "ran")...)
				b.awaitWaiters(1)
				b.send(waiter.Process.Pid, sig)
				b.ended(waiter, unix.SignalName(sig))
				if text := said.rest(); text != "" {
					t.Errorf("the waiter said %q", text)
				}
				b.undisturbed(before)
				held.endsListening(holder)
			})
		}
	}
}

// undisturbed fails the test if one that waited has left anything.
func (b bench) undisturbed(before string) {
	b.t.Helper()
	if n := len(b.inspect().Kernel.Waiters); n != 0 {
		b.t.Errorf("the kernel shows %d waiting", n)
	}
	if now := b.lockFile(); now != before {
		b.t.Errorf("the lock file was %s, and is %s", before, now)
	}
	if _, err := os.Stat(b.path("ran")); err == nil {
		b.t.Error("the command of the one that waited has run")
	}
}

// The same where nobody has the kernel's lock any more: the wrapper was killed,
// and its command is waited for.
func TestToldToEndWhileWaitingForProcess(t *testing.T) {
	for _, sig := range endings() {
		t.Run(perlName(sig), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.addListener()
			holder, held := b.startAlone("xlock", "run", "-o", "lock", "./tell")
			held.expect(`ready`)
			_, command := b.holding()
			b.send(holder.Process.Pid, unix.SIGKILL)
			b.ended(holder, "SIGKILL")
			before := b.lockFile()
			waiter, said := b.startAlone("xlock", "run", "lock", "touch", "ran")
			said.expect(`^xlock: .*\n`)
			b.send(waiter.Process.Pid, sig)
			b.ended(waiter, unix.SignalName(sig))
			if text := said.rest(); text != "" {
				t.Errorf("the waiter said %q", text)
			}
			b.undisturbed(before)
			b.send(command, realTimeMax)
			held.expect(`end\n`)
		})
	}
}

// A signal that comes while a process waits to become the command, which is when
// the record is written: the command does not run, and the lock is given back.
func TestToldToEndBeforeCommand(t *testing.T) {
	testenv.Need(t, "strace")
	for _, sig := range endings() {
		t.Run(perlName(sig), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			xlock, said := b.startAlone("strace", "-f", "-o", "trace", "-e", "trace=clone,execve,pwrite64",
				"-e", fmt.Sprintf("inject=pwrite64:signal=%d", sig), "xlock", "run", "lock", "touch", "ran")
			b.ended(xlock, unix.SignalName(sig))
			if text := said.rest(); text != "" {
				t.Errorf("it said %q", text)
			}
			b.noCommandRan()
			b.released()
		})
	}
}

// noCommandRan fails the test if the command did anything, and also if there
// never was a process for it.
func (b bench) noCommandRan() {
	b.t.Helper()
	if _, err := os.Stat(b.path("ran")); err == nil {
		b.t.Error("the command has run")
	}
	trace, err := os.ReadFile(b.path("trace"))
	b.check(err)
	if !strings.Contains(string(trace), "SIGCHLD)") {
		b.t.Errorf("no process was made for the command: %s", trace)
	}
}
