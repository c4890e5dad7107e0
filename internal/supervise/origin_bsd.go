//go:build darwin || freebsd

package supervise

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func catch(ch chan<- os.Signal, sigs []syscall.Signal) { notify(ch, sigs) }

// arrived is not known before the signal is read.
func arrived(syscall.Signal) uint32 { return 0 }

func forget(syscall.Signal) {}

// arrivals guesses: what a terminal can send to its foreground process group,
// and comes while we are in it, is taken to come from there.
func arrivals(sig syscall.Signal) []arrival {
	byKernel := groupWide(sig) && sig != unix.SIGTERM && sig != unix.SIGCONT &&
		foregroundGroup() == unix.Getpgrp()
	return []arrival{{signal: sig, byKernel: byKernel}}
}
