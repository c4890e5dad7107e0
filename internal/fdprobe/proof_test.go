package fdprobe

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// fixedList is a directory that shows the descriptors 0, 1 and 2 whatever is
// open, as /dev/fd does on a FreeBSD without fdescfs(5).
func fixedList(t *testing.T) string {
	dir := t.TempDir()
	for fd := range 3 {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(fd)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// heldFile is a file with a hold, which a wrong Closed would give away.
func heldFile(t *testing.T) *os.File {
	f, err := os.Create(filepath.Join(t.TempDir(), "lock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestProbeProvesItsListing(t *testing.T) {
	f := heldFile(t)
	fixed, empty, missing := fixedList(t), t.TempDir(), filepath.Join(t.TempDir(), "none")
	real := listings()
	tests := []struct {
		name string
		dirs []string
		want Answer
		why  error
	}{
		{"a fixed few", []string{fixed}, Unknown, errUnproven},
		{"nothing", []string{empty}, Unknown, errUnproven},
		{"missing", []string{missing}, Unknown, fs.ErrNotExist},
		{"no directory", []string{f.Name()}, Unknown, syscall.ENOTDIR},
		{"one useless, one missing", []string{fixed, missing}, Unknown, fs.ErrNotExist},
		{"nowhere to look", nil, Unknown, errUnproven},
		{"useless ones before the real one", append([]string{fixed, missing, empty, f.Name()}, real...), Open, nil},
		{"useless ones behind the real one", append(real, fixed, missing), Open, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := probe(f, tt.dirs)
			if got != tt.want || !errors.Is(err, tt.why) {
				t.Errorf("probe = %v, %v; want %v, %v", got, err, tt.want, tt.why)
			}
		})
	}
}

// A program that closed its standard streams gets their numbers for the next
// files it opens, and a fixed list shows those.
func TestFixedListDoesNotProveALowNumber(t *testing.T) {
	f, fixed := heldFile(t), fixedList(t)
	reopen := []func(){closeLow(t, 0), closeLow(t, 1)}
	got, err := probe(f, []string{fixed})
	for _, again := range reopen {
		again()
	}
	if got != Unknown || !errors.Is(err, errUnproven) {
		t.Errorf("probe = %v, %v; want %v, %v", got, err, Unknown, errUnproven)
	}
}

// closeLow closes a descriptor and returns how to put it back, which must be
// done in the same order: the lowest free number is the next to be given.
func closeLow(t *testing.T, fd int) (reopen func()) {
	t.Helper()
	const high = 100
	saved, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, high)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(fd)
	return func() {
		if back, err := unix.FcntlInt(uintptr(saved), unix.F_DUPFD, 0); back != fd {
			t.Errorf("descriptor %d came back as %d, %v", fd, back, err)
		}
		unix.Close(saved)
	}
}
