//go:build darwin || freebsd

package supervise

import (
	"syscall"

	"golang.org/x/sys/unix"
)

func relayedHere() []syscall.Signal { return []syscall.Signal{unix.SIGINFO} }
