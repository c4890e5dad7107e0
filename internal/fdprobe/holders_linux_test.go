package fdprobe_test

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"xlock/internal/fdprobe"
	"xlock/internal/flock"
	"xlock/internal/testenv"
)

// flockHolder runs flock(1) on the file with a command that inherits the lock
// and tells its number; both last until the test ends, and the command alone if
// the taker is killed.
func flockHolder(t *testing.T, path string) (taker *exec.Cmd, command int) {
	t.Helper()
	stdin, hold, err := os.Pipe()
	check(t, err)
	out, stdout, err := os.Pipe()
	check(t, err)
	taker = exec.CommandContext(t.Context(), "flock", path, "sh", "-c", "echo $$; exec cat")
	taker.Stdin, taker.Stdout = stdin, stdout
	check(t, taker.Start())
	stdin.Close()
	stdout.Close()
	line, err := bufio.NewReader(out).ReadString('\n')
	check(t, err)
	command, err = strconv.Atoi(strings.TrimSpace(line))
	check(t, err)
	t.Cleanup(func() {
		hold.Close()
		_, _ = io.Copy(io.Discard, out) // until the command has ended too
		_ = taker.Wait()
	})
	return taker, command
}

func listHolders(t *testing.T, f *os.File) fdprobe.Holders {
	t.Helper()
	h, err := fdprobe.ListHolders([]*os.File{f})
	check(t, err)
	return h[0]
}

func pidsOf(h fdprobe.Holders, source fdprobe.Source) []int {
	var pids []int
	for _, holder := range h.Holders {
		if holder.Source == source {
			pids = append(pids, holder.PID)
		}
	}
	slices.Sort(pids)
	return pids
}

func TestListHolders(t *testing.T) {
	testenv.Need(t, "flock")
	path := lockFile(t)
	f := marked(t, path)
	if h := listHolders(t, f); len(h.Holders)+len(h.Waiters) > 0 {
		t.Errorf("of a free lock: %v", h)
	}
	taker, command := flockHolder(t, path)
	var waiters []int
	for range 3 {
		waiter := exec.CommandContext(t.Context(), "flock", path, "true")
		check(t, waiter.Start())
		t.Cleanup(func() { waiter.Wait() })
		waiters = append(waiters, waiter.Process.Pid)
		for len(listHolders(t, f).Waiters) < len(waiters) {
			runtime.Gosched()
		}
	}
	h := listHolders(t, f)
	if !slices.Equal(h.Waiters, waiters) {
		t.Errorf("waiters %v, want %v in order of arrival", h.Waiters, waiters)
	}
	if got, want := pidsOf(h, fdprobe.ProcLocks), []int{taker.Process.Pid}; !slices.Equal(got, want) {
		t.Errorf("/proc/locks names %v, want the taker %v", got, want)
	}
	want := []int{taker.Process.Pid, command}
	slices.Sort(want)
	if got := pidsOf(h, fdprobe.FDInfo); !slices.Equal(got, want) {
		t.Errorf("fdinfo names %v, want the taker and its command %v", got, want)
	}
}

// The lock of a taker that was killed lives on in its command. /proc/locks
// still names the dead (or nobody, from within a PID namespace).
func TestListHoldersOfADeadTaker(t *testing.T) {
	testenv.Need(t, "flock")
	path := lockFile(t)
	taker, command := flockHolder(t, path)
	check(t, taker.Process.Kill())
	_ = taker.Wait()
	h := listHolders(t, marked(t, path))
	if got, want := pidsOf(h, fdprobe.FDInfo), []int{command}; !slices.Equal(got, want) {
		t.Errorf("fdinfo names %v, want the heir %v", got, want)
	}
	if slices.Contains(pidsOf(h, fdprobe.ProcLocks), command) {
		t.Error("/proc/locks names the heir: the comment on ProcLocks is out of date")
	}
}

func TestListHoldersSeesOneFile(t *testing.T) {
	other := marked(t, lockFile(t))
	check(t, flock.TryLock(t.Context(), other, flock.Exclusive))
	if h := listHolders(t, marked(t, lockFile(t))); len(h.Holders) > 0 {
		t.Errorf("holders %v of another file", h.Holders)
	}
}

func TestOwnLock(t *testing.T) {
	tests := []struct {
		name string
		// set returns the descriptor to be found, or -1.
		set func(t *testing.T, f *os.File) int
	}{
		{"none", func(*testing.T, *os.File) int { return -1 }},
		{"open but not locked", func(t *testing.T, f *os.File) int {
			open(t, f.Name(), os.O_RDWR)
			return -1
		}},
		{"locked", func(t *testing.T, f *os.File) int {
			open(t, f.Name(), os.O_RDONLY)
			locked := open(t, f.Name(), os.O_RDONLY)
			check(t, flock.TryLock(t.Context(), locked, flock.Exclusive))
			return int(locked.Fd())
		}},
		{"locked by f itself", func(t *testing.T, f *os.File) int {
			check(t, flock.TryLock(t.Context(), f, flock.Exclusive))
			return -1
		}},
		{"locked and given up", func(t *testing.T, f *os.File) int {
			locked := open(t, f.Name(), os.O_RDWR)
			check(t, flock.TryLock(t.Context(), locked, flock.Exclusive))
			check(t, flock.Unlock(locked))
			return -1
		}},
		{"locked by another process", func(t *testing.T, f *os.File) int {
			testenv.Need(t, "flock")
			flockHolder(t, f.Name())
			open(t, f.Name(), os.O_RDWR)
			return -1
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := marked(t, lockFile(t))
			want := tt.set(t, f)
			if fd, _, ok := fdprobe.OwnLock(f); ok != (want >= 0) || ok && fd != want {
				t.Errorf("OwnLock = %d, %v; want descriptor %d", fd, ok, want)
			}
		})
	}
}

func TestOwnKind(t *testing.T) {
	tests := []struct {
		name string
		set  func(t *testing.T, f *os.File)
		kind flock.Kind
		ok   bool
	}{
		{"none", func(*testing.T, *os.File) {}, 0, false},
		{"exclusive", func(t *testing.T, f *os.File) { check(t, flock.TryLock(t.Context(), f, flock.Exclusive)) }, flock.Exclusive, true},
		{"shared", func(t *testing.T, f *os.File) { check(t, flock.TryLock(t.Context(), f, flock.Shared)) }, flock.Shared, true},
		{"a lock of fcntl(2) alone", func(t *testing.T, f *os.File) {
			check(t, unix.FcntlFlock(f.Fd(), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}))
		}, 0, false},
		{"another description's", func(t *testing.T, f *os.File) {
			check(t, flock.TryLock(t.Context(), open(t, f.Name(), os.O_RDWR), flock.Exclusive))
		}, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := open(t, lockFile(t), os.O_RDWR)
			tt.set(t, f)
			if kind, ok := fdprobe.OwnKind(f); kind != tt.kind || ok != tt.ok {
				t.Errorf("OwnKind = %v, %v; want %v, %v", kind, ok, tt.kind, tt.ok)
			}
		})
	}
}

func TestLockIn(t *testing.T) {
	testenv.Need(t, "flock")
	path := lockFile(t)
	taker, command := flockHolder(t, path)
	f := open(t, path, os.O_RDWR)
	for _, pid := range []int{taker.Process.Pid, command} {
		if !fdprobe.LockIn(pid, f) {
			t.Errorf("process %d has the lock, and is not seen to", pid)
		}
	}
	if fdprobe.LockIn(os.Getpid(), f) {
		t.Error("a descriptor that is only open counts")
	}
	if other := open(t, lockFile(t), os.O_RDWR); fdprobe.LockIn(command, other) {
		t.Error("a lock on another file counts")
	}
}

func TestListLost(t *testing.T) {
	testenv.Need(t, "flock")
	tests := []struct {
		name string
		lose func(path string) error
		lost bool
	}{
		{"there", func(string) error { return nil }, false},
		{"deleted", os.Remove, true},
		{"replaced", func(path string) error {
			return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600))
		}, true},
		{"taken away by a forced reclaim", func(path string) error {
			beside := filepath.Join(filepath.Dir(path), fdprobe.PrefixBeside(path)+"123")
			return errors.Join(os.Rename(path, beside), os.Remove(beside))
		}, true},
		{"deleted under another name", func(path string) error {
			return errors.Join(os.Rename(path, path+"2"), os.Remove(path+"2"))
		}, false},
		{"renamed", func(path string) error { return os.Rename(path, path+"2") }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := lockFile(t)
			taker, command := flockHolder(t, path)
			check(t, tt.lose(path))
			var want []int
			if tt.lost {
				want = []int{taker.Process.Pid, command}
				slices.Sort(want)
			}
			if lost := fdprobe.ListLost(path); !slices.Equal(lost, want) {
				t.Errorf("ListLost = %v, want %v", lost, want)
			}
		})
	}
}
