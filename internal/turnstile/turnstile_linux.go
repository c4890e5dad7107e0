package turnstile

import "golang.org/x/sys/unix"

// The locks of open file descriptions (fcntl(2), since Linux 3.15).
const (
	query = unix.F_OFD_GETLK
	try   = unix.F_OFD_SETLK
	wait  = unix.F_OFD_SETLKW
)
