//go:build amd64 || arm64 || arm

package supervise

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"unsafe"

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
type gate struct{ pass, report int }

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
	pid, errno := forkWithLimit(im, e)
	runtime.KeepAlive(im)
	unix.Close(e.pass[0])
	unix.Close(e.report[1])
	p.pid, p.gate = int(pid), gate{e.pass[1], e.report[0]}
	if errno != 0 {
		p.gate.close()
		return os.NewSyscallError("fork", errno)
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

// forkWithLimit forks while this process has the limit on open descriptors that
// it was started with, for the command. The runtime has raised the soft limit and
// remembers the old one, for its own ways to start a program alone; an Exec that
// fails is such a way (Go 1.26).
func forkWithLimit(im *image, e ends) (pid uintptr, errno syscall.Errno) {
	var raised unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &raised)
	_ = syscall.Exec("", nil, nil)
	pid, errno = forkAtGate(im, e)
	if err == nil {
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &raised)
	}
	return pid, errno
}

// image is what execve(2) gets, made before the fork: the command, and the
// shell that runs it if it is a script without a #! line, as execvp(3) does.
type image struct {
	path, shell     *byte
	argv, shellArgv **byte
	envv            **byte
}

func newImage(c *Command) (*image, error) {
	im := new(image)
	var err error
	text := func(s string) (p *byte) {
		if err == nil {
			p, err = unix.BytePtrFromString(s)
		}
		return p
	}
	list := func(s []string) **byte {
		if err != nil {
			return nil
		}
		var p []*byte
		if p, err = syscall.SlicePtrFromStrings(s); err != nil {
			return nil
		}
		return &p[0]
	}
	im.path, im.argv = text(c.path), list(c.args)
	im.shell, im.shellArgv = text(shell), list(c.shellArgs())
	im.envv = list(os.Environ())
	return im, err
}

// forkAtGate forks. The child waits at its end of the gate until it is let
// through, and becomes the image. os.StartProcess cannot stop there, and a
// second start of this program, which could, takes longer than all the rest.
//
// The rules are those of forkAndExecInChild in package syscall, which this
// follows: between beforeFork and afterFork, and in the child, nothing may
// allocate, grow the stack or block on another thread, of which the child has
// none. Signals are blocked there, and in the child the handlers that the runtime
// knows of are reset before they are let in again.
//
//go:noinline
//go:norace
//go:nocheckptr
func forkAtGate(im *image, e ends) (pid uintptr, errno syscall.Errno) {
	var (
		word [1]byte
		n    uintptr
	)
	syscall.ForkLock.Lock()
	beforeFork()
	pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if pid != 0 || errno != 0 {
		afterFork()
		syscall.ForkLock.Unlock()
		return pid, errno
	}
	afterForkInChild()
	syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(e.pass[1]), 0, 0)
	syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(e.report[0]), 0, 0)
	for errno = unix.EINTR; errno == unix.EINTR; {
		n, _, errno = syscall.RawSyscall(syscall.SYS_READ, uintptr(e.pass[0]), uintptr(unsafe.Pointer(&word)), 1)
	}
	if n == 1 && errno == 0 {
		syscall.RawSyscall(syscall.SYS_WRITE, uintptr(e.report[1]), uintptr(unsafe.Pointer(&word)), 1)
		_, _, errno = syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(im.path)),
			uintptr(unsafe.Pointer(im.argv)), uintptr(unsafe.Pointer(im.envv)))
		if errno == unix.ENOEXEC {
			_, _, errno = syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(im.shell)),
				uintptr(unsafe.Pointer(im.shellArgv)), uintptr(unsafe.Pointer(im.envv)))
		}
		word[0] = byte(errno) // Linux has none above 133 (errno.h)
		syscall.RawSyscall(syscall.SYS_WRITE, uintptr(e.report[1]), uintptr(unsafe.Pointer(&word)), 1)
	}
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// What package syscall calls around a fork. The runtime keeps these names for
// others that fork (go.dev/issue/67401).
//
//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

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
