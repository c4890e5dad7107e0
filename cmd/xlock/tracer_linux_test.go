//go:build amd64

package main

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tracer runs xlock and asks at the entry of each system call that it makes whether
// to kill it there: such a call is not carried out. It tells of the exit of the others. All threads are traced, and no
// child, so that the command runs as if nobody looked.
//
// That is why this is not strace(1), which follows threads and children alike, and
// counts the calls of each thread for itself.
type tracer struct {
	*testing.T
	pid    int
	killAt func(pid int, c syscallInfo) bool
	exited func(pid int)

	// One of these tells in the end what became of it.
	status   unix.WaitStatus
	replaced bool // it is another program now, which goes on untraced
}

// trace returns when xlock has ended, or has become another program.
func (s *stage) trace(stdin *os.File, args []string, killAt func(pid int, c syscallInfo) bool, exited func(pid int)) *tracer {
	runtime.LockOSThread() // all requests must come from the thread that is the tracer
	defer runtime.UnlockOSThread()
	process, err := os.StartProcess(s.xlock, append([]string{"xlock"}, args...), &os.ProcAttr{
		Dir:   s.dir,
		Env:   environment(),
		Files: []*os.File{stdin, nil, os.Stderr},
		Sys:   &syscall.SysProcAttr{Ptrace: true, Setpgid: true},
	})
	check(s.T, err)
	defer func() { _ = process.Release() }()
	tr := &tracer{T: s.T, pid: process.Pid, killAt: killAt, exited: exited}
	tr.begin()
	for tr.step() {
	}
	return tr
}

// begin sets off the process, which stops at its execve(2) (PTRACE_TRACEME). A thread
// that it makes is traced as it is (TRACECLONE); a child is not, as that takes other
// options.
func (tr *tracer) begin() {
	var ws unix.WaitStatus
	tr.wait(tr.pid, &ws)
	check(tr.T, unix.PtraceSetOptions(tr.pid,
		unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_TRACEEXEC|unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL))
	tr.goOn(tr.pid, 0)
}

// wait takes a stop or an end of one of the threads, which are only seen with __WALL.
// The process group leaves out other children of this program.
func (tr *tracer) wait(pid int, ws *unix.WaitStatus) (tid int) {
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		tid, err = unix.Wait4(pid, ws, unix.WALL, nil)
	}
	check(tr.T, err)
	return tid
}

// goOn lets a thread run to its next call or the end of the one that it is in. One
// that is killed meanwhile is not there any more.
func (tr *tracer) goOn(tid int, sig unix.Signal) {
	if err := unix.PtraceSyscall(tid, int(sig)); !errors.Is(err, unix.ESRCH) {
		check(tr.T, err)
	}
}

// step returns false when the process has ended, the main thread last of all, or has
// become another program.
func (tr *tracer) step() bool {
	var ws unix.WaitStatus
	tid := tr.wait(-tr.pid, &ws)
	switch {
	case !ws.Stopped():
		tr.status = ws
		return tid != tr.pid
	case ws.TrapCause() == unix.PTRACE_EVENT_EXEC:
		tr.replaced = true
		check(tr.T, unix.PtraceDetach(tid))
		return false
	}
	tr.goOn(tid, tr.stopped(tid, ws.StopSignal()))
	return true
}

// stopped takes why a thread has stopped, and returns the signal that it is to get. A
// call has its own mark (TRACESYSGOOD). SIGTRAP says that a thread was made, and
// SIGSTOP is how that begins: xlock gets neither from elsewhere.
func (tr *tracer) stopped(tid int, sig unix.Signal) unix.Signal {
	switch sig {
	case unix.SIGTRAP | 0x80:
		tr.call(tid)
	case unix.SIGTRAP, unix.SIGSTOP:
	default:
		return sig
	}
	return 0
}

func (tr *tracer) call(tid int) {
	c, ok := syscallInfoOf(tr, tid)
	switch {
	case !ok:
	case c.op == unix.PTRACE_SYSCALL_INFO_EXIT:
		tr.exited(tr.pid)
	case tr.killAt(tr.pid, c):
		check(tr.T, unix.Kill(tr.pid, unix.SIGKILL))
	}
}

// syscallInfo is the beginning of ptrace(2)'s struct ptrace_syscall_info at the entry
// of a call.
type syscallInfo struct {
	op     uint8
	_      [3]uint8
	_      uint32
	_, _   uint64
	number uint64
	args   [6]uint64
}

func (c syscallInfo) call() int { return int(c.number) }

// syscallInfoOf asks about a thread that has stopped; ok is false if it was killed.
func syscallInfoOf(t testing.TB, tid int) (info syscallInfo, ok bool) {
	t.Helper()
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO,
		uintptr(tid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 && errno != unix.ESRCH {
		t.Fatal("ptrace: ", errno)
	}
	return info, errno == 0
}
