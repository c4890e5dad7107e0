package supervise

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// resetToDefault sets the signal's disposition to the default in the kernel.
// signal.Reset of os/signal leaves the runtime's handler in place, which for
// QUIT and its like prints the stacks of all goroutines first. A zeroed struct
// sigaction is SIG_DFL without flags on every architecture (rt_sigaction(2)).
func resetToDefault(sig syscall.Signal) {
	var action [64]byte
	const setBytes = 8 // sizeof(sigset_t) in the kernel
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(&action)), 0, setBytes, 0, 0)
}
