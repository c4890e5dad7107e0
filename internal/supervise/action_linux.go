//go:build amd64 || arm64 || arm

package supervise

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// action is the kernel's struct sigaction, which begins with the handler and has
// at most this size (rt_sigaction(2)). Zeroed, it is
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

// blocked are the signals that our caller has blocked: in every thread, and in the
// command, where they wait for whoever asks. (HUP, INT, QUIT and TERM are unblocked by
// the Go runtime, 1.26, and the command gets them so.)
func blocked() (set unix.Sigset_t) {
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, nil, &set)
	return set
}

// unblock lets the signals in on the calling thread, where they would wait for ever.
// The goroutine keeps that until undo, if anything is blocked at all.
func unblock(sigs ...syscall.Signal) (undo func()) {
	if blocked() == (unix.Sigset_t{}) {
		return func() {}
	}
	runtime.LockOSThread()
	set := setOf(sigs)
	var before unix.Sigset_t
	_ = unix.PthreadSigmask(unix.SIG_UNBLOCK, &set, &before)
	return func() {
		_ = unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil)
		runtime.UnlockOSThread()
	}
}

func setOf(sigs []syscall.Signal) (set unix.Sigset_t) {
	for _, sig := range sigs {
		bits := unsafe.Sizeof(set.Val[0]) * 8
		set.Val[uintptr(sig-1)/bits] |= 1 << (uintptr(sig-1) % bits)
	}
	return set
}

// dieBy sends the signal to the calling thread, which acts on it before the call
// returns.
func dieBy(sig syscall.Signal) {
	// Without a limit of its own, a core goes to a program even so (core(5),
	// piping core dumps to a program).
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	resetToDefault(sig)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer unblock(sig)()
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), sig)
}
