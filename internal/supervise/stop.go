package supervise

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// stopToo stops this process by the signal that has stopped the command, if
// that is one of the terminal's: the shell that waits for this process is to
// see its job stopped. It returns when this process is continued.
//
// SIGSTOP is left to whoever sent it. They may continue the command alone, and
// a stopped wrapper could not give the lock back at its end.
func (p *Process) stopToo(sig syscall.Signal) {
	switch sig {
	case unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU:
		p.setStopped(true)
		stopBy(sig)
	}
}

func (p *Process) setStopped(stopped bool) (before bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, p.stopped = p.stopped, stopped
	return before
}

// continuedToo reports whether a SIGCONT need not be passed on, because the
// command, which had stopped with this process, goes on already: a shell
// continues the whole process group. It is asked once for each SIGCONT.
func (p *Process) continuedToo() bool {
	return p.setStopped(false) && goesOn(p.pid)
}

// letTerminalStopUs ends the catching of SIGTTOU. A background process that
// catches it and writes to a terminal that is set to stop it (tostop, termios(3))
// is let go on by no one: write(2) is restarted again and again.
func letTerminalStopUs() {
	if !ignored(unix.SIGTTOU) {
		resetToDefault(unix.SIGTTOU)
	}
}
