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

// wasContinued reports whether the child was continued after its last stop.
func wasContinued(pid int) bool {
	const continued = 6 // CLD_CONTINUED, sigaction(2)
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WCONTINUED|unix.WNOHANG|unix.WNOWAIT, nil)
	return err == nil && info.Code == continued
}
