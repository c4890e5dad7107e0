package fdprobe_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"xlock/internal/fdprobe"
	"xlock/internal/flock"
	"xlock/internal/procfs"
	"xlock/internal/testenv"
)

func init() {
	const role = "no-main-thread"
	roles[role] = roleNoMainThread
	if os.Getenv("XLOCK_TEST_ROLE") == role {
		runtime.LockOSThread() // the main goroutine onto the main thread
	}
}

// roleNoMainThread ends the main thread and, in another, probes without a hold
// and with one, and asks for its own kernel lock and for all holders.
func roleNoMainThread() int {
	f, locked := roleOpen(fdprobe.NotAHold), roleOpen(fdprobe.NotAHold)
	go func() {
		for !mainThreadEnded() {
			runtime.Gosched()
		}
		roleAnswer(f)
		errTaken := errors.Join(flock.TryLock(context.Background(), locked, flock.Exclusive), fdprobe.MarkHold(locked))
		roleAnswer(f)
		fd, _, ok := fdprobe.OwnLock(f)
		holders, errHolders := fdprobe.ListHolders([]*os.File{f})
		fmt.Println(ok && fd == int(locked.Fd()), len(holders[0].Holders), errTaken, errHolders)
		os.Exit(0)
	}()
	// exit(2) ends the calling thread alone.
	_, _, errno := unix.RawSyscall(unix.SYS_EXIT, 0, 0, 0)
	return roleFailed(errno)
}

func mainThreadEnded() bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/stat", os.Getpid()))
	if err != nil {
		return false
	}
	stat, err := procfs.ParseStat(string(text))
	return err == nil && stat.Ended()
}

// Once the main thread has ended, /proc/self/fd is empty (Linux 6.18); the
// table is the other threads' as before.
func TestProbeWithoutMainThread(t *testing.T) {
	const want = "closed <nil>\nopen <nil>\ntrue 2 <nil> <nil>"
	if got := answersOf(t, again(t, "no-main-thread", nil, lockFile(t))); got != want {
		t.Errorf("answers:\n%s\nwant:\n%s", got, want)
	}
}

func TestPathDescriptorIsNoHold(t *testing.T) {
	path := lockFile(t)
	open(t, path, unix.O_PATH)
	wantAnswer(t, marked(t, path), fdprobe.Closed)
}

func TestProbeAmongManyDescriptors(t *testing.T) {
	const want = "closed <nil>\nopen <nil>"
	if got := answersOf(t, again(t, "many-files", nil, lockFile(t))); got != want {
		t.Errorf("without and with a hold: %q, want %q", got, want)
	}
}

// In a chroot or a sandbox there may be nothing to list, or a /dev/fd that is a
// plain directory.
func TestProbeWithoutProc(t *testing.T) {
	testenv.Need(t, "root", "unshare", "mount")
	const bury = "mount -t tmpfs none /dev && mount -t tmpfs none /proc && "
	tests := []struct {
		name, script string
	}{
		{"no /dev/fd and no /proc", bury + `exec "$0" "$@"`},
		{"a fixed /dev/fd and no /proc", bury + `mkdir /dev/fd && >/dev/fd/0 && >/dev/fd/1 && >/dev/fd/2 && exec "$0" "$@"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cmd := again(t, "hold", []string{"unshare", "-m", "sh", "-c", tt.script}, lockFile(t))
			if got := answersOf(t, cmd); !strings.HasPrefix(got, "unknown ") || strings.HasSuffix(got, "<nil>") {
				t.Errorf("%q, want unknown and why", got)
			}
		})
	}
}
