package supervise

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// DieBy ends this process by the signal, so that its parent sees what it would
// have seen of the command, and without a core of its own. It returns where
// that does not end the process: for the init of a PID namespace the kernel
// drops signals with the default action (pid_namespaces(7)).
func DieBy(sig syscall.Signal) {
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	resetToDefault(sig)
	defer unblock(sig)()
	_ = unix.Kill(unix.Getpid(), sig)
	if unix.Getpid() != 1 {
		// A signal that would dump core is acted upon by the main thread, a
		// moment after kill(2) returned to this one.
		time.Sleep(time.Second)
	}
}
