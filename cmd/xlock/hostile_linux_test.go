package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// rootsCommands is what somebody runs whose lock file a hostile user can replace and
// write to at any moment, and how each may end.
var rootsCommands = []struct {
	args     string
	statuses []int
}{
	{"run -n lock true", []int{0, 73, 75}},
	{"run -w 0.05 lock true", []int{0, 73, 75}},
	{"run -F -n lock true", []int{0, 73, 75}},
	{"run -s -n lock true", []int{0, 73, 75}},
	{"inspect lock", []int{0, 73}},
	{"inspect --json .", []int{0, 1, 73}},
	{"reclaim lock", []int{0, 73, 75}},
	{"reclaim --force lock", []int{0, 73, 75}},
	{"flock -n lock true", []int{0, 1, 65, 66}},
	{"flock -w 0.05 lock true", []int{0, 1, 65, 66}},
}

// TestHostileSwaps lets the path of the lock name something else all the time. Nothing
// is written through it: the files that it leads to stay as they are; and no command
// hangs.
func TestHostileSwaps(t *testing.T) {
	s := newStage(t)
	elsewhere := &stage{T: t, dir: t.TempDir()} // not to be written to
	empty, text := elsewhere.path("empty"), elsewhere.path("text")
	check(t, os.WriteFile(empty, nil, 0o600))
	check(t, os.WriteFile(text, []byte("mine\n"), 0o600))
	before := []os.FileInfo{stat(t, empty), stat(t, text)}

	check(t, os.Symlink(empty, s.path("link")))
	check(t, os.Symlink(elsewhere.path("new"), s.path("dangling")))
	check(t, unix.Mkfifo(s.path("fifo"), 0o666))
	check(t, os.Mkdir(s.path("dir"), 0o777))
	check(t, os.Link(text, s.path("hard")))
	check(t, os.WriteFile(s.path("lock"), nil, 0o666))
	meanwhile(t, func() {
		for _, other := range []string{"link", "fifo", "dangling", "hard", "dir"} {
			for range 2 { // there, and back
				_ = unix.Renameat2(unix.AT_FDCWD, s.path(other), unix.AT_FDCWD, s.path("lock"), unix.RENAME_EXCHANGE)
			}
		}
	})
	runRootsCommands(s)
	for _, info := range before {
		after := stat(t, elsewhere.path(info.Name()))
		if !os.SameFile(info, after) || info.Size() != after.Size() || !info.ModTime().Equal(after.ModTime()) || info.Mode() != after.Mode() {
			t.Errorf("%s was %v and is %v", info.Name(), info, after)
		}
	}
}

// TestHostileContent lets the file grow to a terabyte, shrink, and say this and that all
// the time. No command hangs, nor needs memory for it, nor shows a byte that would move
// a cursor.
func TestHostileContent(t *testing.T) {
	s := newStage(t)
	f, err := os.Create(s.path("lock"))
	check(t, err)
	t.Cleanup(func() { f.Close() })
	texts := []string{
		"", "\x00", `{"xlock":1,"state":"fr`, "\xff\x1b[2J",
		`{"xlock":1,"state":"held","generation":3,"owner":{"boot":"x","pid":1},"mode":"fork","label":"` + "\x1b[2J\u009b" + `"}` + "\n",
		`{"xlock":1,"state":"held","owner":` + strings.Repeat(`{"pid":`, 100_000),
	}
	meanwhile(t, func() {
		for _, text := range texts {
			_ = f.Truncate(0)
			_, _ = f.WriteAt([]byte(text), 0)
			_ = f.Truncate(1 << 40)
		}
	})
	runRootsCommands(s)
}

// TestHostileLease has the file leased by its owner, who gives the lease back to nobody:
// who opens it would be kept for /proc/sys/fs/lease-break-time (fcntl(2)).
func TestHostileLease(t *testing.T) {
	s := newStage(t)
	f, err := os.Create(s.path("lock"))
	check(t, err)
	t.Cleanup(func() { f.Close() })
	for _, command := range rootsCommands {
		// Each time anew, as the kernel takes away the lease that is not given back.
		_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
		check(t, err)
		statuses := []int{73} // as with what cannot be opened
		switch {
		case strings.HasPrefix(command.args, "flock"):
			statuses = []int{66}
		case strings.HasSuffix(command.args, "."):
			statuses = []int{0, 73}
		}
		if err := runHostile(s, command.args, statuses); err != nil {
			t.Errorf("xlock %s: %v", command.args, err)
		}
		_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
		check(t, err)
	}
}

// meanwhile repeats an act until the test ends.
func meanwhile(t *testing.T, act func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var acting sync.WaitGroup
	acting.Go(func() {
		for ctx.Err() == nil {
			act()
		}
	})
	t.Cleanup(func() {
		cancel()
		acting.Wait()
	})
}

func runRootsCommands(s *stage) {
	const rounds = 5
	for round := range rounds {
		for _, command := range rootsCommands {
			if err := runHostile(s, command.args, command.statuses); err != nil {
				s.Fatalf("round %d: xlock %s: %v", round, command.args, err)
			}
		}
	}
}

// runHostile lets a command hang for a minute, which is far beyond what any of them may
// take, and have half a gigabyte, of which the race detector takes most. The kernel counts
// for a child what this process has at its fork, too, as execve(2) takes over the peak of the
// memory before it (exec_mmap in fs/exec.c, Linux 6.18).
func runHostile(s *stage, args string, statuses []int) error {
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return err
	}
	mostMemory := own.Maxrss + 512<<10 // in KiB
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.xlock, strings.Fields(args)...)
	cmd.Dir, cmd.Env = s.dir, environment()
	output, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		return err
	}
	if !slices.Contains(statuses, cmd.ProcessState.ExitCode()) {
		return fmt.Errorf("%v, says %.300q", cmd.ProcessState, output)
	}
	if slices.ContainsFunc(output, movesCursor) {
		return fmt.Errorf("%.300q moves a cursor", output)
	}
	if memory := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss; memory > mostMemory {
		return fmt.Errorf("it took %d KiB", memory)
	}
	return nil
}

func movesCursor(b byte) bool { return b != '\n' && (b < ' ' || b > '~') }

func stat(t *testing.T, path string) os.FileInfo {
	t.Helper()
	info, err := os.Lstat(path)
	check(t, err)
	return info
}
