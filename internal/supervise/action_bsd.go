//go:build darwin || freebsd

package supervise

import (
	"os/signal"
	"syscall"
)

func resetToDefault(sig syscall.Signal) { signal.Reset(sig) }

func ignored(sig syscall.Signal) bool { return signal.Ignored(sig) }

// unblock cannot be had from x/sys here.
func unblock(...syscall.Signal) (undo func()) { return func() {} }
