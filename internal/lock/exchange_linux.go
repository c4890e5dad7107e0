package lock

import (
	"os"

	"golang.org/x/sys/unix"

	"xlock/internal/blocking"
	"xlock/internal/turnstile"
)

// exchange lets two names in a directory change their files, in one step (renameat2(2)).
func exchange(dir int, a, b string) error {
	return unix.Renameat2(dir, a, dir, b, unix.RENAME_EXCHANGE)
}

// lockOutBreakers lets one breaker at a time replace f's file, until f is closed,
// and fails while there is another: two that exchange files crosswise could each
// put back what the other has put there. It is a byte-range lock of the open file
// description (fcntl_locking(2)), which has nothing to do with flock(2).
func lockOutBreakers(f *os.File) error {
	const place = turnstile.Place + 1 // which no other program wants
	return blocking.Now(f, func(fd int) error {
		return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: place, Len: 1})
	})
}
