package lock

import (
	"os"

	"golang.org/x/sys/unix"
)

func exchange(a, b string) error {
	return unix.RenameatxNp(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_SWAP)
}

func lockOutBreakers(f *os.File) error { return setLock(f, unix.F_SETLK) }
