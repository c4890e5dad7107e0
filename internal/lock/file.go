package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"unicode"

	"golang.org/x/sys/unix"

	"xlock/internal/fdprobe"
)

// ErrNotLockFile says that the path names something that is neither empty nor a
// lock file of xlock's, or no regular file at all. It was left as it is.
var ErrNotLockFile = errors.New("not a lock file")

// notLockFile says why. It matches [ErrNotLockFile].
func notLockFile(path, why string) error {
	return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%w: %s", ErrNotLockFile, why)}
}

// openFlags: a symbolic link is not followed, as it could point at anybody's
// file; a FIFO does not hang; and the descriptor is marked as no hold.
const openFlags = unix.O_NOFOLLOW | unix.O_NOCTTY | fdprobe.NotAHold

// openToRead opens a lock file for reading. What is no regular file is not even
// opened, since opening alone can set a device in motion; the check is made
// again on the open file, because the name can have changed hands in between.
func openToRead(path string) (*os.File, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if err := regular(path, info); err != nil {
		return nil, err
	}
	return openRegular(path, os.O_RDONLY)
}

func openRegular(path string, access int) (*os.File, error) {
	f, err := os.OpenFile(path, access|openFlags|noAccessTime, 0)
	if errors.Is(err, syscall.EPERM) { // it is not ours
		f, err = os.OpenFile(path, access|openFlags, 0)
	}
	if errors.Is(err, syscall.ELOOP) {
		return nil, notLockFile(path, "a symbolic link")
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		err = regular(path, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func regular(path string, info os.FileInfo) error {
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode&fs.ModeSymlink != 0:
		return notLockFile(path, "a symbolic link")
	case mode.IsDir():
		return notLockFile(path, "a directory")
	case mode&fs.ModeNamedPipe != 0:
		return notLockFile(path, "a FIFO")
	case mode&fs.ModeSocket != 0:
		return notLockFile(path, "a socket")
	}
	return notLockFile(path, "a device")
}

// openToLock opens the lock file for reading and writing and creates it, empty,
// if there is none, with 0666 less the umask.
//
// It tries without O_CREAT first: with it, the kernel refuses even root
// somebody else's file in a sticky directory (fs.protected_regular, proc(5)).
// It looks at the content before it opens for writing: a program cannot be
// started while it is open for writing (ETXTBSY, execve(2)), so a script that
// was named by mistake must not be.
func openToLock(path string) (*os.File, error) {
	const mostTries = 100 // of a file that comes and goes
	var err error
	for range mostTries {
		var f *os.File
		f, err = openExisting(path)
		if errors.Is(err, fs.ErrNotExist) {
			f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|openFlags, 0o666)
		}
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return nil, err
}

func openExisting(path string) (*os.File, error) {
	reader, err := openToRead(path)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	if _, err := readOurs(reader); err != nil {
		return nil, err
	}
	return openRegular(path, os.O_RDWR)
}

// readOurs reads the content, and refuses somebody else's.
func readOurs(f *os.File) (Content, error) {
	content, err := readContent(f)
	switch {
	case err != nil:
	case content.Kind == Foreign:
		err = notLockFile(f.Name(), "it holds something else, which is left untouched")
	case content.Kind == Empty:
		content = readNote(f, content)
	}
	return content, err
}

func inodeOf(info os.FileInfo) uint64 {
	return info.Sys().(*syscall.Stat_t).Ino
}

// notPrintable: a rune that could move a terminal's cursor, or stands for a
// byte that is no UTF-8.
func notPrintable(r rune) bool {
	return r == unicode.ReplacementChar || !unicode.IsPrint(r)
}
