package main

import (
	"io"

	"golang.org/x/sys/unix"
)

// callRange locks bytes of the file for its open file description (fcntl(2),
// F_OFD_SETLK).
func (l *flockLock) callRange() error {
	arg := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: l.opts.start, Len: l.opts.length}
	switch {
	case l.opts.unlock:
		arg.Type = unix.F_UNLCK
	case l.opts.shared:
		arg.Type = unix.F_RDLCK
	}
	how := unix.F_OFD_SETLKW
	if l.opts.noWait {
		how = unix.F_OFD_SETLK
	}
	return unix.FcntlFlock(uintptr(l.fd), how, &arg)
}
