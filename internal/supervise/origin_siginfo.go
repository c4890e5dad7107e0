//go:build linux && (amd64 || arm64 || arm)

package supervise

import (
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Who sent a signal stands in its siginfo_t (sigaction(2)), which os/signal does
// not show; and signalfd(2) needs every thread to block the signal, which those
// of the Go runtime do not. So a few instructions in front of the runtime's handler
// note down the signal and what si_code says. To the runtime they then pass it
// as a SIGUSR1, the bell: asking os/signal for one signal costs as little as all
// else here, for forty it would take as long as the start of a command.
//
// These variables are package state for want of an alternative: a signal handler
// gets no argument from whoever has installed it.
var (
	sentByKernel  [signalNumbers]uint32 // si_code above 0
	sentByProcess [signalNumbers]uint32
	//lint:ignore U1000 the assembler's to read
	nextHandler uintptr // the runtime's
)

const signalNumbers = 65 // 1 to 64

// noteOriginPC is the address of noteOrigin in origin_*.s. It is a variable of
// the assembler's, as the address that Go gives for a function is that of an
// adapter to its own calling convention.
var noteOriginPC uintptr

// catch has the signals noted, and rings ch for them.
func catch(ch chan<- os.Signal, sigs []syscall.Signal) {
	const bell = unix.SIGUSR1
	signal.Notify(ch, bell)
	for _, sig := range sigs {
		if getAction(sig).handler == defaultHandler { // of the stopping and continuing
			signal.Notify(ch, sig)
		}
		if a := getAction(sig); a.handler != noteOriginPC {
			nextHandler, a.handler = a.handler, noteOriginPC
			setAction(sig, a)
		}
	}
}

// arrived reports whether the signal has come since arrivals last told it. It is
// exact: a handler has run by the time that its thread goes on.
func arrived(sig syscall.Signal) bool {
	return atomic.LoadUint32(&sentByKernel[sig]) != 0 || atomic.LoadUint32(&sentByProcess[sig]) != 0
}

// arrivals tells what has come since it was last called.
func arrivals(syscall.Signal) (list []arrival) {
	for sig := range syscall.Signal(signalNumbers) {
		byKernel := atomic.SwapUint32(&sentByKernel[sig], 0) != 0
		byProcess := atomic.SwapUint32(&sentByProcess[sig], 0) != 0
		if byKernel || byProcess {
			list = append(list, arrival{sig, byKernel, byProcess})
		}
	}
	return list
}
