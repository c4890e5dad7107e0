package lock_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"xlock/internal/lock"
)

// Who opens a lock file that is moved away at once would lock a file that nobody
// else looks at, and could not read there who holds it. A descriptor is locked
// whatever its path is, and so is what is named by it.
func TestAcquireOpenOfAMovedFile(t *testing.T) {
	tests := []struct {
		name   string
		mode   lock.Mode
		byLink bool
		put    bool // another file takes its place
		want   error
	}{
		{"moved away", lock.Fork, false, false, lock.ErrReplaced},
		{"replaced", lock.Fork, false, true, lock.ErrReplaced},
		{"replaced, no fork", lock.Exec, false, true, lock.ErrReplaced},
		{"replaced, a descriptor", lock.Descriptor, false, true, nil},
		{"named by its descriptor", lock.Fork, true, false, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := lockPath(t)
			f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
			check(t, err)
			defer f.Close()
			check(t, os.Rename(path, path+".old"))
			if tt.put {
				check(t, os.WriteFile(path, nil, 0o600))
			}
			opened := f
			if tt.byLink {
				check(t, os.Remove(path+".old"))
				opened, err = os.OpenFile(fmt.Sprintf("/dev/fd/%d", f.Fd()), os.O_RDWR, 0)
				check(t, err)
				defer opened.Close()
			}
			l, err := lock.AcquireOpen(t.Context(), opened, lock.Options{Mode: tt.mode, AsFlock: true, NoWait: true})
			if !errors.Is(err, tt.want) {
				t.Fatalf("AcquireOpen = %v, want %v", err, tt.want)
			}
			if err == nil {
				_ = l.Release(nil)
			}
		})
	}
}
