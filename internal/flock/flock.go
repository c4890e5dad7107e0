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

	"xlock/internal/eintr"
)

// ErrBusy is what [TryLock] returns when another open file description holds
// the lock. It matches [syscall.EWOULDBLOCK] too.
var ErrBusy error = syscall.EWOULDBLOCK

// TryLock takes the exclusive lock without waiting for another holder.
// It fails with an error that matches [ErrBusy] when somebody holds it.
// A description that holds the lock already gets it again: nil.
//
// Even so a file system whose server does not answer (FUSE, NFS) can keep it
// waiting. When ctx ends first, it returns and keeps f as [Lock] does.
func TryLock(ctx context.Context, f *os.File) error {
	return callUntil(ctx, f, unix.LOCK_EX|unix.LOCK_NB)
}

// Lock takes the exclusive lock and waits for it in the kernel, which grants
// waiting calls in the order of their arrival (measured on Linux 6.18).
//
// flock(2) cannot be cancelled from within the process: closing the
// descriptor does not wake it, and the runtime's own handlers restart it. So
// when ctx ends first, Lock returns ctx's error and *keeps f*: a goroutine
// stays behind that closes f as soon as the kernel grants the lock or fails,
// which gives a lock that came too late back at once. The caller may close f
// after such an error, and must not use it otherwise. A process that exits takes
// the waiting call with it.
func Lock(ctx context.Context, f *os.File) error {
	return callUntil(ctx, f, unix.LOCK_EX)
}

func callUntil(ctx context.Context, f *os.File, how int) error {
	done := make(chan error)
	go func() {
		err := call(f, how)
		select {
		case done <- err:
		case <-ctx.Done():
			f.Close()
		}
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Abandoned reports whether err is an error after which [Lock] and [TryLock] keep
// the file.
func Abandoned(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// Unlock ends the lock of f's open file description, in whichever processes
// its descriptors are open. It does not fail when there is no lock.
func Unlock(f *os.File) error {
	return call(f, unix.LOCK_UN)
}

func call(f *os.File, how int) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var errFlock error
	err = raw.Control(func(fd uintptr) {
		errFlock = eintr.Retry(func() error { return unix.Flock(int(fd), how) })
	})
	if err == nil {
		err = errFlock
	}
	if err != nil {
		return &fs.PathError{Op: "flock", Path: f.Name(), Err: err}
	}
	return nil
}
