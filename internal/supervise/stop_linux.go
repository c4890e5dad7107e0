package supervise

import (
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// stopBy stops this process by the signal. It is sent to the calling thread,
// which acts on it before the call returns, while the default action is in
// place. A SIGTSTP, SIGTTIN or SIGTTOU does not stop a process group that has
// nobody to continue it (orphaned, setpgid(2)); then nothing happens.
func stopBy(sig syscall.Signal) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := resetToDefault(sig)
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), sig)
	setAction(sig, before)
}

// wentOn reports whether the child has changed since the stop that was collected
// last: it was continued, perhaps stopped once more since then, or has ended.
func wentOn(pid int) bool {
	const anything = unix.WCONTINUED | unix.WSTOPPED | unix.WEXITED
	var info unix.Siginfo // stays zero if there is nothing, waitid(2)
	err := unix.Waitid(unix.P_PID, pid, &info, anything|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Signo != 0
}
