package turnstile

import (
	"context"
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"xlock/internal/blocking"
)

func tryKeep(f *os.File) error { return blocking.Now(f, call(unix.F_OFD_SETLK, unix.F_WRLCK)) }

func keep(ctx context.Context, f *os.File) error {
	return blocking.Call(ctx, f, call(unix.F_OFD_SETLKW, unix.F_WRLCK), nil)
}

// pass takes the lock that readers share, and gives it up again. Should a lock of
// another program's come to be in the way meanwhile, it waits for that too.
func pass(ctx context.Context, f *os.File) error {
	if err := tryPass(f); !errors.Is(err, ErrClosed) {
		return err
	}
	if err := blocking.Call(ctx, f, call(unix.F_OFD_SETLKW, unix.F_RDLCK), nil); err != nil {
		return err
	}
	return blocking.Now(f, call(unix.F_OFD_SETLK, unix.F_UNLCK))
}

func tryPass(f *os.File) error {
	found := byteLock(unix.F_RDLCK)
	err := blocking.Now(f, func(fd int) error { return unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &found) })
	if err == nil && found.Type == unix.F_WRLCK && found.Start == Place && found.Len == 1 {
		return ErrClosed
	}
	return err
}

// call locks for the open file description (fcntl(2), since Linux 3.15).
func call(command int, kind int16) func(fd int) error {
	return func(fd int) error {
		lock := byteLock(kind)
		return unix.FcntlFlock(uintptr(fd), command, &lock)
	}
}

func byteLock(kind int16) unix.Flock_t {
	return unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: Place, Len: 1}
}
