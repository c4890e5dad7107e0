package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"xlock/internal/lock"
)

// The messages of flock(1), in its words: those of util-linux 2.42.

const (
	flockName    = "flock"
	flockTryHelp = "Try 'flock --help' for more information."
)

// sayFlock prints an error's messages, if it has any.
func sayFlock(f *os.File, err *flockError) {
	if err.message != "" {
		sayLine(f, flockMessage(err.message))
	}
	if err.holder != "" {
		sayLine(f, flockMessage(err.holder))
	}
	if err.tryHelp {
		sayLine(f, flockTryHelp)
	}
}

func flockMessage(text string) string { return flockName + ": " + escape(text) }

func flockLine(text string) string { return flockMessage(text) + "\n" }

// flockBusy has flock(1)'s message if --verbose asks for it, and on a terminal that
// of xlock run.
func flockBusy(l *flockLock, held *lock.HeldError) *flockError {
	err := &flockError{status: l.opts.conflict}
	switch {
	case !l.opts.verbose:
	case held.TimedOut:
		err.message = "timeout while waiting to get lock"
	default:
		err.message = "failed to get lock"
	}
	if isTerminal(os.Stderr) {
		err.holder = l.busy(held.TimedOut)
	}
	return err
}

func flockTook(d time.Duration) string {
	return fmt.Sprintf("getting lock took %d.%06d seconds", d/time.Second, d%time.Second/time.Microsecond)
}

// flockValueError names a value that cannot be used, and says why if that is more
// than its form.
func flockValueError(what, text string, err error) error {
	message := flockBadValue(what, text)
	if errors.Is(err, unix.ERANGE) {
		message += ": " + cError(err)
	}
	return flockUsageError(message)
}

func flockBadValue(what, text string) string { return what + ": '" + text + "'" }

// cError is strerror(3) of the errno in an error, also where package exec has put
// another error in its place.
func cError(err error) string {
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno):
	case errors.Is(err, fs.ErrNotExist):
		errno = unix.ENOENT
	case errors.Is(err, fs.ErrPermission):
		errno = unix.EACCES
	default:
		return err.Error()
	}
	text := errno.Error()
	return strings.ToUpper(text[:1]) + text[1:]
}

func flockVersion() string {
	return strings.Replace(version(), "xlock", "flock from xlock", 1) + ", as of util-linux 2.42\n"
}

const flockHelp = `
Usage:
 flock [options] <file>|<directory> <command> [<argument>...]
 flock [options] <file>|<directory> -c <command>
 flock [options] <file descriptor number>
 flock [options] --fd <number> <command> [<argument>...]
 flock [options] --fd <number> -c <command>

Run a command under a lock, or lock a descriptor of the shell.

Options:
 -s, --shared             take a shared lock
 -x, -e, --exclusive      take an exclusive lock (default)
 -u, --unlock             give a lock up
 -n, --nb, --nonblocking  do not wait for a busy lock
 -w, --wait, --timeout <seconds>  wait so long at most (0: as -n)
 -E, --conflict-exit-code <number>  status for a busy lock (default: 1)
 -o, --close              do not pass the lock's descriptor to the command
 -c, --command <command>  have $SHELL run the command, which is one string
 -F, --no-fork            become the command, which keeps the lock
     --fcntl              lock with fcntl(F_OFD_SETLK), not with flock(2)
     --start <offset>     first byte to lock (implies --fcntl)
     --length <number>    bytes to lock, 0 for all (implies --fcntl)
     --fd <number>        lock this descriptor, and run a command
     --verbose            say how long it took, and what is run

 -h, --help               print this help
 -V, --version            print the version

EXAMPLES
  flock /run/lock/deploy.lock ./deploy.sh
      wait for the lock, then run
  flock -n -E 75 /run/lock/backup.lock -c 'backup >/var/log/backup'
      do not wait: status 75 if somebody holds the lock
  (flock -n 9 || exit 1; ./deploy.sh) 9>/run/lock/deploy.lock
      lock a descriptor for a part of a script

EXIT STATUS
  the command's own, or 128 and the number of the signal that ended it
  1    the lock is busy, or the wait ran out (or what -E says)
  64   wrong usage
  65   the lock cannot be taken
  66   the lock file cannot be opened
  69   the command cannot be executed
  71   another system error
  73   the lock file cannot be made: no space, or a read-only file system
`
