package eintr_test

import (
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"xlock/internal/eintr"
)

// poll(2) is not restarted after a signal, whatever SA_RESTART says (signal(7)).
func TestRetryOfAnInterruptedPoll(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGUSR1)
	defer signal.Stop(signals)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()

	var calls atomic.Int32
	thread, done := make(chan int), make(chan error)
	go func() {
		runtime.LockOSThread()
		thread <- unix.Gettid()
		fds := []unix.PollFd{{Fd: int32(r.Fd()), Events: unix.POLLIN}}
		done <- eintr.Retry(func() error {
			calls.Add(1)
			_, err := unix.Poll(fds, -1)
			return err
		})
	}()
	for tid := <-thread; calls.Load() < 3; runtime.Gosched() {
		if err := unix.Tgkill(unix.Getpid(), tid, unix.SIGUSR1); err != nil {
			t.Fatal(err)
		}
	}
	w.Close() // ends the poll
	if err := <-done; err != nil {
		t.Errorf("Retry = %v", err)
	}
}
