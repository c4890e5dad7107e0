package main

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"xlock/internal/lock"
)

// A lock that is granted when its wait has run out is not kept: the caller's
// descriptor would hold it, and nobody would know.
func TestFlockTooLate(t *testing.T) {
	b := newBench(t)
	open := func() *os.File {
		f, err := os.OpenFile(b.path("lock"), os.O_RDWR|os.O_CREATE, 0o600)
		b.check(err)
		t.Cleanup(func() { f.Close() })
		return f
	}
	holder, next := int(open().Fd()), int(open().Fd())
	b.check(unix.Flock(holder, unix.LOCK_EX))
	waiter := &flockLock{opts: flockOptions{wait: flockWait{set: true, duration: time.Nanosecond}}, file: open()}
	keeper, err := unix.Dup(int(waiter.file.Fd())) // as the caller has one
	b.check(err)
	defer unix.Close(keeper)
	var held *lock.HeldError
	if err := waiter.acquire(); !errors.As(err, &held) || !held.TimedOut {
		t.Fatalf("the wait ended with %v", err)
	}
	queued := func(n int) { b.await("they wait", func() bool { return len(b.inspect().Kernel.Waiters) == n }) }
	queued(1)
	done := make(chan error, 1)
	go func() { done <- unix.Flock(next, unix.LOCK_EX) }()
	queued(2)
	b.check(unix.Flock(holder, unix.LOCK_UN))
	select {
	case err := <-done:
		b.check(err)
	case <-b.ctx.Done():
		t.Error("the lock was not given back")
	}
}
