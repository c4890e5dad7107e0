//go:build amd64 || arm64 || arm

package supervise

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"xlock/internal/eintr"
)

// gate is what keeps the new process from becoming the command: our ends of two
// pipes. The process waits for a byte from the first. When we die it reads the
// end of it instead, and ends. Into the second, which is close-on-exec, it
// writes a byte before execve(2), and one with the errno if that fails.
//
// Pipes, as a socket pair is refused where a service may not use AF_UNIX
// (systemd.exec(5), RestrictAddressFamilies=).
type gate struct {
	pass, report int
	child        *child // which the process uses until it executes or ends
}

func (g gate) close() {
	unix.Close(g.pass)
	unix.Close(g.report)
}

// open lets the process go on. It returns nil when the process has executed the
// command, errNotBegun if it has ended before, or the errno that execve(2)
// failed with.
func (g gate) open() error {
	defer g.close()
	if _, err := unix.Write(g.pass, []byte{0}); err != nil && !errors.Is(err, unix.EPIPE) {
		return os.NewSyscallError("write", err)
	}
	var report [2]byte
	begun, err := readByte(g.report, report[:1])
	failed, errFailed := readByte(g.report, report[1:])
	switch {
	case err != nil || errFailed != nil:
		return os.NewSyscallError("read", errors.Join(err, errFailed))
	case !begun:
		return errNotBegun
	case failed:
		return syscall.Errno(report[1])
	}
	return nil
}

// readByte is false at the end of the stream.
func readByte(fd int, b []byte) (ok bool, err error) {
	err = eintr.Retry(func() error {
		n, err := unix.Read(fd, b)
		ok = n > 0
		return err
	})
	return ok, err
}

func (p *Process) start() error {
	im, err := newImage(p.command)
	if err != nil {
		return p.command.failed(err)
	}
	var e ends
	if err := e.make(); err != nil {
		return os.NewSyscallError("pipe2", err)
	}
	c := &child{image: im, ends: e}
	pid, errno := c.startWithLimit()
	unix.Close(e.pass[0])
	unix.Close(e.report[1])
	p.pid, p.gate = pid, gate{e.pass[1], e.report[0], c}
	if errno != 0 {
		p.gate.close()
		return os.NewSyscallError("clone", errno)
	}
	return nil
}

// ends are the ends of the gate's pipes, for reading and for writing.
type ends struct{ pass, report [2]int }

func (e *ends) make() error {
	if err := unix.Pipe2(e.pass[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	err := unix.Pipe2(e.report[:], unix.O_CLOEXEC)
	if err != nil {
		unix.Close(e.pass[0])
		unix.Close(e.pass[1])
	}
	return err
}

// nextChange waits for a change, and collects it with the lock held, so that
// nobody sends a signal to a number that has just been given up.
func (p *Process) nextChange() (pid int, ws unix.WaitStatus, err error) {
	idType, id := unix.P_PID, p.waitTarget()
	if id < 0 {
		idType, id = unix.P_ALL, 0
	}
	err = eintr.Retry(func() error {
		return unix.Waitid(idType, id, nil, unix.WEXITED|unix.WSTOPPED|unix.WNOWAIT, nil)
	})
	if err != nil {
		return 0, 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	pid, ws, err = p.reap(unix.WNOHANG)
	p.noteEnd(pid, ws)
	return pid, ws, err
}
