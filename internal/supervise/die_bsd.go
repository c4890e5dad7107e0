//go:build darwin || freebsd

package supervise

import (
	"os/signal"
	"syscall"
)

func resetToDefault(sig syscall.Signal) { signal.Reset(sig) }
