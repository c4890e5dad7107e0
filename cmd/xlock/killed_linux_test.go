//go:build amd64

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"xlock/internal/lock"
	"xlock/internal/testenv"
)

// TestKilledAtEveryCall kills the wrapper at each system call that it makes from
// the moment in which it has the lock to its end: at the first of each kind, at
// the second in another run, and so on, until it ends before its turn comes. A
// call at which it is killed is not carried out. Calls that only look are left
// out, as they leave what the next one finds. After each kill
//
//   - the lock file is empty or holds a whole record,
//   - nobody else's command runs beside the first, which lives until it is told
//     to end, and not before all others have been let in or refused,
//   - once that has ended, the lock can be had at once.
func TestKilledAtEveryCall(t *testing.T) {
	testenv.Need(t, "flock")
	tests := []struct {
		name string
		plan
	}{
		{"descriptor", plan{shown: true, empty: true}},
		{"kept back", plan{options: []string{"-o"}}},
		{"closed by the command", plan{first: `eval "exec $XLOCK_FD>&-"; `}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			outcomes := map[string]int{}
			for call := range s.calls(tt.args()) {
				for n := 1; ; n++ {
					k := s.kill(call, n, tt.plan)
					if !k.dead {
						break
					}
					outcomes[s.afterKill(k, tt.shown)]++
				}
			}
			t.Logf("killed at %d calls: %v", outcomes[neverRan]+outcomes[livedOn]+outcomes[wasOver], outcomes)
			if outcomes[neverRan] == 0 || outcomes[livedOn] == 0 || outcomes[wasOver] == 0 {
				t.Error("the calls are not what this test takes them for")
			}
		})
	}
}

// plan is how the wrapper runs that is killed.
type plan struct {
	options []string
	first   string // what the command does first
	shown   bool   // flock(1) sees the command's descriptor
	empty   bool   // the lock file; else a longer record stands in it
}

func (p plan) args() []string {
	script := "echo started >>log; " + p.first + "read _; echo ended >>log"
	return slices.Concat([]string{"run"}, p.options, []string{"lock", "sh", "-c", script})
}

// What had become of the command when its wrapper was killed.
const (
	neverRan = "the command never ran"
	livedOn  = "it lived on"
	wasOver  = "it was over"
)

// calls counts the calls of each kind that a run makes.
func (s *stage) calls(args []string) map[int]int {
	calls := map[int]int{}
	s.run(args, func(_ int, c syscallInfo) bool {
		calls[c.call()]++
		return false
	}).Close()
	if len(calls) == 0 {
		s.Fatal("no call was seen")
	}
	return calls
}

// killed is a wrapper that may be dead.
type killed struct {
	at    string
	dead  bool
	tell  *os.File // when it is closed, its command goes on to its end
	heirs []int    // pidfds of the children that it had
}

// kill runs xlock and kills it at the nth call of a kind.
func (s *stage) kill(call, n int, p plan) killed {
	if p.empty {
		check(s.T, os.RemoveAll(s.path("lock")))
	}
	k := killed{at: fmt.Sprintf("killed at call %d of the system's number %d", n, call)}
	seen := 0
	k.tell = s.run(p.args(), func(pid int, c syscallInfo) bool {
		if c.call() == call {
			seen++
		}
		if k.dead = c.call() == call && seen == n; k.dead {
			k.heirs = s.children(pid)
		}
		return k.dead
	})
	return k
}

// run runs xlock until it ends or is killed. Its command is told to go on once
// xlock does nothing but wait for it: it has begun to, and what connected it with
// the process before that was the command is closed, or is about to be. Else it
// is told by the file that run returns.
func (s *stage) run(args []string, killAt func(pid int, c syscallInfo) bool) (tell *os.File) {
	check(s.T, os.RemoveAll(s.path("log")))
	stdin, tell, err := os.Pipe()
	check(s.T, err)
	defer stdin.Close()
	s.Cleanup(func() { tell.Close() })
	waiting, own := false, -1
	s.trace(stdin, args, func(pid int, c syscallInfo) bool {
		if killAt(pid, c) {
			return true
		}
		if own < 0 { // at the first call
			own = channels(pid, c)
		}
		waiting = waiting || c.call() == unix.SYS_WAITID
		if waiting && channels(pid, c) == own {
			tell.Close()
		}
		return false
	})
	return tell
}

// channels counts the pipes and sockets of a process that enters a call, without
// one that the call closes.
func channels(pid int, c syscallInfo) (n int) {
	descriptors, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, path := range descriptors {
		target, _ := os.Readlink(path)
		closing := c.call() == unix.SYS_CLOSE && filepath.Base(path) == strconv.FormatUint(c.args[0], 10)
		if !closing && (strings.HasPrefix(target, "pipe:") || strings.HasPrefix(target, "socket:")) {
			n++
		}
	}
	return n
}

// children opens a pidfd of each child.
func (s *stage) children(pid int) (pidfds []int) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	check(s.T, err)
	if len(lists) == 0 {
		s.Fatal("this kernel does not tell a process's children (CONFIG_PROC_CHILDREN)")
	}
	for _, list := range lists {
		text, _ := os.ReadFile(list) // a thread can have ended
		for word := range strings.FieldsSeq(string(text)) {
			child, err := strconv.Atoi(word)
			check(s.T, err)
			fd, err := unix.PidfdOpen(child, 0)
			check(s.T, err)
			pidfds = append(pidfds, fd)
		}
	}
	return pidfds
}

// afterKill tells what had become of the command.
func (s *stage) afterKill(k killed, shown bool) string {
	report := s.inspect()
	if kind := report.Content.Kind; kind != lock.Empty && kind != lock.Valid {
		s.Errorf("%s: the record is %s: %s", k.at, kind, report.Content.Why)
	}
	before := s.log()
	s.contend(k, shown)
	after := s.log()
	if !regexp.MustCompile(`^((started ended|in out)( |$))*$`).MatchString(after) {
		s.Errorf("%s: commands overlap: %s", k.at, after)
	}
	check(s.T, s.command(s.xlock, "run", "-n", "--label", strings.Repeat("x", 1000), "lock", "true").Run())
	check(s.T, s.command("flock", "-n", "lock", "true").Run())
	switch {
	case strings.HasPrefix(before, "started ended"):
		return wasOver
	case strings.Contains(after, "started"):
		return livedOn
	}
	return neverRan
}

// contend lets others try to get the lock while the command may live, and ends
// when all of them have ended. Who got the lock keeps it until the end of the
// command.
func (s *stage) contend(k killed, shown bool) {
	var others []*contender
	if shown {
		others = append(others, s.contender("flock", "-n", "lock"))
	}
	others = append(others, s.contender(s.xlock, "run", "-q", "-n", "lock"))
	k.tell.Close()
	for _, pidfd := range k.heirs {
		check(s.T, awaitPidfd(pidfd))
		unix.Close(pidfd)
	}
	for _, c := range others {
		c.end(s)
	}
}

// contender is somebody who has tried to get the lock, and has it if in.
type contender struct {
	cmd  *exec.Cmd
	in   bool
	tell *os.File
}

func (s *stage) contender(locker ...string) *contender {
	const script = "echo in >>log; echo in; read _; echo out >>log"
	cmd := s.command(locker[0], append(locker[1:], "sh", "-c", script)...)
	stdin, tell, err := os.Pipe()
	check(s.T, err)
	defer stdin.Close()
	cmd.Stdin = stdin
	stdout, err := cmd.StdoutPipe()
	check(s.T, err)
	check(s.T, cmd.Start())
	s.Cleanup(func() { tell.Close() })
	_, err = bufio.NewReader(stdout).ReadString('\n')
	return &contender{cmd, err == nil, tell}
}

func (c *contender) end(s *stage) {
	c.tell.Close()
	err := c.cmd.Wait()
	var exit *exec.ExitError
	refused := errors.As(err, &exit) && slices.Contains([]int{1, statusBusy}, exit.ExitCode())
	if c.in && err != nil || !c.in && !refused {
		s.Errorf("%v: got the lock: %v, ended with %v", c.cmd.Args, c.in, err)
	}
}

// trace runs xlock until it ends and asks at each call that it makes, once it
// has taken the lock, whether to kill it there. All its threads are traced, and
// no child: the command runs as if nobody looked.
//
// That is why this is not strace(1), which follows threads and children alike,
// and counts the calls of each thread for itself.
func (s *stage) trace(stdin *os.File, args []string, killAt func(pid int, c syscallInfo) bool) {
	runtime.LockOSThread() // a tracer is a thread
	defer runtime.UnlockOSThread()
	process, err := os.StartProcess(s.xlock, append([]string{"xlock"}, args...), &os.ProcAttr{
		Dir:   s.dir,
		Env:   environment(),
		Files: []*os.File{stdin, nil, os.Stderr},
		Sys:   &syscall.SysProcAttr{Ptrace: true, Setpgid: true},
	})
	check(s.T, err)
	defer func() { _ = process.Release() }()
	tr := tracer{T: s.T, pid: process.Pid, killAt: killAt}
	tr.begin()
	for tr.step() {
	}
}

type tracer struct {
	*testing.T
	pid    int
	locked bool // it has taken the lock
	asks   map[int]bool
	killAt func(pid int, c syscallInfo) bool
}

// begin sets off the process, which waits at its start.
func (tr *tracer) begin() {
	tr.asks = map[int]bool{}
	var ws unix.WaitStatus
	_, err := unix.Wait4(tr.pid, &ws, unix.WALL, nil)
	check(tr.T, err)
	check(tr.T, unix.PtraceSetOptions(tr.pid,
		unix.PTRACE_O_TRACECLONE|unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL))
	check(tr.T, unix.PtraceSyscall(tr.pid, 0))
}

// step takes what has become of one of the threads, and lets it go on. It
// returns false when the process has ended.
func (tr *tracer) step() bool {
	const atCall = unix.SIGTRAP | 0x80 // PTRACE_O_TRACESYSGOOD
	var ws unix.WaitStatus
	// The process group leaves out other children of this program.
	tid, err := unix.Wait4(-tr.pid, &ws, unix.WALL, nil)
	if errors.Is(err, unix.EINTR) {
		return true
	}
	check(tr.T, err)
	if !ws.Stopped() {
		return tid != tr.pid
	}
	deliver := 0
	switch sig := ws.StopSignal(); sig {
	case atCall:
		tr.call(tid)
	case unix.SIGTRAP, unix.SIGSTOP: // a thread was made, and begins
	default:
		deliver = int(sig)
	}
	if err := unix.PtraceSyscall(tid, deliver); !errors.Is(err, unix.ESRCH) { // it was killed
		check(tr.T, err)
	}
	return true
}

// call is told of the entry of each call and of its exit.
func (tr *tracer) call(tid int) {
	info, ok := syscallInfoOf(tr, tid)
	switch {
	case !ok: // killed
	case info.op == unix.PTRACE_SYSCALL_INFO_EXIT:
		tr.locked = tr.locked || tr.asks[tid] && info.value == 0
	case info.op == unix.PTRACE_SYSCALL_INFO_ENTRY:
		tr.asks[tid] = info.call() == unix.SYS_FLOCK
		if tr.locked && !tr.onlyLooks(info) && tr.killAt(tr.pid, info) {
			check(tr.T, unix.Kill(tr.pid, unix.SIGKILL))
		}
	}
}

// onlyLooks are calls that nobody else can see the effect of: the Go runtime's
// for itself, which come at any time and any number of times, and what only
// looks at files and processes.
func (tr *tracer) onlyLooks(info syscallInfo) bool {
	switch info.call() {
	case unix.SYS_CLOCK_NANOSLEEP, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_FUTEX, unix.SYS_GETPID,
		unix.SYS_GETTID, unix.SYS_MADVISE, unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_NANOSLEEP,
		unix.SYS_RESTART_SYSCALL, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN,
		unix.SYS_SCHED_YIELD, unix.SYS_SET_ROBUST_LIST, unix.SYS_SIGALTSTACK, unix.SYS_TGKILL:
		return true
	case unix.SYS_FSTAT, unix.SYS_FSTATFS, unix.SYS_GETUID, unix.SYS_LSEEK, unix.SYS_NEWFSTATAT, unix.SYS_PIDFD_OPEN,
		unix.SYS_PPOLL, unix.SYS_PREAD64, unix.SYS_READLINKAT, unix.SYS_UNAME:
		return true
	case unix.SYS_OPENAT:
		return info.args[2]&(unix.O_ACCMODE|unix.O_CREAT) == unix.O_RDONLY
	case unix.SYS_CLOSE, unix.SYS_FCNTL, unix.SYS_READ:
		return tr.isProc(info.args[0])
	}
	return false
}

// isProc reports whether a descriptor is one of a file in /proc.
func (tr *tracer) isProc(fd uint64) bool {
	target, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tr.pid, fd))
	return strings.HasPrefix(target, "/proc/")
}

// syscallInfo is the beginning of ptrace(2)'s struct ptrace_syscall_info.
type syscallInfo struct {
	op    uint8
	_     [3]uint8
	_     uint32
	_, _  uint64
	value uint64 // at the entry the number of the call, at the exit its result
	args  [6]uint64
}

// call is the number of a call at its entry.
func (c syscallInfo) call() int { return int(c.value) }

func syscallInfoOf(t testing.TB, tid int) (info syscallInfo, ok bool) {
	t.Helper()
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO,
		uintptr(tid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errno != 0 && errno != unix.ESRCH {
		t.Fatal("ptrace: ", errno)
	}
	return info, errno == 0
}
