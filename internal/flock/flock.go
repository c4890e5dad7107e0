// Package flock takes and gives up the kernel's advisory lock of flock(2),
// and does nothing else.
//
// The lock belongs to the open file description (open(2)), not to the process
// or the thread: every descriptor that was inherited or duplicated from the
// one that took it shares the lock, and [Unlock] through any of them ends it
// for all. A description that is closed everywhere loses its lock.
//
// Errors are *[fs.PathError] with Op "flock", so that errors.Is on an errno
// works.
package flock

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"xlock/internal/blocking"
)

// ErrBusy is what [TryLock] returns when another open file description holds
// the lock. It matches [syscall.EWOULDBLOCK] too.
var ErrBusy error = syscall.EWOULDBLOCK

// Kind is what a lock lets in beside itself.
type Kind int

const (
	// Exclusive locks let nobody in.
	Exclusive Kind = unix.LOCK_EX
	// Shared locks let other shared ones in. The kernel grants one even while
	// somebody waits for an exclusive lock (measured on Linux 6.18).
	Shared Kind = unix.LOCK_SH
)

// TryLock takes the lock without waiting for another holder.
// It fails with an error that matches [ErrBusy] when somebody holds it.
// A description that holds the lock already gets it again: nil. One that holds the
// other kind loses that first, and may come away without any (flock(2)).
//
// Even so a file system whose server does not answer (FUSE, NFS) can keep it
// waiting. When ctx ends first, it returns and keeps f as [Lock] does.
func TryLock(ctx context.Context, f *os.File, kind Kind) error {
	return callUntil(ctx, f, int(kind)|unix.LOCK_NB)
}

// Lock takes the lock and waits for it in the kernel, which grants
// waiting calls in the order of their arrival (measured on Linux 6.18).
//
// When ctx ends first, Lock returns ctx's error and *keeps f*, as
// [blocking.Call] does.
func Lock(ctx context.Context, f *os.File, kind Kind) error {
	return callUntil(ctx, f, int(kind))
}

// callUntil gives back what is granted too late: the description may have other
// descriptors, which keep it open.
func callUntil(ctx context.Context, f *os.File, how int) error {
	return named(f, blocking.Call(ctx, f, flock(how), flock(unix.LOCK_UN)))
}

func flock(how int) func(fd int) error {
	return func(fd int) error { return unix.Flock(fd, how) }
}

// Abandoned reports whether err is an error after which [Lock] and [TryLock] keep
// the file.
func Abandoned(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Unlock ends the lock of f's open file description, in whichever processes
// its descriptors are open. It does not fail when there is no lock.
func Unlock(f *os.File) error {
	return named(f, blocking.Now(f, flock(unix.LOCK_UN)))
}

func named(f *os.File, err error) error {
	if err == nil || Abandoned(err) {
		return err
	}
	return &fs.PathError{Op: "flock", Path: f.Name(), Err: err}
}
