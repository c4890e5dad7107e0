package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"xlock/internal/lock"
)

// stage is a directory with a lock and with a log, to which each command writes
// when it begins and when it ends.
type stage struct {
	*testing.T
	dir   string
	xlock string
}

func newStage(t *testing.T) *stage {
	return &stage{T: t, dir: t.TempDir(), xlock: linkXlock(t)}
}

// linkXlock makes a program of the test binary, which is xlock when it is called
// by that name.
func linkXlock(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	path := filepath.Join(t.TempDir(), "xlock")
	check(t, os.Symlink(self, path))
	return path
}

// environment spares a test binary the second for which the race detector would
// hold up its exit.
func environment() []string { return append(os.Environ(), "GORACE=atexit_sleep_ms=0") }

func (s *stage) path(name string) string { return filepath.Join(s.dir, name) }

func (s *stage) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(s.Context(), name, args...)
	cmd.Dir, cmd.Env, cmd.Stderr = s.dir, environment(), s.Output()
	return cmd
}

// log is what the commands have written.
func (s *stage) log() string {
	text, err := os.ReadFile(s.path("log"))
	if !errors.Is(err, os.ErrNotExist) {
		check(s.T, err)
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// lock opens the lock file and takes the kernel's lock, as any program can.
func (s *stage) lock() *os.File {
	f, err := os.OpenFile(s.path("lock"), os.O_RDWR|os.O_CREATE, 0o666)
	check(s.T, err)
	s.Cleanup(func() { f.Close() })
	s.flock(f, unix.LOCK_EX)
	return f
}

func (s *stage) flock(f *os.File, how int) {
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		err = unix.Flock(int(f.Fd()), how)
	}
	check(s.T, err)
}

// awaitWaiters looks again and again, as nobody tells when another process
// begins to wait in the kernel.
func (s *stage) awaitWaiters(n int) {
	for distinct(s.inspect().Kernel.Waiters) != n {
		runtime.Gosched()
	}
}

func (s *stage) inspect() *lock.Report {
	report, err := lock.Inspect(s.path("lock"))
	check(s.T, err)
	return report
}

// processes are those whose working directory is the stage.
func (s *stage) processes() (pids []string) {
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	check(s.T, err)
	for _, link := range links {
		if dir, _ := os.Readlink(link); dir == s.dir {
			pids = append(pids, filepath.Base(filepath.Dir(link)))
		}
	}
	return pids
}

// cmdGone is for a process that is nobody's child here. The end of its output
// comes before its own.
func cmdGone(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: gone FILE")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[0])))
	ts.Check(err)
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	ts.Check(err)
	defer unix.Close(fd)
	ts.Check(awaitPidfd(fd))
}

// awaitPidfd returns when the process has ended.
func awaitPidfd(pidfd int) error {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		_, err = unix.Poll(fds, -1)
	}
	return err
}
