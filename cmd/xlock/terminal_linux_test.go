package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"xlock/internal/lock"
	"xlock/internal/testenv"
)

// bench is where a test has its processes: a directory of their own, in which
// the lock is the file "lock". Whatever is left of them is killed at the end,
// and before if the test hangs.
type bench struct {
	t   *testing.T
	dir string
	ctx context.Context
}

func newBench(t *testing.T) bench {
	const patience = time.Minute // no test takes seconds; only a hang lasts as long
	hearIgnored()
	b := bench{t: t, dir: t.TempDir()}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	b.ctx = ctx
	context.AfterFunc(ctx, func() { killAll(b.dir) })
	t.Cleanup(func() { cancel(); killAll(b.dir) })
	return b
}

// hearIgnored has signals that this process was started to ignore, say by
// nohup(1), get their default action in the programs that it starts.
func hearIgnored() {
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

func (b bench) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b bench) path(name string) string { return filepath.Join(b.dir, name) }

// program writes a program that can be run as ./name.
func (b bench) program(name, text string) {
	b.t.Helper()
	b.check(os.WriteFile(b.path(name), []byte(text), 0o755))
}

// command is a program to be run on the bench. TestMain has put xlock on PATH.
func (b bench) command(args ...string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), "WORK="+b.dir, "GORACE=atexit_sleep_ms=0",
		"LC_ALL=C", "PS1=prompt> ", "HISTFILE=")
	return cmd
}

// await looks again and again for what nobody tells.
func (b bench) await(what string, is func() bool) {
	b.t.Helper()
	for !is() {
		if b.ctx.Err() != nil {
			b.t.Fatalf("it did not come about that %s", what)
		}
		runtime.Gosched()
	}
}

func (b bench) inspect() *lock.Report {
	b.t.Helper()
	report, err := lock.Inspect(b.path("lock"))
	b.check(err)
	return report
}

// holding waits until the record names the command, and returns whose numbers
// stand there: the wrapper's and the command's.
func (b bench) holding() (owner, command int) {
	b.t.Helper()
	b.await("the record names the command", func() bool {
		r := b.inspect().Content.Record
		if r == nil || r.State != lock.StateHeld || r.Command == nil || r.Command.PID == 0 {
			return false
		}
		owner, command = r.Owner.PID, r.Command.PID
		return true
	})
	return owner, command
}

// released fails the test unless the lock was given back: by the kernel and in
// the record.
func (b bench) released() {
	b.t.Helper()
	report := b.inspect()
	record := report.Content.Record
	if report.State != lock.Free || record == nil || record.State != lock.StateFree || len(report.Kernel.Holders) > 0 {
		b.t.Errorf("the lock was not given back: %+v, record %+v, holders %v", report.Judgement, record, report.Kernel.Holders)
	}
}

func (b bench) send(pid int, sigs ...syscall.Signal) {
	b.t.Helper()
	for _, sig := range sigs {
		if err := unix.Kill(pid, sig); err != nil {
			b.t.Fatalf("%v to %d: %v", sig, pid, err)
		}
	}
}

// state is the letter that stands for what a process does (proc_pid_stat(5)).
func (b bench) state(pid int) string {
	b.t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	b.check(err)
	_, fields, _ := strings.Cut(string(stat), ") ")
	return fields[:1]
}

// hold stops a child of the test, until it gets a SIGCONT: what is sent to it
// meanwhile comes after what the others have done with theirs.
func (b bench) hold(pid int) {
	b.t.Helper()
	b.send(pid, unix.SIGSTOP)
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		err = unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
	}
	b.check(err)
}

// ended waits for the end of a program and fails the test unless it ended so:
// an exit status, or the name of a signal.
func (b bench) ended(cmd *exec.Cmd, want string) {
	b.t.Helper()
	var exit *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &exit) {
		b.t.Fatal(err)
	}
	got := fmt.Sprint(cmd.ProcessState.ExitCode())
	if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); ws.Signaled() {
		got = unix.SignalName(ws.Signal())
	}
	if got != want {
		b.t.Errorf("%v ended with %s, want %s", cmd.Args, got, want)
	}
}

// fifo makes one that a program reads, and returns what lets it go on. The
// test has it open for reading too, so that nothing here waits for the program.
func (b bench) fifo(name string) (letGo func()) {
	b.t.Helper()
	b.check(unix.Mkfifo(b.path(name), 0o600))
	f, err := os.OpenFile(b.path(name), os.O_RDWR, 0)
	b.check(err)
	b.t.Cleanup(func() { f.Close() })
	return func() {
		b.t.Helper()
		_, err := f.WriteString("go\n")
		b.check(err)
	}
}

// gone reports that a process has ended, and so does a zombie, which is there
// for as long as whoever inherited it does not look.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, fields, _ := strings.Cut(string(stat), ") ")
	return err != nil || strings.HasPrefix(fields, "Z")
}

// watched is what programs print, as it comes.
type watched struct {
	bench
	from    *os.File
	pending string // read, and not yet passed by expect
}

// expect reads until the pattern matches, and returns all that was printed from
// the last match to the end of this one.
func (w *watched) expect(pattern string) string {
	w.t.Helper()
	re := regexp.MustCompile(pattern)
	for {
		if at := re.FindStringIndex(w.pending); at != nil {
			text := w.pending[:at[1]]
			w.pending = w.pending[at[1]:]
			return text
		}
		buffer := make([]byte, 4096)
		n, err := w.from.Read(buffer)
		w.pending += string(buffer[:n])
		if err != nil {
			w.t.Fatalf("no %q came: %v; since the last: %q", pattern, err, w.pending)
		}
	}
}

// startAlone starts a program in a session of its own, without a terminal.
func (b bench) startAlone(args ...string) (*exec.Cmd, *watched) {
	b.t.Helper()
	r, w, err := os.Pipe()
	b.check(err)
	b.t.Cleanup(func() { r.Close() })
	cmd := b.command(args...)
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	b.check(cmd.Start())
	w.Close()
	return cmd, &watched{bench: b, from: r}
}

// terminal is a pseudoterminal (pty(7)), of which the test has the side of
// the keyboard and the screen.
type terminal struct {
	watched
	fd   int
	line string // the path of the programs' side
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	b := newBench(t)
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		testenv.LeaveOut(t, "there is no /dev/ptmx")
	}
	b.check(unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	b.check(err)
	tty := &terminal{fd: fd, line: fmt.Sprintf("/dev/pts/%d", number)}
	tty.watched = watched{bench: b, from: os.NewFile(uintptr(fd), tty.line)}
	t.Cleanup(tty.hangUp)
	return tty
}

// start starts a program as the leader of a session on this terminal, and in
// its foreground.
func (tty *terminal) start(args ...string) *exec.Cmd {
	tty.t.Helper()
	line, err := os.OpenFile(tty.line, os.O_RDWR|unix.O_NOCTTY, 0)
	tty.check(err)
	defer line.Close()
	cmd := tty.command(args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = line, line, line
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	tty.check(cmd.Start())
	return cmd
}

// shell starts an interactive bash, which has job control.
func (tty *terminal) shell() *exec.Cmd {
	tty.t.Helper()
	testenv.Need(tty.t, "bash")
	cmd := tty.start("bash", "--norc", "--noprofile", "--noediting", "-i")
	tty.expect("prompt> ")
	return cmd
}

func (tty *terminal) typeKeys(keys string) {
	tty.t.Helper()
	_, err := tty.from.WriteString(keys)
	tty.check(err)
}

// resize changes the size of the window.
func (tty *terminal) resize(rows uint16) {
	tty.t.Helper()
	tty.check(unix.IoctlSetWinsize(tty.fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: 80}))
}

// foreground is the process group that gets what is typed.
func (tty *terminal) foreground() int {
	tty.t.Helper()
	group, err := unix.IoctlGetInt(tty.fd, unix.TIOCGPGRP)
	tty.check(err)
	return group
}

// hangUp takes the keyboard and the screen away.
func (tty *terminal) hangUp() { tty.from.Close() }

// The keys that send a signal (termios(3)).
const (
	keyInterrupt = "\x03"
	keyQuit      = "\x1c"
	keySuspend   = "\x1a"
)
