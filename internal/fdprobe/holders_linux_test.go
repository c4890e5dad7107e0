package fdprobe_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

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
