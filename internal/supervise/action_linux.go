package supervise

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// action is the kernel's struct sigaction, which begins with the handler on
// every architecture and has at most this size (rt_sigaction(2)). Zeroed, it is
// the default action.
type action struct {
	handler uintptr
	rest    [56]byte
}

const (
	defaultHandler = 0 // SIG_DFL
	ignoreHandler  = 1 // SIG_IGN
	setBytes       = 8 // sizeof(sigset_t) in the kernel
)

// getAction and setAction are the kernel's view of a signal. os/signal has only
// the runtime's, which knows nothing of an ignored SIGTSTP, and keeps its
// handler in place after a Reset.
func getAction(sig syscall.Signal) (a action) {
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&a)), setBytes, 0, 0)
	return a
}

func setAction(sig syscall.Signal, a action) {
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&a)), 0, setBytes, 0, 0)
}

// resetToDefault gives the signal its default action, and returns the one that
// it had. The runtime's handler would print the stacks of all goroutines for
// QUIT and its like.
func resetToDefault(sig syscall.Signal) (before action) {
	before = getAction(sig)
	setAction(sig, action{handler: defaultHandler})
	return before
}

func ignored(sig syscall.Signal) bool { return getAction(sig).handler == ignoreHandler }
