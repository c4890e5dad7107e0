package main

import (
	"errors"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"xlock/internal/eintr"
	"xlock/internal/lock"
)

// flockLock is a lock of flock(1): on a file that it opens, or on a descriptor of
// its caller, of which it changes nothing but the lock. It goes from open to
// acquire to release, and leaves what is in the file as it is.
//
// It keeps a plain number, as an *[os.File] would close the descriptor in the end.
type flockLock struct {
	opts flockOptions
	fd   int
	mode int // O_RDONLY, O_WRONLY or O_RDWR, if the file was opened here
}

// open finds what is to be locked. Its errors are *[flockError].
func (l *flockLock) open() error {
	if !l.opts.byPath {
		return l.useDescriptor()
	}
	if l.opts.ranges && !l.opts.shared && !l.opts.unlock {
		l.mode = unix.O_WRONLY // which an exclusive lock of fcntl(2) asks for
	}
	return l.openFile()
}

// acquire takes the lock, or gives one up with -u. It fails with a
// *[lock.HeldError] if somebody else keeps it, or with a *[flockError].
func (l *flockLock) acquire() error {
	wait, how := l.opts.wait, l.opts.how()
	switch {
	case wait.invalid:
		return &flockError{status: flockSystem, message: "cannot set up timer: " + cError(unix.EINVAL)}
	case wait.set && !l.opts.noWait:
		return l.takeWithin(wait.duration, how)
	}
	return l.take(how)
}

// release gives the lock up, also for what the command has left running. A
// descriptor of the caller keeps its lock.
func (l *flockLock) release() {
	if l.opts.byPath {
		_ = l.call(unix.LOCK_UN)
	}
}

func (l *flockLock) useDescriptor() error {
	l.fd = l.opts.fd
	if isStandIn(l.fd) {
		return l.failure(unix.EBADF)
	}
	if l.opts.close {
		// The flag is of our own descriptor, not of the caller's description.
		unix.CloseOnExec(l.fd)
	}
	return nil
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

// openFile leaves the descriptor open for the command, unless -o keeps it back. It makes
// the file only if there is none, since where fs.protected_regular is set
// (proc_sys_fs(5)) O_CREAT is refused for other people's files.
func (l *flockLock) openFile() (err error) {
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
	err = eintr.Retry(func() error {
		fd, err = unix.Open(path, flags, 0o666)
		return err
	})
	return fd, err
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

// takeWithin waits no longer than the limit. A lock that comes later is given back
// at once, as flock(2) cannot be cancelled from within the process.
func (l *flockLock) takeWithin(limit time.Duration, how int) error {
	taken, expired := make(chan error), make(chan struct{})
	go func() {
		err := l.take(how)
		select {
		case taken <- err:
		case <-expired:
			if err == nil {
				_ = l.call(unix.LOCK_UN)
			}
		}
	}()
	select {
	case err := <-taken:
		return err
	case <-time.After(limit):
		close(expired)
		return l.held(true)
	}
}

func (l *flockLock) take(how int) error {
	err := l.call(how)
	if l.wantsWriter(err) {
		if err := l.reopen(); err != nil {
			return l.failure(err)
		}
		err = l.call(how)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.EACCES):
		return l.held(false)
	}
	return l.failure(err)
}

// held says that the lock is busy, and nothing about its holder.
func (l *flockLock) held(timedOut bool) error {
	return &lock.HeldError{Holder: unnamedHolder(l.name()), TimedOut: timedOut}
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
	if err := l.openFile(); err != nil {
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
	status := flockNoLock
	if errors.Is(err, unix.ENOLCK) || errors.Is(err, unix.ENOMEM) {
		status = flockSystem
	}
	return &flockError{status: status, message: l.name() + ": " + cError(err)}
}

// name is what the command line calls the lock.
func (l *flockLock) name() string {
	if l.opts.byPath {
		return l.opts.path
	}
	return strconv.Itoa(l.opts.fd)
}

// call is flock(2), or with --fcntl what does the same there.
func (l *flockLock) call(how int) error {
	return eintr.Retry(func() error {
		if l.opts.ranges {
			return lockRange(l.fd, how, l.opts.start, l.opts.length)
		}
		return unix.Flock(l.fd, how)
	})
}
