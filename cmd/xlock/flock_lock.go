package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"xlock/internal/blocking"
	"xlock/internal/eintr"
	"xlock/internal/lock"
	"xlock/internal/supervise"
)

// flockLock is a lock of flock(1): on a file that it opens, or on a descriptor of
// its caller, of which it changes nothing but the lock. It goes from open to
// acquire to release.
type flockLock struct {
	opts flockOptions
	file *os.File
	mode int        // O_RDONLY, O_WRONLY or O_RDWR, if the file was opened here
	link bool       // the path led to it over a symbolic link
	held *lock.Lock // of flock(2)
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
	wait, ctx := l.opts.wait, context.Background()
	if wait.invalid {
		return &flockError{status: flockSystem, message: "cannot set up timer: " + cError(unix.EINVAL)}
	}
	if wait.set && !l.opts.noWait {
		limited, cancel := context.WithTimeout(ctx, wait.duration)
		defer cancel()
		ctx = limited
	}
	err := l.take(ctx)
	if l.wantsWriter(err) {
		if err = l.openAgain(unix.O_RDWR); err == nil {
			err = l.take(ctx)
		}
	}
	return l.failure(err)
}

func (l *flockLock) take(ctx context.Context) error {
	switch {
	case l.opts.ranges:
		return l.takeRange(ctx, l.opts.how())
	case l.opts.unlock:
		return lock.ReleaseOpen(l.file)
	}
	return l.takeFlock(ctx)
}

// release gives the lock up, also for what the command has left running. A
// descriptor of the caller keeps its lock. What the command has made of the file is
// its own affair.
func (l *flockLock) release(status supervise.Status) {
	switch {
	case !l.opts.byPath:
	case l.held == nil:
		l.file.Close()
	default:
		err := l.held.Release(outcome(status))
		if broken := new(lock.BrokenError); errors.As(err, &broken) {
			sayLine(os.Stderr, flockMessage(warning(err)))
		}
	}
}

// abandon gives the lock up when the command has not run.
func (l *flockLock) abandon() {
	if l.opts.byPath && l.held != nil {
		_ = l.held.Release(nil)
	}
}

func (l *flockLock) useDescriptor() error {
	if isStandIn(l.opts.fd) {
		return l.failure(unix.EBADF)
	}
	if l.opts.close {
		// The flag is of our own descriptor, not of the caller's description.
		unix.CloseOnExec(l.opts.fd)
	}
	path, err := os.Readlink(fmt.Sprintf("/dev/fd/%d", l.opts.fd))
	if err != nil {
		path = fmt.Sprintf("descriptor %d", l.opts.fd)
	}
	if l.file = os.NewFile(uintptr(l.opts.fd), path); l.file == nil {
		return l.failure(unix.EBADF)
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
func (l *flockLock) openFile() error {
	limited := l.opts.noWait || l.opts.wait.set
	flags := unix.O_NOCTTY
	if l.opts.close {
		flags |= unix.O_CLOEXEC
	}
	if limited { // a FIFO waits for a writer, a lease for its holder: open(2), fcntl(2)
		flags |= unix.O_NONBLOCK
	}
	fd, err := flockOpen(l.opts.path, l.mode|flags)
	if errors.Is(err, unix.ENOENT) {
		fd, err = flockOpen(l.opts.path, l.mode|flags|unix.O_CREAT)
	}
	if errors.Is(err, unix.EISDIR) {
		l.mode = unix.O_RDONLY
		fd, err = flockOpen(l.opts.path, l.mode|flags)
	}
	if err != nil {
		return &flockError{
			status:  flockOpenStatus(err),
			message: "cannot open lock file " + l.opts.path + ": " + cError(err),
		}
	}
	if limited {
		_ = unix.SetNonblock(fd, false)
	}
	path, err := filepath.EvalSymlinks(l.opts.path)
	if err != nil {
		path = l.opts.path // gone again
	}
	l.file = os.NewFile(uintptr(fd), path)
	l.link = !isAt(l.opts.path, l.file)
	return nil
}

// isAt reports whether the path itself names f's file, and no link to it.
func isAt(path string, f *os.File) bool {
	named, err := os.Lstat(path)
	ours, errOurs := f.Stat()
	return err == nil && errOurs == nil && os.SameFile(named, ours)
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

// takeRange takes a lock of fcntl(2), or gives it up.
func (l *flockLock) takeRange(ctx context.Context, how int) error {
	set := func(how int) func(fd int) error {
		return func(fd int) error { return lockRange(fd, how, l.opts.start, l.opts.length) }
	}
	err := blocking.Call(ctx, l.file, set(how), set(unix.LOCK_UN))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return l.busyError(true)
	case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.EACCES):
		return l.busyError(false)
	}
	return err
}

// busyError says that the lock is busy, and nothing about its holder.
func (l *flockLock) busyError(timedOut bool) error {
	return &lock.HeldError{Holder: unnamedHolder(l.name()), TimedOut: timedOut}
}

// takeFlock takes the lock of flock(2), and writes the record where it can stand.
func (l *flockLock) takeFlock(ctx context.Context) (err error) {
	for tries := 1; ; tries++ {
		l.held, err = lock.AcquireOpen(ctx, l.file, l.lockOptions())
		switch {
		case !l.opts.byPath || !errors.Is(err, lock.ErrReplaced):
			return err
		case tries >= lock.MostReplaced && (l.opts.noWait || ctx.Err() != nil):
			return unix.ESTALE
		}
		if err := l.openAgain(l.mode); err != nil {
			return err
		}
	}
}

func (l *flockLock) lockOptions() lock.Options {
	mode := lock.Fork
	switch {
	case !l.opts.byPath:
		mode = lock.Descriptor
	case l.opts.noFork:
		mode = lock.Exec
	}
	options := lock.Options{
		Mode:     mode,
		Inherits: !l.opts.close,
		Shared:   l.opts.shared,
		NoWait:   l.opts.noWait,
		Limited:  l.opts.wait.set,
		AsFlock:  true,
		ReadOnly: l.link,
	}
	if len(l.opts.command) > 0 {
		options.Command = filepath.Base(l.opts.command[0])
	}
	return options
}

// started names the command in the record. Where that cannot be written the lock
// counts all the same.
func (l *flockLock) started(pid int) error {
	if l.held == nil || !l.opts.byPath {
		return nil
	}
	if err := l.held.Started(pid); errors.Is(err, lock.ErrLost) {
		return l.failure(unix.ESTALE)
	}
	return nil
}

// wantsWriter: NFS emulates flock(2) by fcntl(2), which takes an exclusive lock
// only through a descriptor that can write (flock(2), NFS details).
func (l *flockLock) wantsWriter(err error) bool {
	refused := errors.Is(err, unix.EIO) || errors.Is(err, unix.EBADF)
	return refused && l.opts.byPath && !l.opts.shared && l.mode != unix.O_RDWR
}

// openAgain opens another file, or the same one otherwise.
func (l *flockLock) openAgain(mode int) error {
	if mode == unix.O_RDWR {
		if err := unix.Access(l.opts.path, unix.R_OK|unix.W_OK); err != nil {
			return err
		}
	}
	// It stays open while a call waits in vain, and the command is not to get it.
	unix.CloseOnExec(int(l.file.Fd()))
	l.file.Close()
	l.mode = mode
	if err := l.openFile(); err != nil {
		return err
	}
	if l.mode != mode {
		return unix.EISDIR
	}
	return nil
}

// failure names what cannot be locked, and leaves alone what is told otherwise.
func (l *flockLock) failure(err error) error {
	switch {
	case err == nil, errors.As(err, new(*flockError)), errors.As(err, new(*lock.HeldError)):
		return err
	case errors.As(err, new(*lock.DeadlockError)):
		err = unix.EDEADLK
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
