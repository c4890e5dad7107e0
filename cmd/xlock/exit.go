package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"xlock/internal/lock"
	"xlock/internal/supervise"
)

// The exit statuses of xlock itself, those of <sysexits.h> and of shells.
const (
	statusUsage         = 64
	statusSystem        = 71
	statusCannotOpen    = 73
	statusBusy          = 75
	statusDeadlock      = 78
	statusNotExecutable = 126
	statusNotFound      = 127
	statusBySignal      = 128 // and the signal's number
)

// usageError is a command line that makes no sense.
type usageError struct{ message string }

func (e usageError) Error() string { return e.message }

// startError: the command could not be started.
type startError struct{ err error }

func (e startError) Error() string { return e.err.Error() }
func (e startError) Unwrap() error { return e.err }

// outputError: what was asked for could not be printed.
type outputError struct{ err error }

func (e outputError) Error() string { return e.err.Error() }
func (e outputError) Unwrap() error { return e.err }

// statusError carries an exit status that needs no message.
type statusError int

func (e statusError) Error() string { return fmt.Sprintf("status %d", int(e)) }

// signalError: the command was ended by a signal.
type signalError struct{ signal syscall.Signal }

func (e signalError) Error() string { return e.signal.String() }

// exitStatus reports err to the user and gives the status to exit with. It
// does not return if a signal ended the command: xlock ends by the same.
func exitStatus(err error) int {
	var status statusError
	var died signalError
	var interrupted *supervise.InterruptedError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	case errors.As(err, &died):
		return dieBy(died.signal)
	case errors.As(err, &interrupted):
		return dieBy(interrupted.Signal)
	}
	say(os.Stderr, describe(err))
	return statusOf(err)
}

// dieBy returns where a signal does not end us.
func dieBy(sig syscall.Signal) int {
	supervise.DieBy(sig)
	return statusBySignal + int(sig)
}

func statusOf(err error) int {
	var usage usageError
	var start startError
	var held *lock.HeldError
	var deadlock *lock.DeadlockError
	var output outputError
	var interrupted *supervise.InterruptedError
	switch {
	case errors.As(err, &usage):
		return statusUsage
	case errors.As(err, &output):
		return statusSystem
	case errors.As(err, &interrupted):
		return statusBySignal + int(interrupted.Signal)
	case errors.As(err, &start):
		return statusOfStart(err)
	case errors.As(err, &held), errors.As(err, new(*lock.GenerationError)), errors.Is(err, lock.ErrLost):
		return statusBusy
	case errors.As(err, &deadlock):
		return statusDeadlock
	case isFileError(err):
		return statusCannotOpen
	case isUnknownCommand(err):
		return statusUsage
	}
	return statusSystem
}

// statusOfStart tells a command that cannot be executed from a system that has
// no room for another process.
func statusOfStart(err error) int {
	var path *fs.PathError
	switch {
	case !errors.As(err, &path):
		return statusSystem
	case errors.Is(err, fs.ErrNotExist):
		return statusNotFound
	}
	return statusNotExecutable
}

// isFileError: what went wrong is about the lock file. Running out of
// descriptors or memory is about this process.
func isFileError(err error) bool {
	var path *fs.PathError
	if !errors.As(err, &path) {
		return false
	}
	for _, ours := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, ours) {
			return false
		}
	}
	return true
}
