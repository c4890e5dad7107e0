package procfs

import (
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"

	"xlock/internal/eintr"
)

// ReadFile is os.ReadFile for the small files of /proc and their like. It leaves out
// the runtime's poller, which none of them works with: offering it a file takes six
// system calls (Go 1.26), and reading one three.
func ReadFile(path string) ([]byte, error) {
	var fd int
	err := eintr.Retry(func() (err error) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	text, err := readAll(fd)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return text, nil
}

func readAll(fd int) ([]byte, error) {
	text := make([]byte, 0, 2048) // a status has some 1,400 bytes
	for {
		var n int
		err := eintr.Retry(func() (err error) {
			n, err = unix.Read(fd, text[len(text):cap(text)])
			return err
		})
		if n <= 0 || err != nil {
			return text, err
		}
		text = slices.Grow(text[:len(text)+n], 1)
	}
}
