package lock_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"xlock/internal/fdprobe"
	"xlock/internal/lock"
)

// What is no lock file is refused by everybody, at once, and is as it was.
func TestWhatIsNoLockFile(t *testing.T) {
	tests := []struct {
		name string
		make func(t *testing.T, path string)
	}{
		{"a directory", func(t *testing.T, path string) { check(t, os.Mkdir(path, 0o700)) }},
		{"a FIFO", func(t *testing.T, path string) { check(t, syscall.Mkfifo(path, 0o600)) }},
		{"a socket", func(t *testing.T, path string) {
			listener, err := net.Listen("unix", path)
			check(t, err)
			t.Cleanup(func() { listener.Close() })
		}},
		{"a link to a lock file", func(t *testing.T, path string) {
			check(t, os.WriteFile(path+".target", nil, 0o600))
			check(t, os.Symlink(path+".target", path))
		}},
		{"a link to nothing", func(t *testing.T, path string) { check(t, os.Symlink(path+".target", path)) }},
		{"text", func(t *testing.T, path string) { check(t, os.WriteFile(path, []byte("12345\n"), 0o600)) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := lockPath(t)
			tt.make(t, path)
			before := describeTree(t, path)
			_, errAcquire := lock.Acquire(t.Context(), path, lock.Options{})
			_, errInspect := lock.Inspect(path)
			_, errReclaim := lock.Reclaim(path, lock.ReclaimOptions{})
			for _, err := range []error{errAcquire, errInspect, errReclaim} {
				var pathErr *fs.PathError
				if !errors.Is(err, lock.ErrNotLockFile) || !errors.As(err, &pathErr) || pathErr.Path != path {
					t.Errorf("%v, want %v of %s", err, lock.ErrNotLockFile, path)
				}
			}
			if after := describeTree(t, path); after != before {
				t.Errorf("there was\n%s\nand there is\n%s", before, after)
			}
		})
	}
	t.Run("a device", func(t *testing.T) {
		_, err := lock.Acquire(t.Context(), os.DevNull, lock.Options{})
		wantOutcome(t, err, "no lock file")
	})
}

// describeTree lists the directory of path: names, modes, sizes and times.
func describeTree(t *testing.T, path string) string {
	t.Helper()
	var list strings.Builder
	entries, err := os.ReadDir(filepath.Dir(path))
	check(t, err)
	for _, entry := range entries {
		info, err := entry.Info()
		check(t, err)
		list.WriteString(fs.FormatFileInfo(info) + info.ModTime().String() + "\n")
	}
	return list.String()
}

// A program cannot be started while it is open for writing (ETXTBSY,
// execve(2)), nor opened for writing while it runs. One that was named by
// mistake is found out before that.
func TestRunningProgramIsNotOpenedForWriting(t *testing.T) {
	cat, err := exec.LookPath("cat")
	check(t, err)
	program, err := os.ReadFile(cat)
	check(t, err)
	path := lockPath(t)
	check(t, os.WriteFile(path, program, 0o700))
	cmd := exec.CommandContext(t.Context(), path)
	stdin, err := cmd.StdinPipe()
	check(t, err)
	check(t, cmd.Start())
	defer func() {
		stdin.Close()
		_ = cmd.Wait()
	}()
	_, err = lock.Acquire(t.Context(), path, lock.Options{})
	wantOutcome(t, err, "no lock file")
}

func TestAcquireCreatesTheFile(t *testing.T) {
	old := syscall.Umask(0o027)
	defer syscall.Umask(old)
	path := lockPath(t)
	check(t, acquire(t, path).Release(nil))
	info, err := os.Lstat(path)
	check(t, err)
	if got := info.Mode(); got != 0o640 {
		t.Errorf("mode %v, want 0666 less the umask", got)
	}
}

func TestAcquireInAMissingDirectory(t *testing.T) {
	path := filepath.Join(lockPath(t), "lock")
	_, err := lock.Acquire(t.Context(), path, lock.Options{})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Acquire = %v, want %v", err, fs.ErrNotExist)
	}
	if _, err := os.Lstat(filepath.Dir(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory: %v", err)
	}
}

// Somebody creates the file and deletes it again while we open it.
func TestAcquireAFileThatComesAndGoes(t *testing.T) {
	const rounds, changes = 100, 40 // a try that fails met a change
	for range rounds {
		path := lockPath(t)
		changed := make(chan struct{})
		go func() {
			defer close(changed)
			for range changes {
				f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|fdprobe.NotAHold, 0o600)
				if err == nil {
					f.Close()
				}
				os.Remove(path)
			}
		}()
		l, err := lock.Acquire(t.Context(), path, lock.Options{})
		check(t, err)
		if err := l.Release(nil); err != nil && !errors.Is(err, lock.ErrLost) {
			t.Error(err)
		}
		<-changed
	}
}
