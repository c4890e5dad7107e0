package supervise

import (
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"xlock/internal/eintr"
)

// gate is our end of a socket pair, whose other end the new process has. It
// waits there for a byte. When we die, it reads the end of the stream instead,
// and ends. Its end is close-on-exec: we read one byte with the errno of an
// execve(2) that failed, or the end of the stream.
type gate int

func (g gate) close() { unix.Close(int(g)) }

// open lets the process go on. It returns when the process has become the
// command, has failed to, or has been killed, which its status tells.
func (g gate) open() error {
	defer g.close()
	if err := unix.Send(int(g), []byte{0}, unix.MSG_NOSIGNAL); err != nil {
		return nil // EPIPE: killed
	}
	var errno [1]byte
	n := 0
	err := eintr.Retry(func() (err error) {
		n, err = unix.Read(int(g), errno[:])
		return err
	})
	if n > 0 {
		return syscall.Errno(errno[0])
	}
	return err
}

func (p *Process) start() error {
	im, err := newImage(p.command)
	if err != nil {
		return p.command.failed(err)
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socketpair", err)
	}
	restoreDescriptorLimit()
	pid, errno := forkAtGate(im, ends[0], ends[1])
	runtime.KeepAlive(im)
	unix.Close(ends[1])
	p.gate, p.pid = gate(ends[0]), int(pid)
	if errno != 0 {
		p.gate.close()
		return os.NewSyscallError("fork", errno)
	}
	return nil
}

// restoreDescriptorLimit gives this process, and so the command, the limit on
// open descriptors that it was started with. The runtime has raised the soft
// limit and remembers the old one, for its own ways to start a program alone.
// An Exec that fails is such a way (Go 1.26).
func restoreDescriptorLimit() { _ = syscall.Exec("", nil, nil) }

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
// none. Signals are blocked there, and in the child all handlers are reset
// and the mask is the caller's before they are let in again.
//
//go:noinline
//go:norace
//go:nocheckptr
func forkAtGate(im *image, ours, theirs int) (pid uintptr, errno syscall.Errno) {
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
	syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(ours), 0, 0)
	for errno = unix.EINTR; errno == unix.EINTR; {
		n, _, errno = syscall.RawSyscall(syscall.SYS_READ, uintptr(theirs), uintptr(unsafe.Pointer(&word)), 1)
	}
	if n == 1 {
		_, _, errno = syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(im.path)),
			uintptr(unsafe.Pointer(im.argv)), uintptr(unsafe.Pointer(im.envv)))
		if errno == unix.ENOEXEC {
			_, _, errno = syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(im.shell)),
				uintptr(unsafe.Pointer(im.shellArgv)), uintptr(unsafe.Pointer(im.envv)))
		}
		word[0] = byte(errno) // Linux has none above 133 (errno.h)
		syscall.RawSyscall(syscall.SYS_WRITE, uintptr(theirs), uintptr(unsafe.Pointer(&word)), 1)
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
	idType, id := unix.P_PID, p.whom()
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
	return p.reap(unix.WNOHANG)
}
