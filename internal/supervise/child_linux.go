//go:build amd64 || arm64 || arm

package supervise

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

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

// child is the new process at its end of the gate. It shares our memory, as after
// vfork(2), until it executes or ends; but we run on meanwhile, to write down its
// number. A copy of the memory, as of fork(2), takes a fifth of the time of a whole run
// (Linux 6.18): page tables are copied, and each page again when one of us writes to it.
//
// So it has a stack of its own, and touches nothing of ours but this. The caller keeps
// it until the process has executed or ended. os.StartProcess cannot stop at a gate, and
// a second start of this program, which could, takes longer than all the rest.
type child struct {
	image *image
	ends  ends
	mask  unix.Sigset_t // for the command
	word  [1]byte       // what it reads and writes
	act   action
	stack [8 << 10]byte
}

// startWithLimit starts the process while we have the limit on open descriptors that
// we were started with, for the command. The runtime has raised the soft limit and
// remembers the old one, for its own ways to start a program alone; an Exec that
// fails is such a way (Go 1.26).
func (c *child) startWithLimit() (pid int, errno syscall.Errno) {
	var raised unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &raised)
	_ = syscall.Exec("", nil, nil)
	pid, errno = c.start()
	if err == nil {
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &raised)
	}
	return pid, errno
}

// start makes the process, which waits at the gate then. All signals are blocked from
// before its beginning until it has put their handlers, which are ours, out of force.
// Between beforeFork and afterFork nothing may allocate or grow the stack.
//
//go:norace
//go:nocheckptr
func (c *child) start() (pid int, errno syscall.Errno) {
	c.mask = blocked()
	const alignment = 16
	top := uintptr(unsafe.Pointer(&c.stack)) + unsafe.Sizeof(c.stack)
	main := childMain
	code := **(**uintptr)(unsafe.Pointer(&main))
	syscall.ForkLock.Lock()
	beforeFork()
	n := clone(unix.CLONE_VM|uintptr(unix.SIGCHLD), top&^(alignment-1)-alignment, code, c)
	afterFork()
	syscall.ForkLock.Unlock()
	if n < 0 {
		return 0, syscall.Errno(-n)
	}
	return n, 0
}

// clone makes a process that calls the code of childMain on that stack (clone(2)). It
// returns the number of it, or a negative errno. The code is not called by its name, as
// that is the name of an adapter for the assembler, which tells the race detector that
// one of its threads is there.
func clone(flags, stack, code uintptr, c *child) int

// childMain is the process, which must not return. The rules are those of
// forkAndExecInChild in package syscall and stricter: there is no goroutine and no
// thread of the runtime's here, so nothing may allocate, grow the stack or block on
// anything but the kernel.
//
//go:nosplit
//go:norace
//go:nocheckptr
func childMain(c *child) {
	c.resetSignals()
	syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(c.ends.pass[1]), 0, 0)
	syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(c.ends.report[0]), 0, 0)
	var n uintptr
	for errno := unix.EINTR; errno == unix.EINTR; {
		n, _, errno = syscall.RawSyscall(syscall.SYS_READ, uintptr(c.ends.pass[0]), uintptr(unsafe.Pointer(&c.word)), 1)
	}
	if n == 1 { // and not the maximum, as after an error
		c.execute()
	}
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
}

// resetSignals gives every signal that is caught its default action, and unblocks
// what the command will not have blocked. A handler of the runtime's must not run here.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *child) resetSignals() {
	act := uintptr(unsafe.Pointer(&c.act))
	for sig := uintptr(1); sig < signalNumbers; sig++ {
		syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, sig, 0, act, setBytes, 0, 0)
		if c.act.handler != ignoreHandler && c.act.handler != defaultHandler {
			c.act.handler = defaultHandler
			syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, sig, act, 0, setBytes, 0, 0)
		}
	}
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&c.mask)), 0, setBytes, 0, 0)
}

// execute returns if that fails, after it has reported why.
//
//go:nosplit
//go:norace
//go:nocheckptr
func (c *child) execute() {
	c.report()
	im := c.image
	_, _, errno := syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(im.path)),
		uintptr(unsafe.Pointer(im.argv)), uintptr(unsafe.Pointer(im.envv)))
	if errno == unix.ENOEXEC {
		_, _, errno = syscall.RawSyscall(syscall.SYS_EXECVE, uintptr(unsafe.Pointer(im.shell)),
			uintptr(unsafe.Pointer(im.shellArgv)), uintptr(unsafe.Pointer(im.envv)))
	}
	c.word[0] = byte(errno) // Linux has none above 133 (errno.h)
	c.report()
}

//go:nosplit
//go:norace
//go:nocheckptr
func (c *child) report() {
	syscall.RawSyscall(syscall.SYS_WRITE, uintptr(c.ends.report[1]), uintptr(unsafe.Pointer(&c.word)), 1)
}

// What package syscall calls around a fork: they block all signals in this thread, and
// give it back its mask. The runtime keeps these names for others that fork
// (go.dev/issue/67401).
//
//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()
