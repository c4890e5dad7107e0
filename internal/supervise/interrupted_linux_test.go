package supervise_test

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"xlock/internal/supervise"
)

// roleInterrupted starts the command of its arguments, gets the signal of its
// first one, and runs the command. The signal is sent to the thread that sends
// it, and has come when the call returns (tgkill(2)).
func roleInterrupted() int {
	os.Unsetenv("XLOCK_TEST_ROLE")
	sig, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return roleFailed(err)
	}
	command, err := supervise.Find(os.Args[2:])
	if err != nil {
		return roleFailed(err)
	}
	process, err := command.Start()
	if err != nil {
		return roleFailed(err)
	}
	runtime.LockOSThread()
	if err := unix.Tgkill(unix.Getpid(), unix.Gettid(), syscall.Signal(sig)); err != nil {
		return roleFailed(err)
	}
	began := false
	_, err = process.Run(func() { began = true })
	var interrupted *supervise.InterruptedError
	if errors.As(err, &interrupted) {
		fmt.Printf("%s, ", unix.SignalName(interrupted.Signal))
	}
	fmt.Printf("began %t, left %t\n", began, unix.Kill(process.PID(), 0) == nil)
	return 0
}

// A supervisor that is told to end while the command waits at the gate does not
// let it through, and leaves no process.
func TestInterruptedBeforeCommand(t *testing.T) {
	for _, sig := range []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			if signal.Ignored(sig) { // by nohup(1), say; then so does what is started
				signal.Notify(make(chan os.Signal, 1), sig)
			}
			ran := filepath.Join(t.TempDir(), "ran")
			got := output(t, again(t, "interrupted", nil, strconv.Itoa(int(sig)), "touch", ran))
			if want := unix.SignalName(sig) + ", began false, left false"; got != want {
				t.Errorf("%q, want %q", got, want)
			}
			if _, err := os.Stat(ran); err == nil {
				t.Error("the command has run")
			}
		})
	}
}

// Any other signal is the command's.
func TestNotInterruptedBeforeCommand(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	for _, sig := range []syscall.Signal{unix.SIGWINCH, unix.SIGCONT} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			got := output(t, again(t, "interrupted", nil, strconv.Itoa(int(sig)), "touch", ran))
			if want := "began true, left false"; got != want {
				t.Errorf("%q, want %q", got, want)
			}
			check(t, os.Remove(ran))
		})
	}
}

// The process at the gate can be killed itself: it has not become the command.
func TestKilledAtTheGate(t *testing.T) {
	command, err := supervise.Find([]string{"true"})
	check(t, err)
	process, err := command.Start()
	check(t, err)
	check(t, unix.Kill(process.PID(), unix.SIGKILL))
	_, err = process.Run(func() { t.Error("said to have begun") })
	var interrupted *supervise.InterruptedError
	if !errors.As(err, &interrupted) || interrupted.Signal != unix.SIGKILL {
		t.Errorf("Run = %v, want an InterruptedError by SIGKILL", err)
	}
}
