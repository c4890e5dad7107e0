package main

import (
	"errors"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// flockLock is a lock of flock(1): on a file that it opened, or on a descriptor
// of its caller, of which it changes nothing but the lock. Errors are
// *[flockError].
//
// It keeps plain numbers, as an *[os.File] would close the descriptor in the end.
type flockLock struct {
	opts flockOptions
	fd   int
	mode int // O_RDONLY, O_WRONLY or O_RDWR, if the file was opened here
}

func openFlock(opts flockOptions) (*flockLock, error) {
	l := &flockLock{opts: opts, fd: opts.fd}
	if opts.byPath {
		if opts.ranges && !opts.shared && !opts.unlock {
			l.mode = unix.O_WRONLY // which an exclusive lock of fcntl(2) asks for
		}
		return l, l.open()
	}
	if isStandIn(l.fd) {
		return nil, l.failure(unix.EBADF)
	}
	if opts.close {
		// The flag is of our own descriptor, not of the caller's description.
		unix.CloseOnExec(l.fd)
	}
	return l, nil
}

// isStandIn reports whether the descriptor was closed when we were started: the Go
// runtime opens /dev/null for reading and writing in place of each of the
// standard descriptors that is missing.
func isStandIn(fd int) bool {
	var is, null unix.Stat_t
	if fd > 2 || unix.Fstat(fd, &is) != nil || unix.Stat("/dev/null", &null) != nil {
		return false
	}
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && is.Dev == null.Dev && is.Ino == null.Ino && flags&unix.O_ACCMODE == unix.O_RDWR
}

// open leaves the descriptor open for the command, unless -o keeps it back. It makes
// the file only if there is none, since where fs.protected_regular is set
// (proc_sys_fs(5)) O_CREAT is refused for other people's files.
func (l *flockLock) open() (err error) {
	flags := unix.O_NOCTTY
	if l.opts.close {
		flags |= unix.O_CLOEXEC
	}
	l.fd, err = flockOpen(l.opts.path, l.mode|flags)
	if errors.Is(err, unix.ENOENT) {
		l.fd, err = flockOpen(l.opts.path, l.mode|flags|unix.O_CREAT)
	}
	if errors.Is(err, unix.EISDIR) {
		l.mode = unix.O_RDONLY
		l.fd, err = flockOpen(l.opts.path, l.mode|flags)
	}
	if err != nil {
		return &flockError{
			status:  flockOpenStatus(err),
			message: "cannot open lock file " + l.opts.path + ": " + cError(err),
		}
	}
	return nil
}

func flockOpen(path string, flags int) (fd int, err error) {
	for {
		fd, err = unix.Open(path, flags, 0o666)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func flockOpenStatus(err error) int {
	switch {
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return flockSystem
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.ENOSPC):
		return flockCannotMake
	}
	return flockNoFile
}

// acquire takes the lock, or gives a lock up with -u.
func (l *flockLock) acquire() error {
	wait := l.opts.wait
	if wait.set && wait.duration == 0 {
		l.opts.noWait = true
	}
	if !wait.set || l.opts.noWait {
		return l.take()
	}
	done := make(chan error, 1)
	go func() { done <- l.take() }()
	expired := time.After(wait.duration)
	select {
	case err := <-done:
		return err
	case <-expired:
	}
	select {
	case err := <-done:
		return err
	default:
		return l.conflict("timeout while waiting to get lock")
	}
}

func (l *flockLock) conflict(message string) error {
	if !l.opts.verbose {
		message = ""
	}
	return &flockError{status: l.opts.conflict, message: message}
}

func (l *flockLock) take() error {
	for {
		err := l.call()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.EACCES):
			return l.conflict("failed to get lock")
		case errors.Is(err, unix.EINTR):
			continue
		case l.wantsWriter(err):
			if err = l.reopen(); err == nil {
				continue
			}
		}
		return l.failure(err)
	}
}

// wantsWriter: NFS emulates flock(2) by fcntl(2), which takes an exclusive lock
// only through a descriptor that can write (flock(2), NFS details).
func (l *flockLock) wantsWriter(err error) bool {
	refused := errors.Is(err, unix.EIO) || errors.Is(err, unix.EBADF)
	return refused && l.opts.byPath && !l.opts.shared && l.mode != unix.O_RDWR
}

func (l *flockLock) reopen() error {
	if err := unix.Access(l.opts.path, unix.R_OK|unix.W_OK); err != nil {
		return err
	}
	unix.Close(l.fd)
	l.mode = unix.O_RDWR
	if err := l.open(); err != nil {
		return err
	}
	if l.mode != unix.O_RDWR {
		return unix.EISDIR
	}
	return nil
}

// failure names what cannot be locked.
func (l *flockLock) failure(err error) error {
	if errors.As(err, new(*flockError)) {
		return err
	}
	status, name := flockNoLock, l.opts.path
	if errors.Is(err, unix.ENOLCK) || errors.Is(err, unix.ENOMEM) {
		status = flockSystem
	}
	if !l.opts.byPath {
		name = strconv.Itoa(l.fd)
	}
	return &flockError{status: status, message: name + ": " + cError(err)}
}

// release gives the lock up, also for what the command has left running. A
// descriptor of the caller keeps its lock.
func (l *flockLock) release() {
	if l.opts.byPath {
		l.opts.unlock, l.opts.noWait = true, true
		_ = l.call()
	}
}

func (l *flockLock) call() error {
	if l.opts.ranges {
		return l.callRange()
	}
	how := unix.LOCK_EX
	switch {
	case l.opts.unlock:
		how = unix.LOCK_UN
	case l.opts.shared:
		how = unix.LOCK_SH
	}
	if l.opts.noWait {
		how |= unix.LOCK_NB
	}
	return unix.Flock(l.fd, how)
}
