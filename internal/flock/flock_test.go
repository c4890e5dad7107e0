package flock_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"xlock/internal/fdprobe"
	"xlock/internal/flock"
	"xlock/internal/testenv"
)

func lockFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lock")
	check(t, os.WriteFile(path, nil, 0o600))
	return path
}

// open opens the file; each call gives an open file description of its own.
func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	check(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func locked(t *testing.T, path string) *os.File {
	t.Helper()
	f := open(t, path)
	check(t, flock.TryLock(t.Context(), f, flock.Exclusive))
	return f
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantBusy(t *testing.T, f *os.File) {
	t.Helper()
	if err := flock.TryLock(t.Context(), f, flock.Exclusive); !errors.Is(err, flock.ErrBusy) {
		t.Errorf("TryLock = %v, want busy", err)
	}
}

// mustBlock calls flock.Lock, sees it wait in the kernel's queue behind as many
// others as there are, and returns how to wait for its result.
func mustBlock(t *testing.T, ctx context.Context, f *os.File) (result func() error) {
	t.Helper()
	testenv.Need(t, "flock") // stands for Linux, whose /proc/locks shows the queue
	watch := open(t, f.Name())
	before := waiters(t, watch)
	done := make(chan error, 1)
	go func() { done <- flock.Lock(ctx, f, flock.Exclusive) }()
	for waiters(t, watch) == before {
		select {
		case err := <-done:
			t.Fatalf("Lock = %v at once, want it to block", err)
		default:
			runtime.Gosched()
		}
	}
	return func() error { return <-done }
}

func waiters(t *testing.T, f *os.File) int {
	t.Helper()
	h, err := fdprobe.ListHolders([]*os.File{f})
	check(t, err)
	return len(h[0].Waiters)
}

// child runs a program that gets f's description as its descriptor 3 and ends
// when the function is called.
func child(t *testing.T, f *os.File) (end func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "cat")
	cmd.ExtraFiles = []*os.File{f}
	stdin, err := cmd.StdinPipe()
	check(t, err)
	check(t, cmd.Start())
	end = func() {
		stdin.Close()
		_ = cmd.Wait()
	}
	t.Cleanup(end)
	return end
}

func TestTryLock(t *testing.T) {
	path := lockFile(t)
	f, other := locked(t, path), open(t, path)
	err := flock.TryLock(t.Context(), other, flock.Exclusive)
	var pathErr *fs.PathError
	if !errors.Is(err, flock.ErrBusy) || !errors.Is(err, syscall.EWOULDBLOCK) ||
		!errors.As(err, &pathErr) || pathErr.Op != "flock" || pathErr.Path != path {
		t.Errorf("TryLock of a busy lock: %#v", err)
	}
	if err := flock.TryLock(t.Context(), f, flock.Exclusive); err != nil {
		t.Errorf("TryLock again by the holder: %v", err)
	}
	check(t, flock.Unlock(f))
	if err := flock.TryLock(t.Context(), other, flock.Exclusive); err != nil {
		t.Errorf("TryLock of a free lock: %v", err)
	}
}

func TestLockIsGrantedWhenTheHolderGoes(t *testing.T) {
	tests := []struct {
		name string
		// hold takes the lock and returns how the holder goes.
		hold func(t *testing.T, path string) (leave func())
	}{
		{"by unlocking", func(t *testing.T, path string) func() {
			f := locked(t, path)
			return func() { check(t, flock.Unlock(f)) }
		}},
		{"by closing", func(t *testing.T, path string) func() {
			f := locked(t, path)
			return func() { check(t, f.Close()) }
		}},
		{"by the end of the last heir", func(t *testing.T, path string) func() {
			f := locked(t, path)
			end := child(t, f)
			check(t, f.Close())
			return end
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := lockFile(t)
			leave := tt.hold(t, path)
			result := mustBlock(t, t.Context(), open(t, path))
			leave()
			check(t, result())
			wantBusy(t, open(t, path))
		})
	}
}

func TestLockGrantsInOrderOfArrival(t *testing.T) {
	path := lockFile(t)
	last := locked(t, path)
	var files []*os.File
	var results []func() error
	for range 4 {
		f := open(t, path)
		files = append(files, f)
		results = append(results, mustBlock(t, t.Context(), f))
	}
	for i, f := range files {
		check(t, flock.Unlock(last))
		check(t, results[i]()) // hangs if another was granted it
		last = f
	}
}

// ending is a context that ends with err when done is closed.
type ending struct {
	context.Context
	done chan struct{}
	err  error
}

func (e ending) Done() <-chan struct{} { return e.done }
func (e ending) Err() error            { return e.err }

// A lock that the kernel grants after the wait was given up must go back, or it
// would be held by nobody.
func TestLockAbandoned(t *testing.T) {
	for _, want := range []error{context.Canceled, context.DeadlineExceeded} {
		t.Run(want.Error(), func(t *testing.T) {
			path := lockFile(t)
			holder := locked(t, path)
			ctx := ending{t.Context(), make(chan struct{}), want}
			result := mustBlock(t, ctx, open(t, path))
			close(ctx.done)
			if err := result(); !errors.Is(err, want) || !flock.Abandoned(err) {
				t.Fatalf("Lock = %v, want %v, abandoned", err, want)
			}
			third := mustBlock(t, t.Context(), open(t, path)) // queues up behind it
			check(t, flock.Unlock(holder))
			check(t, third())
		})
	}
}

// A lock granted while ctx is already over is granted or given up, and in the
// second case given back.
func TestLockWithAnEndedContext(t *testing.T) {
	path := lockFile(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		f := open(t, path)
		switch err := flock.Lock(ctx, f, flock.Exclusive); {
		case err == nil:
			check(t, f.Close())
		case !flock.Abandoned(err):
			t.Fatal(err)
		}
	}
	check(t, flock.Lock(t.Context(), open(t, path), flock.Exclusive))
}

func TestAbandoned(t *testing.T) {
	for _, err := range []error{nil, flock.ErrBusy, syscall.EBADF, os.ErrClosed} {
		if flock.Abandoned(err) {
			t.Errorf("Abandoned(%v)", err)
		}
	}
}

// Unlock is for the description: it needs no last close, and nobody's consent.
func TestUnlockEndsItForAll(t *testing.T) {
	tests := []struct {
		name   string
		unlock func(t *testing.T, f *os.File)
	}{
		{"while a child has it", func(t *testing.T, f *os.File) {
			child(t, f)
			check(t, flock.Unlock(f))
		}},
		{"through a duplicate", func(t *testing.T, f *os.File) {
			fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
			check(t, err)
			duplicate := os.NewFile(uintptr(fd), "duplicate")
			defer duplicate.Close()
			check(t, flock.Unlock(duplicate))
		}},
		{"by a child", func(t *testing.T, f *os.File) {
			testenv.Need(t, "flock")
			cmd := exec.CommandContext(t.Context(), "flock", "-u", "3")
			cmd.ExtraFiles = []*os.File{f}
			check(t, cmd.Run())
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := lockFile(t)
			f, other := locked(t, path), open(t, path)
			wantBusy(t, other)
			tt.unlock(t, f)
			if err := flock.TryLock(t.Context(), other, flock.Exclusive); err != nil {
				t.Errorf("TryLock = %v after the unlock", err)
			}
		})
	}
	t.Run("without a lock", func(t *testing.T) {
		check(t, flock.Unlock(open(t, lockFile(t))))
	})
}

func TestErrorsAreOfThePath(t *testing.T) {
	closed := open(t, lockFile(t))
	check(t, closed.Close())
	const noDescriptor = 1 << 20
	bad := os.NewFile(noDescriptor, "bad")
	tests := []struct {
		name string
		f    *os.File
		want error // nil: any
	}{
		{"closed", closed, nil},
		{"no descriptor", bad, syscall.EBADF},
	}
	calls := map[string]func(*os.File) error{
		"TryLock": func(f *os.File) error { return flock.TryLock(t.Context(), f, flock.Exclusive) },
		"Lock":    func(f *os.File) error { return flock.Lock(t.Context(), f, flock.Exclusive) },
		"Unlock":  flock.Unlock,
	}
	for _, tt := range tests {
		for name, call := range calls {
			t.Run(tt.name+" "+name, func(t *testing.T) {
				err := call(tt.f)
				var pathErr *fs.PathError
				if !errors.As(err, &pathErr) || pathErr.Op != "flock" || pathErr.Path != tt.f.Name() {
					t.Fatalf("%#v, want a PathError of %s", err, tt.f.Name())
				}
				if tt.want != nil && !errors.Is(err, tt.want) {
					t.Errorf("%v, want %v", err, tt.want)
				}
			})
		}
	}
}
