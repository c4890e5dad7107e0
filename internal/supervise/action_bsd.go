//go:build darwin || freebsd

package supervise

import (
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func resetToDefault(sig syscall.Signal) { signal.Reset(sig) }

func ignored(sig syscall.Signal) bool { return signal.Ignored(sig) }

// unblock cannot be had from x/sys here.
func unblock(...syscall.Signal) (undo func()) { return func() {} }

func dieBy(sig syscall.Signal) {
	resetToDefault(sig)
	_ = unix.Kill(unix.Getpid(), sig)
	time.Sleep(time.Second) // it may be another thread that acts on it
}
