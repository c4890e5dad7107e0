// Package turnstile keeps readers of a lock from overtaking a writer that waits.
//
// The kernel grants a shared flock(2) lock even while somebody waits for an
// exclusive one, so readers that overlap keep a writer out for ever. The
// turnstile is a second lock that comes before: whoever waits for the exclusive
// lock keeps it, and every reader passes it before asking for the shared lock. It
// is one byte of the same file, far beyond anything that is written there, locked
// by fcntl(2).
//
// Each use takes an open file description of its own on the lock file, open for
// reading and writing, since the lock of flock(2) and this one must be given up at
// different times.
package turnstile

import (
	"context"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"xlock/internal/blocking"
)

// Place is the byte. No file system has files that long.
const Place = 1 << 62

// ErrClosed is what [TryKeep] and [TryPass] return while somebody keeps the
// turnstile.
var ErrClosed error = syscall.EAGAIN

// TryKeep keeps the turnstile until f is closed, or fails with [ErrClosed].
func TryKeep(f *os.File) error { return blocking.Now(f, call(try, unix.F_WRLCK)) }

// Keep waits for the turnstile and keeps it until f is closed. When ctx ends first
// it keeps f, as [blocking.Call] does.
func Keep(ctx context.Context, f *os.File) error {
	return blocking.Call(ctx, f, call(wait, unix.F_WRLCK))
}

// Pass waits until no writer keeps the turnstile. When ctx ends first it keeps f,
// as [blocking.Call] does.
func Pass(ctx context.Context, f *os.File) error {
	if err := TryPass(f); err != ErrClosed {
		return err
	}
	if err := blocking.Call(ctx, f, call(wait, unix.F_RDLCK)); err != nil {
		return err
	}
	return blocking.Now(f, call(try, unix.F_UNLCK))
}

// TryPass fails with [ErrClosed] if a writer keeps the turnstile. A lock of another
// program's on more than the one byte is none of ours.
func TryPass(f *os.File) error {
	found := byteLock(unix.F_RDLCK)
	err := blocking.Now(f, func(fd int) error { return unix.FcntlFlock(uintptr(fd), query, &found) })
	if err == nil && found.Type == unix.F_WRLCK && found.Start == Place && found.Len == 1 {
		return ErrClosed
	}
	return err
}

func call(command int, kind int16) func(fd int) error {
	return func(fd int) error {
		lock := byteLock(kind)
		return unix.FcntlFlock(uintptr(fd), command, &lock)
	}
}

func byteLock(kind int16) unix.Flock_t {
	return unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: Place, Len: 1}
}
