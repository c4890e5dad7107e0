package supervise

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// DieBy ends this process by the signal, so that its parent sees what it would
// have seen of the command, and without a core of its own. It returns where
// that does not end the process: for the init of a PID namespace the kernel
// drops signals with the default action (pid_namespaces(7)).
func DieBy(sig syscall.Signal) {
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	dieBy(sig)
}
