package lock

import "golang.org/x/sys/unix"

// exchange lets two paths change their files, in one step (renameat2(2)).
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
