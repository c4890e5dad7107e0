package supervise

import (
	"cmp"
	"os"
	"os/signal"
	"slices"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Who sent a signal stands in its siginfo_t (sigaction(2)), which os/signal does
// not show; and signalfd(2) needs every thread to block the signal, which those
// of the Go runtime do not. So a few instructions in front of the runtime's handler
// note down the signal and what si_code says, before the runtime puts it into its
// queue with an atomic operation: who is woken for it sees the note. To the runtime they then pass it
// as a SIGUSR1, the bell: asking os/signal for one signal costs as little as all
// else here, for forty it would take as long as the start of a command.
//
// These variables are package state for want of an alternative: a signal handler
// gets no argument from whoever has installed it.
var (
	// When a signal came last, by sequence; 0: not since arrivals told it.
	sentByKernel  [signalNumbers]uint32 // si_code above 0
	sentByProcess [signalNumbers]uint32

	// sequence counts the signals. Two handlers that run at the very same time
	// may both have the same number: which was first is anybody's guess then.
	//lint:ignore U1000 the assembler's
	sequence uint32
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
	note := getAction(unix.SIGURG) // which the runtime always handles
	nextHandler, note.handler = note.handler, noteOriginPC
	for _, sig := range sigs {
		setAction(sig, note)
	}
}

// arrived is the place in the order of the last signal of this number that
// arrivals has not told yet, or 0. One whose handler is about to run in another
// thread has not come.
func arrived(sig syscall.Signal) uint32 {
	return max(atomic.LoadUint32(&sentByKernel[sig]), atomic.LoadUint32(&sentByProcess[sig]))
}

// forget forgets a signal that has come.
func forget(sig syscall.Signal) {
	atomic.StoreUint32(&sentByKernel[sig], 0)
	atomic.StoreUint32(&sentByProcess[sig], 0)
}

// arrivals tells what has come since it was last called, in that order. Of
// several of one kind it is the last that counts, as with a pending signal.
func arrivals(syscall.Signal) (list []arrival) {
	for sig := range syscall.Signal(signalNumbers) {
		if at := atomic.SwapUint32(&sentByKernel[sig], 0); at != 0 {
			list = append(list, arrival{sig, true, at})
		}
		if at := atomic.SwapUint32(&sentByProcess[sig], 0); at != 0 {
			list = append(list, arrival{sig, false, at})
		}
	}
	slices.SortFunc(list, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	return list
}
