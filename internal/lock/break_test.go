package lock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// heldFile is a lock file with a record, open as a breaker has it.
func heldFile(t *testing.T) (*os.File, Content) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lock")
	l, err := Acquire(t.Context(), path, Options{Mode: Process})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Release(nil) })
	f, err := openExisting(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	content, err := readOurs(f)
	if err != nil {
		t.Fatal(err)
	}
	return f, content
}

func directoryOf(t *testing.T, f *os.File) *os.Root {
	t.Helper()
	dir, err := os.OpenRoot(filepath.Dir(f.Name()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	return dir
}

func entries(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// What comes out of the exchange and is not what was judged goes back unharmed,
// and nothing is left beside it.
func TestReplaceOfAWrongTarget(t *testing.T) {
	tests := []struct {
		name   string
		change func(t *testing.T, f *os.File, judged *Content)
	}{
		{"another hold by now", func(_ *testing.T, _ *os.File, judged *Content) {
			earlier := *judged.Record
			earlier.Generation--
			judged.Record = &earlier
		}},
		{"another file by now", func(t *testing.T, f *os.File, _ *Content) {
			text, err := os.ReadFile(f.Name())
			if err == nil {
				err = os.WriteFile(f.Name()+".new", text, 0o600)
			}
			if err == nil {
				err = os.Rename(f.Name()+".new", f.Name())
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f, judged := heldFile(t)
			tt.change(t, f, &judged)
			before, err := os.Stat(f.Name())
			if err != nil {
				t.Fatal(err)
			}
			if err := replace(directoryOf(t, f), f, judged, freeAfterBreak(&Holder{Record: judged.Record})); !errors.Is(err, ErrReplaced) {
				t.Errorf("replace = %v, want %v", err, ErrReplaced)
			}
			if after, err := os.Stat(f.Name()); err != nil || !os.SameFile(before, after) || after.Size() != before.Size() {
				t.Errorf("the path names %v, %v; want the file that was there", after, err)
			}
			if list := entries(t, filepath.Dir(f.Name())); len(list) != 1 {
				t.Errorf("left beside it: %v", list)
			}
		})
	}
}

// Whoever owns a directory on the way can make it lead elsewhere at any moment: there
// nothing is made, given away or removed.
func TestReplaceStaysInTheDirectory(t *testing.T) {
	f, judged := heldFile(t)
	home := directoryOf(t, f)
	dir, victim := filepath.Dir(f.Name()), t.TempDir()
	if err := os.Rename(dir, dir+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, dir); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(victim)
	if err != nil {
		t.Fatal(err)
	}
	if err := replace(home, f, judged, freeAfterBreak(&Holder{Record: judged.Record})); err != nil {
		t.Errorf("replace = %v", err)
	}
	if after, err := os.Stat(victim); err != nil || !after.ModTime().Equal(before.ModTime()) {
		t.Errorf("the other directory was written to: %v", err)
	}
	if list := entries(t, dir+".moved"); len(list) != 1 {
		t.Errorf("left beside it: %v", list)
	}
	if named, err := home.Stat(filepath.Base(f.Name())); err != nil || os.SameFile(named, stat(t, f)) {
		t.Errorf("the lock's name has %v, %v; want a new file", named, err)
	}
}

func stat(t *testing.T, f *os.File) os.FileInfo {
	t.Helper()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// A holder whose lock was broken learns by whom, and spoils nothing.
func TestReleaseOfABrokenLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	l, err := Acquire(t.Context(), path, Options{Mode: Process})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Reclaim(path, ReclaimOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	next, err := Acquire(t.Context(), path, Options{Mode: Process, NoWait: true})
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var broken *BrokenError
	if err := l.Release(nil); !errors.As(err, &broken) || !errors.Is(err, ErrLost) || broken.PID != os.Getpid() || broken.Generation != 1 {
		t.Errorf("Release = %v, want who broke it", err)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the file held %q and holds %q, %v", before, after, err)
	}
	if err := next.Release(nil); err != nil || next.Generation() != 2 {
		t.Errorf("the next hold has generation %d and ends with %v", next.Generation(), err)
	}
}

// Force is a word against the hold that was found, not against the next.
func TestForceSparesTheNextHold(t *testing.T) {
	f, judged := heldFile(t)
	earlier := *judged.Record
	earlier.Generation--
	opts := ReclaimOptions{Force: true, found: &Content{Kind: Valid, Record: &earlier}}
	var held *HeldError
	var deadlock *DeadlockError
	if _, err := reclaimFile(f.Name(), f, opts); !errors.As(err, &held) && !errors.As(err, &deadlock) {
		t.Errorf("reclaim = %v, want it refused", err)
	}
	opts.found = &judged
	if _, err := reclaimFile(f.Name(), f, opts); err != nil {
		t.Errorf("reclaim of the hold that was found: %v", err)
	}
}

// The end of a limit is no reason to give up a lock that is free at the path.
func TestWaitEndsOnAReplacedFile(t *testing.T) {
	f, _ := heldFile(t)
	ctx, end := context.WithCancel(t.Context())
	end()
	if err := new(taker).lockUnlessReplaced(ctx, f); !errors.Is(err, context.Canceled) {
		t.Errorf("lockUnlessReplaced = %v, want %v", err, context.Canceled)
	}
	g, judged := heldFile(t)
	if err := replace(directoryOf(t, g), g, judged, freeAfterBreak(&Holder{Record: judged.Record})); err != nil {
		t.Fatal(err)
	}
	if err := new(taker).lockUnlessReplaced(ctx, g); !errors.Is(err, ErrReplaced) {
		t.Errorf("lockUnlessReplaced = %v, want %v", err, ErrReplaced)
	}
}
