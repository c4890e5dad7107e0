//go:build amd64

package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"xlock/internal/lock"
	"xlock/internal/testenv"
)

// TestKillPoints kills xlock at each system call that it makes from its start to
// its end: at the first of each kind, at the second in another run, and so on,
// until it ends before its turn comes. The call is not carried out. Others want the
// lock at that moment, and wait for it in the kernel's queue if it is held. After
// each kill
//
//   - the lock file is empty or holds a whole record,
//   - no two commands are inside at one time, that of the killed wrapper included,
//     which stays until the others have come in or have given way to it,
//   - all others get in within the limit of their wait,
//   - the lock is free then.
//
// Calls that only look are left out, see [attempt.onlyLooks]: a kill there leaves what
// a kill at the next call leaves. With XLOCK_TEST_CALLS=all they are not.
func TestKillPoints(t *testing.T) {
	testenv.Need(t, "flock")
	xlock := buildXlock(t)
	run := func(options ...string) []string {
		return slices.Concat([]string{"run"}, options, []string{"lock", "sh", "-c", visit("killed")})
	}
	closing := []string{"run", "lock", "sh", "-c", `eval "exec $XLOCK_FD>&-"; ` + visit("killed")}
	force := []string{"reclaim", "--force", "lock"}
	all := []string{neverRan, livedOn, wasOver}
	tests := []struct {
		name string
		ordeal
	}{
		{"run", ordeal{args: run(), alsoFlock: true, fates: all}},
		{"run -o", ordeal{args: run("-o"), before: (*stage).longerRecord, fates: all}},
		{"run, closed by the command", ordeal{args: closing, fates: all}},
		{"run -F", ordeal{args: run("-F"), alsoFlock: true, fates: []string{neverRan}}},
		{"run behind flock", ordeal{args: run("-w", "1h"), alsoFlock: true, before: (*stage).behindFlock, until: waitsInKernel, fates: all}},
		{"run behind a command", ordeal{args: run(), before: (*stage).behindCommand, until: unlocks, fates: all}},
		{"run over a dead holder", ordeal{args: run(), alsoFlock: true, before: (*stage).deadHolder, fates: all}},
		{"reclaim", ordeal{args: []string{"reclaim", "lock"}, alsoFlock: true, before: (*stage).deadHolder}},
		{"reclaim --force, cleared", ordeal{args: force, before: (*stage).brokenCommand}},
		{"reclaim --force, replaced", ordeal{args: force, before: (*stage).brokenWrapper, queued: true}},
	}
	var points atomic.Int64
	t.Cleanup(func() { t.Logf("killed at %d calls in all", points.Load()) })
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &stage{T: t, dir: t.TempDir(), xlock: xlock}
			points.Add(s.killAtEach(tt.ordeal))
		})
	}
}

// killAtEach fails the test also if it has not come to what it is there for.
func (s *stage) killAtEach(o ordeal) (points int64) {
	kinds := s.attempt(o, -1, 0).calls
	fates := map[string]int{}
	for call := range kinds {
		for n := 1; ; n++ {
			a := s.attempt(o, call, n)
			if !a.dead {
				break
			}
			points++
			fates[a.fate]++
		}
	}
	s.Logf("killed at %d calls of %d kinds: %v", points, len(kinds), fates)
	for _, fate := range o.fates {
		if fates[fate] == 0 {
			s.Errorf("no kill after which %s", fate)
		}
	}
	if points < int64(len(kinds)) {
		s.Error("some kind of call was never reached")
	}
	return points
}

// What had become of the command when its wrapper was killed.
const (
	neverRan = "the command never ran"
	livedOn  = "it lived on"
	wasOver  = "it was over"
)

// buildXlock makes a program without the race detector, whose own calls would be
// thousands.
func buildXlock(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "xlock")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	return path
}

// visit is a command that comes in, stays until it is told to go, and notices
// others.
func visit(name string) string {
	return "mkdir inside || echo overlap >>log; echo " + name + " in >>log; read _; rmdir inside; echo " + name + " out >>log"
}

// ordeal is a run of xlock that is to be killed.
type ordeal struct {
	args []string
	// before puts somebody in its way, who goes when end is called.
	before func(*stage) (end func())
	// until tells the call at which that one goes; nil: after the kill.
	until func(syscallInfo) bool
	// queued: the others wait before xlock begins.
	queued bool
	// alsoFlock: one of the others is flock(1), as nobody is inside without the kernel's
	// lock.
	alsoFlock bool
	// fates that come about.
	fates []string
}

func waitsInKernel(c syscallInfo) bool {
	return c.call() == unix.SYS_FLOCK && c.args[1] == unix.LOCK_EX
}

func unlocks(c syscallInfo) bool { return c.call() == unix.SYS_FLOCK && c.args[1] == unix.LOCK_UN }

// attempt is one run, killed at the nth call of a kind if it comes to that.
type attempt struct {
	*stage
	ordeal
	call, n  int
	calls    map[int]int
	dead     bool
	fate     string   // of the command
	tell     *os.File // when it is closed, the command goes
	end      func()   // of who is in the way
	own      int      // channels at the start
	waiting  bool     // for the command
	heirs    []int    // pidfds of the children that it had
	entrants []*entrant
}

func (s *stage) attempt(o ordeal, call, n int) *attempt {
	for _, name := range []string{"lock", "log", "inside"} {
		check(s.T, os.RemoveAll(s.path(name)))
	}
	a := &attempt{stage: s, ordeal: o, call: call, n: n, calls: map[int]int{}, end: func() {}, own: -1}
	if o.before != nil {
		a.end = sync.OnceFunc(o.before(s))
	}
	if o.queued {
		a.enter()
	}
	a.run()
	return a
}

func (a *attempt) at() string {
	return fmt.Sprintf("killed at call %d of the system's number %d", a.n, a.call)
}

// run runs xlock and looks at what it has left.
func (a *attempt) run() {
	stdin, tell, err := os.Pipe()
	check(a.T, err)
	defer stdin.Close()
	a.tell = tell
	a.Cleanup(func() { tell.Close() })
	tr := a.trace(stdin, a.args, a.killAt, a.letGo)
	if !a.dead && !tr.replaced && tr.status != 0 {
		a.Errorf("xlock ended with %v", tr.status)
	}
	a.whole()
	if a.dead {
		a.settle()
	}
	before := a.log()
	a.end()
	a.tell.Close()
	if tr.replaced {
		_, err := unix.Wait4(tr.pid, nil, 0, nil)
		check(a.T, err)
	}
	for _, pidfd := range a.heirs {
		check(a.T, awaitPidfd(pidfd))
		unix.Close(pidfd)
	}
	a.leave()
	a.fate = fate(before, a.log())
}

// fate takes the log of when the command was told to go, and the whole of it.
func fate(before, after string) string {
	switch {
	case strings.Contains(before, "killed out"):
		return wasOver
	case strings.Contains(after, "killed in"):
		return livedOn
	}
	return neverRan
}

// killAt is asked at each call.
func (a *attempt) killAt(pid int, c syscallInfo) bool {
	if !allCalls() && a.onlyLooks(pid, c) {
		return false
	}
	a.calls[c.call()]++
	if a.dead = c.call() == a.call && a.calls[a.call] == a.n; a.dead {
		a.heirs = a.children(pid)
		if !a.queued {
			a.enter()
		}
		return true
	}
	if a.until != nil && a.until(c) {
		a.end()
	}
	if a.own < 0 {
		a.own = channels(pid)
	}
	if c.call() == unix.SYS_WAITID {
		a.waiting = true
		a.letGo(pid)
	}
	return false
}

func allCalls() bool { return os.Getenv("XLOCK_TEST_CALLS") == "all" }

// onlyLooks are calls that nobody else can see the effect of: the Go runtime's
// for itself, which come at any time and any number of times, and what only looks at
// files and processes, or touches files that are neither in the lock's directory nor a
// pipe to the command. A kind that is not named here counts.
func (a *attempt) onlyLooks(pid int, c syscallInfo) bool {
	switch c.call() {
	case unix.SYS_ARCH_PRCTL, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL,
		unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2, unix.SYS_FUTEX, unix.SYS_GETPID, unix.SYS_GETTID,
		unix.SYS_MADVISE, unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_NANOSLEEP, unix.SYS_PRCTL,
		unix.SYS_RESTART_SYSCALL, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN,
		unix.SYS_SCHED_GETAFFINITY, unix.SYS_SCHED_YIELD, unix.SYS_SET_ROBUST_LIST, unix.SYS_SIGALTSTACK,
		unix.SYS_TGKILL:
		return true
	case unix.SYS_FACCESSAT2, unix.SYS_FSTAT, unix.SYS_FSTATFS, unix.SYS_GETCWD, unix.SYS_GETRLIMIT, unix.SYS_GETUID,
		unix.SYS_LSEEK, unix.SYS_NEWFSTATAT, unix.SYS_PIDFD_OPEN, unix.SYS_PPOLL, unix.SYS_PREAD64,
		unix.SYS_READLINKAT, unix.SYS_UNAME:
		return true
	case unix.SYS_OPENAT:
		return c.args[2]&(unix.O_ACCMODE|unix.O_CREAT) == unix.O_RDONLY
	case unix.SYS_CLOSE, unix.SYS_FCNTL, unix.SYS_READ:
		target, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, c.args[0]))
		return !strings.HasPrefix(target, a.dir) && !strings.HasPrefix(target, "pipe:")
	}
	return false
}

// letGo tells the command to go once xlock does nothing but wait for it: it has begun
// to, and what connected it with the process before that was the command is closed.
// Two threads do that, so that either can be the last.
func (a *attempt) letGo(pid int) {
	if a.waiting && channels(pid) == a.own {
		a.tell.Close()
	}
}

// channels counts the pipes and sockets of a process.
func channels(pid int) (n int) {
	descriptors, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, path := range descriptors {
		target, _ := os.Readlink(path)
		if strings.HasPrefix(target, "pipe:") || strings.HasPrefix(target, "socket:") {
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

func (s *stage) glance() *lock.Report {
	report, err := lock.Glance(s.path("lock"))
	check(s.T, err)
	return report
}

// whole looks at the file as the next one finds it.
func (a *attempt) whole() {
	report := a.glance()
	if kind := report.Content.Kind; kind != lock.Empty && kind != lock.Valid {
		a.Errorf("%s: the record is %s: %s", a.at(), kind, report.Content.Why)
	}
}

// entrant is somebody who waits for the lock.
type entrant struct {
	*exec.Cmd
	tell *os.File
}

// enter lets others want the lock. If it is held, they are in the queue when it
// returns.
func (a *attempt) enter() {
	held := len(a.glance().Kernel.Holders) > 0
	lockers := [][]string{{a.xlock, "run", "-q", "-w", "20"}, {a.xlock, "run", "-q", "-w", "20"}}
	if a.alsoFlock {
		lockers = append(lockers, []string{"flock", "-w", "20"})
	}
	for _, l := range lockers {
		a.entrants = append(a.entrants, a.entrant(a.Output(), append(l, "lock", "sh", "-c", visit("other"))...))
	}
	for held && !a.queue() {
		runtime.Gosched()
	}
}

// queue reports whether all others wait in the kernel's queue.
func (a *attempt) queue() bool {
	waiters := a.glance().Kernel.Waiters
	return !slices.ContainsFunc(a.entrants, func(e *entrant) bool { return !slices.Contains(waiters, e.Process.Pid) })
}

func (s *stage) entrant(stderr io.Writer, command ...string) *entrant {
	cmd := s.command(command[0], command[1:]...)
	cmd.Stderr = stderr
	stdin, tell, err := os.Pipe()
	check(s.T, err)
	defer stdin.Close()
	cmd.Stdin = stdin
	check(s.T, cmd.Start())
	s.Cleanup(func() { tell.Close() })
	return &entrant{cmd, tell}
}

// settle returns when the others have come in, or are kept out: by the kernel, as
// somebody else has the lock, or by the record, which they have read with the lock
// and have given it back.
func (a *attempt) settle() {
	for {
		k := a.inspect().Kernel
		theirs := false
		for _, h := range k.Holders {
			theirs = theirs || slices.ContainsFunc(a.entrants, func(e *entrant) bool { return e.Process.Pid == h.PID })
		}
		switch {
		case strings.Contains(a.log(), "other in"):
			return
		case len(k.Holders) > 0 && !theirs, len(k.Holders) == 0 && len(k.Waiters) == 0:
			return
		}
	}
}

// leave lets the others go, who have to come in for that.
func (a *attempt) leave() {
	for _, e := range a.entrants {
		e.tell.Close()
	}
	for _, e := range a.entrants {
		if err := e.Wait(); err != nil {
			a.Errorf("%s: one of the others did not get in: %v", a.at(), err)
		}
	}
	log := a.log()
	if strings.Contains(log, "overlap") || strings.Count(log, "other in") != len(a.entrants) {
		a.Errorf("%s: what the commands say: %s", a.at(), log)
	}
	if state := a.inspect().State; state != lock.Free {
		a.Errorf("%s: the lock is %s in the end", a.at(), state)
	}
	a.tidy()
}

// tidy removes what a killed breaker may leave beside the lock.
func (a *attempt) tidy() {
	left, err := filepath.Glob(a.path(".lock.*"))
	check(a.T, err)
	if len(left) > 1 || len(left) > 0 && !a.dead {
		a.Errorf("%s: it has left %v", a.at(), left)
	}
	for _, path := range left {
		check(a.T, os.Remove(path))
	}
}

// behindFlock is a program that keeps no record.
func (s *stage) behindFlock() (end func()) {
	f := s.lock()
	return func() { f.Close() }
}

// behindCommand is a command without the lock's descriptor that has outlived its
// wrapper.
func (s *stage) behindCommand() (end func()) { return s.orphan(visit("before")) }

// brokenCommand does not mind who is inside, as its lock is to be broken.
func (s *stage) brokenCommand() (end func()) { return s.orphan("echo before in >>log; read _") }

func (s *stage) orphan(script string) (end func()) {
	e := s.entrant(nil, s.xlock, "run", "-o", "lock", "sh", "-c", script)
	s.awaitLog("before in")
	command, err := unix.PidfdOpen(s.inspect().Content.Record.Command.PID, 0)
	check(s.T, err)
	check(s.T, e.Process.Kill())
	_ = e.Wait()
	return func() {
		e.tell.Close()
		check(s.T, awaitPidfd(command))
		unix.Close(command)
	}
}

// longerRecord is what the last one has left, who had much to say.
func (s *stage) longerRecord() (end func()) {
	check(s.T, s.command(s.xlock, "run", "--label", strings.Repeat("x", 1000), "lock", "true").Run())
	return func() {}
}

func (s *stage) deadHolder() (end func()) {
	s.orphan("echo before in >>log; read _")()
	return func() {}
}

// brokenWrapper is alive, and has the kernel's lock.
func (s *stage) brokenWrapper() (end func()) {
	e := s.entrant(nil, s.xlock, "run", "lock", "sh", "-c", "echo before in >>log; read _")
	s.awaitLog("before in")
	return func() {
		e.tell.Close()
		_ = e.Wait() // it ends as its command does
	}
}

// awaitLog looks again and again, as nobody tells when a file is written.
func (s *stage) awaitLog(words string) {
	for !strings.Contains(s.log(), words) {
		runtime.Gosched()
	}
}
