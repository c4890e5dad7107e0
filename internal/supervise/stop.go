package supervise

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// stopToo stops this process by the signal that has stopped the command, if
// that was job control: the shell that waits for this process is to see its job
// stopped. When this process is continued, so is the command, with the terminal
// if it had that in a process group of its own.
//
// A SIGSTOP is job control if it comes in the foreground: so suspends an inner
// shell itself (bash(1), suspend). Otherwise it is left to whoever sent it. They
// may continue the command alone, and a stopped wrapper could not give the lock
// back at its end.
func (p *Process) stopToo(sig syscall.Signal) {
	ours, foreground := unix.Getpgrp(), foregroundGroup()
	commands, _ := unix.Getpgid(p.pid)
	// A group outside of our PID namespace has no number here: 0, as without a
	// terminal.
	if sig == unix.SIGSTOP && (foreground == 0 || foreground != ours && foreground != commands) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastStop = max(p.lastStop, stopArrived())
	for _, fulfilled := range stopSignals() {
		forget(fulfilled) // or it would stop the command again when it goes on
	}
	// Somebody may have stopped and continued us faster than we get here. A
	// SIGCONT that comes between this look and the stop is lost, as it would be
	// for a program that stops itself.
	if arrived(unix.SIGCONT) <= p.lastStop {
		forget(unix.SIGCONT)
		stopBy(sig)
		p.resumed = arrived(unix.SIGCONT) == 0
	}
	forget(unix.SIGCONT) // it is passed on here
	if foreground == commands && foregroundGroup() == ours {
		setForegroundGroup(commands)
	}
	if !wentOn(p.pid) { // a shell continues the whole process group
		p.signal(unix.SIGCONT)
	}
}

// stopArrived is the place in the order of the last stop signal to come, or 0.
func stopArrived() (last uint32) {
	for _, sig := range stopSignals() {
		last = max(last, arrived(sig))
	}
	return last
}

// stopSignals are those of job control that stop a process by default.
func stopSignals() []syscall.Signal {
	return []syscall.Signal{unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU}
}

// foregroundGroup is the process group that the controlling terminal reads for
// and sends signals to, or 0.
func foregroundGroup() (group int) {
	_ = withTerminal(func(fd int) (err error) {
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	return group
}

// setForegroundGroup is for a process in the foreground, which a terminal does
// not stop for it. It does what it can: a process group may have ended.
func setForegroundGroup(group int) {
	_ = withTerminal(func(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCSPGRP, group) })
}

func withTerminal(do func(fd int) error) error {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer tty.Close()
	return do(int(tty.Fd()))
}

// letTerminalStopUs ends the catching of SIGTTOU. A background process that
// catches it and writes to a terminal that is set to stop it (tostop, termios(3))
// is let go on by no one: write(2) is restarted again and again.
func letTerminalStopUs() {
	if !ignored(unix.SIGTTOU) {
		resetToDefault(unix.SIGTTOU)
	}
}
