package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"xlock/internal/lock"
	"xlock/internal/supervise"
)

func TestStatusOf(t *testing.T) {
	file := func(err error) error { return &fs.PathError{Op: "open", Path: "lock", Err: err} }
	start := func(err error) error { return startError{&fs.PathError{Op: "exec", Path: "cmd", Err: err}} }
	tests := []struct {
		name string
		err  error
		want int
	}{
		{"usage", usageError{"no"}, 64},
		{"unknown command", errors.New(`unknown command "x" for "xlock"`), 64},
		{"something else", errors.New("something else"), 71},
		{"no such directory", file(syscall.ENOENT), 73},
		{"no permission", file(syscall.EACCES), 73},
		{"read-only", file(syscall.EROFS), 73},
		{"disk full", file(syscall.ENOSPC), 73},
		{"no locks", file(syscall.ENOLCK), 73},
		{"not a lock file", file(fmt.Errorf("%w: a FIFO", lock.ErrNotLockFile)), 73},
		{"no descriptor left", file(syscall.EMFILE), 71},
		{"no file left", file(syscall.ENFILE), 71},
		{"no memory", file(syscall.ENOMEM), 71},
		{"busy", &lock.HeldError{}, 75},
		{"deadlock", &lock.DeadlockError{}, 78},
		{"wrapped", fmt.Errorf("again: %w", &lock.DeadlockError{}), 78},
		{"command not found", start(syscall.ENOENT), 127},
		{"command not executable", start(syscall.EACCES), 126},
		{"command too long", start(syscall.E2BIG), 126},
		{"no room for a process", startError{os.NewSyscallError("fork", syscall.EAGAIN)}, 71},
		{"told to end", &supervise.InterruptedError{Signal: syscall.SIGTERM}, 143},
		{"told to end at the start", startError{&supervise.InterruptedError{Signal: syscall.SIGINT}}, 130},
		{"no answer", file(syscall.ETIMEDOUT), 73},
		{"context", context.Canceled, 71},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := statusOf(test.err); got != test.want {
				t.Errorf("statusOf(%v) = %d; want %d", test.err, got, test.want)
			}
		})
	}
}

func TestConflictStatus(t *testing.T) {
	held := fmt.Errorf("again: %w", &lock.HeldError{Holder: lock.Holder{Descriptor: -1}})
	r := &runner{opts: runOptions{status: 3, quiet: true}}
	if got := r.refused(held); got != statusError(3) {
		t.Errorf("busy: %v; want status 3", got)
	}
	// -E is about a busy lock and nothing else.
	for _, err := range []error{&lock.DeadlockError{}, lock.ErrNotLockFile} {
		if got := r.refused(err); got != err {
			t.Errorf("refused(%v) = %v; want the error itself", err, got)
		}
	}
}

// TestEveryStatusIsInTheHelp keeps the help and the statuses together.
func TestEveryStatusIsInTheHelp(t *testing.T) {
	for _, status := range []int{
		statusUsage, statusSystem, statusCannotOpen, statusBusy, statusDeadlock, statusNotExecutable, statusNotFound,
	} {
		line := fmt.Sprintf("\n  %-4d ", status)
		if help := newRunCommand().Long; !strings.Contains(help, line) {
			t.Errorf("the help of run does not tell of status %d", status)
		}
	}
}
