package main

import (
	"io"

	"golang.org/x/sys/unix"
)

// lockRange does what flock(2) does with bytes of a file, by locks of fcntl(2) that
// belong to the open file description (F_OFD_SETLK).
func lockRange(fd, how int, start, length int64) error {
	arg := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: start, Len: length}
	switch how &^ unix.LOCK_NB {
	case unix.LOCK_UN:
		arg.Type = unix.F_UNLCK
	case unix.LOCK_SH:
		arg.Type = unix.F_RDLCK
	}
	command := unix.F_OFD_SETLKW
	if how&unix.LOCK_NB != 0 {
		command = unix.F_OFD_SETLK
	}
	return unix.FcntlFlock(uintptr(fd), command, &arg)
}
