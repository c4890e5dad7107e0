// Package turnstile keeps readers of a lock from overtaking a writer that waits.
//
// The kernel grants a shared flock(2) lock even while somebody waits for an
// exclusive one, so readers that overlap keep a writer out for ever. The
// turnstile is a second lock that comes before: whoever waits for the exclusive
// lock keeps it, and every reader passes it before asking for the shared lock. It
// is one byte of the same file, far beyond anything that is written there, locked
// by fcntl(2).
//
// Each use takes an open file description of its own on the lock file, open for writing
// to keep it and for reading to pass it, since the lock of flock(2) and this one must be
// given up at different times.
//
// On macOS and FreeBSD the locks of flock(2) and fcntl(2) exclude each other (kern_lockf.c
// of both compares owners and bytes alone), so that there is no turnstile: everybody
// passes, and readers may overtake.
package turnstile

import (
	"context"
	"os"
	"syscall"
)

// Place is the byte: far behind any record. The file need not be that long.
const Place = 1 << 62

// ErrClosed is what [TryKeep] and [TryPass] return while somebody keeps the
// turnstile.
var ErrClosed error = syscall.EAGAIN

// TryKeep keeps the turnstile until f is closed, or fails with [ErrClosed].
func TryKeep(f *os.File) error { return tryKeep(f) }

// Keep waits for the turnstile and keeps it until f is closed. When ctx ends first
// it keeps f, as [xlock/internal/blocking.Call] does.
func Keep(ctx context.Context, f *os.File) error { return keep(ctx, f) }

// Pass waits until no writer keeps the turnstile. When ctx ends first it keeps f,
// as [xlock/internal/blocking.Call] does.
func Pass(ctx context.Context, f *os.File) error { return pass(ctx, f) }

// TryPass fails with [ErrClosed] if a writer keeps the turnstile. A lock of another
// program's on more than the one byte is none of ours.
func TryPass(f *os.File) error { return tryPass(f) }
