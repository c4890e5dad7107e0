// Package blocking makes system calls on a file that may block for as long as the
// kernel likes, and gives up waiting for them when the caller wants to.
package blocking

import (
	"context"
	"os"

	"xlock/internal/eintr"
)

// Call makes a call on f's descriptor, again when a signal interrupts it, and
// returns its error.
//
// Calls such as flock(2) cannot be cancelled from within the process: closing the
// descriptor does not wake them, and the runtime's own handlers restart them. So
// when ctx ends first, Call returns ctx's error and *keeps f*: a goroutine stays
// behind that closes f as soon as the call returns, which gives what came too late
// back at once. The caller may close f after such an error, and must not use it
// otherwise. A process that exits takes the waiting call with it.
//
// Where other descriptors keep f's description open, undo takes back what came too late;
// it may be nil. A process can exit between the two.
func Call(ctx context.Context, f *os.File, call, undo func(fd int) error) error {
	done := make(chan error)
	go func() {
		err := Now(f, call)
		select {
		case done <- err:
		case <-ctx.Done():
			if err == nil && undo != nil {
				_ = Now(f, undo)
			}
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

// Now makes a call on f's descriptor, which does not block.
func Now(f *os.File, call func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var errCall error
	err = raw.Control(func(fd uintptr) {
		errCall = eintr.Retry(func() error { return call(int(fd)) })
	})
	if err == nil {
		err = errCall
	}
	return err
}
