package lock

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// What was a file when it was looked at can be a link, or no file, when it is opened.
func TestOpenOfWhatWasAFile(t *testing.T) {
	dir := t.TempDir()
	file, link, fifo := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "fifo")
	err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink(file, link), unix.Mkfifo(fifo, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, fifo} {
		for _, access := range []int{os.O_RDONLY, os.O_RDWR} {
			if f, err := openRegular(path, access); !errors.Is(err, ErrNotLockFile) { // and it returns
				t.Errorf("openRegular(%s, %#x) = %v, %v", filepath.Base(path), access, f, err)
			}
		}
	}
}

// Somebody who does nothing but replace the file keeps nobody who does not wait.
func TestAFileThatIsAlwaysReplaced(t *testing.T) {
	ended, end := context.WithTimeout(t.Context(), 0)
	defer end()
	tests := map[string]struct {
		ctx  context.Context
		opts Options
	}{
		"without a wait":        {t.Context(), Options{Mode: Process, NoWait: true}},
		"at the end of a limit": {ended, Options{Mode: Process, Limited: true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			taker := &taker{path: t.TempDir() + "/lock", opts: tt.opts}
			taker.scene = func(f *os.File) (scene, error) {
				if err := os.Remove(f.Name()); err != nil {
					return scene{}, err
				}
				return newScene(f)
			}
			if l, err := taker.take(tt.ctx); err == nil { // and it returns
				t.Errorf("took %v", l)
			}
		})
	}
}
