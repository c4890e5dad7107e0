// Command ffi is package lock as a C library, through which tests hold a lock
// in a process that is not Go's. Build it with -buildmode=c-shared.
package main

import "C"

import (
	"context"
	"errors"
	"sync/atomic"

	"xlock/internal/lock"
)

// The statuses are those of xlock run, made negative.
const (
	statusSystem   = -71
	statusBusy     = -75
	statusDeadlock = -78
)

// held keeps the hold from the garbage collector, which would close its file.
var held atomic.Pointer[lock.Lock]

// Take takes the lock at path without waiting. It returns the generation, or a
// negative status.
//
//export Take
func Take(path *C.char) C.int {
	l, err := lock.Acquire(context.Background(), C.GoString(path), lock.Options{
		Mode:   lock.Process,
		NoWait: true,
	})
	if err != nil {
		return status(err)
	}
	held.Store(l)
	return C.int(l.Generation())
}

// Release gives back what was taken last. It returns 0 or a negative status.
//
//export Release
func Release() C.int {
	l := held.Swap(nil)
	if l == nil {
		return statusSystem
	}
	return status(l.Release(nil))
}

func status(err error) C.int {
	var busy *lock.HeldError
	var deadlock *lock.DeadlockError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &busy):
		return statusBusy
	case errors.As(err, &deadlock):
		return statusDeadlock
	}
	return statusSystem
}

func main() {}
