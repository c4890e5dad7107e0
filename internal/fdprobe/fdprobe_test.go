package fdprobe_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"xlock/internal/fdprobe"
)

func lockFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t *testing.T, path string, flags int) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func marked(t *testing.T, path string) *os.File {
	t.Helper()
	return open(t, path, os.O_RDWR|fdprobe.NotAHold)
}

func markHold(t *testing.T, f *os.File) *os.File {
	t.Helper()
	check(t, fdprobe.MarkHold(f))
	return f
}

// dup duplicates f's descriptor; both share one open file description.
func dup(t *testing.T, f *os.File) {
	t.Helper()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	check(t, err)
	t.Cleanup(func() { unix.Close(fd) })
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantAnswer(t *testing.T, f *os.File, want fdprobe.Answer) {
	t.Helper()
	got, err := fdprobe.Probe(f)
	if got != want || (err != nil) != (want == fdprobe.Unknown) {
		t.Errorf("Probe = %v, %v; want %v", got, err, want)
	}
}

func TestProbe(t *testing.T) {
	tests := []struct {
		name string
		open func(t *testing.T, path string)
		want fdprobe.Answer
	}{
		{"nothing", func(*testing.T, string) {}, fdprobe.Closed},
		{"read-write", func(t *testing.T, path string) { open(t, path, os.O_RDWR) }, fdprobe.Open},
		{"read-only", func(t *testing.T, path string) { open(t, path, os.O_RDONLY) }, fdprobe.Open},
		{"write-only", func(t *testing.T, path string) { open(t, path, os.O_WRONLY) }, fdprobe.Open},
		{"marked", func(t *testing.T, path string) { marked(t, path) }, fdprobe.Closed},
		{"marked reader", func(t *testing.T, path string) {
			open(t, path, os.O_RDONLY|fdprobe.NotAHold)
		}, fdprobe.Closed},
		{"held", func(t *testing.T, path string) { markHold(t, marked(t, path)) }, fdprobe.Open},
		{"held among marked", func(t *testing.T, path string) {
			marked(t, path)
			markHold(t, marked(t, path))
			marked(t, path)
		}, fdprobe.Open},
		{"given up", func(t *testing.T, path string) {
			check(t, markHold(t, marked(t, path)).Close())
		}, fdprobe.Closed},
		{"marked and duplicated", func(t *testing.T, path string) { dup(t, marked(t, path)) }, fdprobe.Closed},
		{"held by a duplicate alone", func(t *testing.T, path string) {
			f := markHold(t, marked(t, path))
			dup(t, f)
			check(t, f.Close())
		}, fdprobe.Open},
		{"duplicated first, then held", func(t *testing.T, path string) {
			f := marked(t, path)
			dup(t, f)
			check(t, markHold(t, f).Close())
		}, fdprobe.Open},
		{"a hard link", func(t *testing.T, path string) {
			check(t, os.Link(path, path+".link"))
			open(t, path+".link", os.O_RDWR)
		}, fdprobe.Open},
		{"another file", func(t *testing.T, path string) {
			check(t, os.WriteFile(path+".other", nil, 0o600))
			open(t, path+".other", os.O_RDWR)
		}, fdprobe.Closed},
		{"a deleted file of the same path", func(t *testing.T, path string) {
			open(t, path, os.O_RDWR)
			check(t, os.Remove(path))
			check(t, os.WriteFile(path, nil, 0o600))
		}, fdprobe.Closed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := lockFile(t)
			tt.open(t, path)
			wantAnswer(t, marked(t, path), tt.want)
		})
	}
}

// The path is how the probe opens the file afresh. One that leads elsewhere by
// now answers for another file, and so for nothing.
func TestProbeOfALostPath(t *testing.T) {
	tests := []struct {
		name string
		lose func(t *testing.T, f *os.File)
		why  error // nil: any
	}{
		{"removed", func(t *testing.T, f *os.File) { check(t, os.Remove(f.Name())) }, fs.ErrNotExist},
		{"replaced", func(t *testing.T, f *os.File) {
			check(t, os.WriteFile(f.Name()+".new", nil, 0o600))
			check(t, os.Rename(f.Name()+".new", f.Name()))
		}, nil},
		{"a symbolic link to the file itself", func(t *testing.T, f *os.File) {
			check(t, os.Rename(f.Name(), f.Name()+".old"))
			check(t, os.Symlink(f.Name()+".old", f.Name()))
		}, nil},
		{"closed", func(t *testing.T, f *os.File) { check(t, f.Close()) }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := lockFile(t)
			open(t, path, os.O_RDWR)
			f := marked(t, path)
			tt.lose(t, f)
			got, err := fdprobe.Probe(f)
			if got != fdprobe.Unknown || err == nil || tt.why != nil && !errors.Is(err, tt.why) {
				t.Errorf("Probe = %v, %v; want unknown and an error (%v)", got, err, tt.why)
			}
		})
	}
}

// Probes, readers and takers of other goroutines come and go on every number of
// the table while one probes, and files that have nothing to do with it do too.
func TestProbeAmongOthers(t *testing.T) {
	path := lockFile(t)
	t.Run("no hold", func(t *testing.T) { probeAmongOthers(t, path, fdprobe.Closed) })
	open(t, path, os.O_RDWR)
	t.Run("a hold", func(t *testing.T) { probeAmongOthers(t, path, fdprobe.Open) })
}

func probeAmongOthers(t *testing.T, path string, want fdprobe.Answer) {
	const probers, rounds = 8, 300
	f := marked(t, path)
	other := filepath.Join(t.TempDir(), "other")
	check(t, os.WriteFile(other, nil, 0o600))
	var all sync.WaitGroup
	for range probers {
		all.Go(func() {
			for range rounds {
				if got, err := fdprobe.Probe(f); got != want || err != nil {
					t.Errorf("Probe = %v, %v; want %v", got, err, want)
					return
				}
			}
		})
		all.Go(func() {
			for range 10 * rounds {
				openAndClose(t, path, os.O_RDONLY|fdprobe.NotAHold)
				openAndClose(t, other, os.O_RDONLY)
			}
		})
	}
	all.Wait()
}

func openAndClose(t *testing.T, path string, flags int) {
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		t.Error(err)
		return
	}
	f.Close()
}

// The mark must be on the open file description from open(2) on, so that there
// is no moment without it; package os takes flags off files that it cannot
// poll, and File.Fd can make a file blocking.
func TestMarkLastsUntilMarkHold(t *testing.T) {
	f := marked(t, lockFile(t))
	if !isMarked(t, f) {
		t.Error("os.OpenFile lost the mark")
	}
	if _, err := f.WriteAt([]byte("x"), 0); err != nil {
		t.Error(err)
	}
	if !isMarked(t, f) {
		t.Error("a write lost the mark")
	}
	if markHold(t, f); isMarked(t, f) {
		t.Error("MarkHold left the mark")
	}
}

func isMarked(t *testing.T, f *os.File) bool {
	t.Helper()
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	check(t, err)
	return flags&fdprobe.NotAHold != 0
}

func TestMarkHoldOfAClosedFile(t *testing.T) {
	f := marked(t, lockFile(t))
	check(t, f.Close())
	if err := fdprobe.MarkHold(f); err == nil {
		t.Error("MarkHold of a closed file: no error")
	}
}

// A new image of the process has what its predecessor let it inherit, and
// nothing else.
func TestProbeAfterExec(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want string
	}{
		{"close-on-exec", nil, "open <nil>\nclosed <nil>"},
		{"inherited", []string{"inherit"}, "open <nil>\nopen <nil>"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{lockFile(t)}, tt.args...)
			if got := answersOf(t, again(t, "hold-exec", nil, args...)); got != tt.want {
				t.Errorf("before and after: %q, want %q", got, tt.want)
			}
		})
	}
}
