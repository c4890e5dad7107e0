//go:build darwin || freebsd

package turnstile

import "golang.org/x/sys/unix"

// The locks of POSIX (fcntl(2)), which belong to the process: it loses one when it
// closes any descriptor of the file, and a reader can then slip past.
const (
	query = unix.F_GETLK
	try   = unix.F_SETLK
	wait  = unix.F_SETLKW
)
