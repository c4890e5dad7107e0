package lock

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"xlock/internal/blocking"
	"xlock/internal/fdprobe"
	"xlock/internal/flock"
	"xlock/internal/identity"
)

// AcquireOpen is [Acquire] for an open file description that the caller has made,
// whatever is open there: a directory, a file that cannot be written, another
// program's file are locked as flock(1) locks them, and left untouched. An empty file
// and a lock file get the record, unless that cannot be written, and what a lock
// file's record says counts. f's name is the path, without symbolic links.
//
// In mode [Descriptor] f belongs to somebody else too, the process that started this
// one say, for whom it is locked: the record names that, and the lock stays when the
// Lock is forgotten. Only f's lock is changed, and nothing else of it.
//
// If the path names another file by now, or none, it fails with [ErrReplaced], but not
// in mode [Descriptor].
//
// After an error the caller closes f, and does not use it otherwise.
func AcquireOpen(ctx context.Context, f *os.File, opts Options) (*Lock, error) {
	t := &taker{path: f.Name(), opts: opts, scene: newScene}
	named, err := pathNames(f)
	if err == nil && !named && opts.Mode != Descriptor && !leadsTo(f) {
		return nil, ErrReplaced
	}
	t.fixed = opts.Mode == Descriptor || err != nil || !named
	if err := t.setCarrier(f); err != nil {
		return nil, err
	}
	l, err := t.takeOpen(ctx, f)
	if err != nil && t.carrier != nil {
		t.carrier.Close()
	}
	if err != nil && t.fixed && !flock.Abandoned(err) {
		_ = flock.Unlock(f) // others have it, and closing it would end nothing
	}
	return l, t.explain(err)
}

// leadsTo reports whether a path that is a symbolic link after all, such as /dev/fd/9
// of a deleted file, leads to f's file.
func leadsTo(f *os.File) bool {
	ours, errOurs := f.Stat()
	named, errNamed := os.Stat(f.Name())
	return errOurs == nil && errNamed == nil && os.SameFile(ours, named)
}

func (t *taker) takeOpen(ctx context.Context, f *os.File) (*Lock, error) {
	kind, has := fdprobe.OwnKind(f)
	switch {
	case has && kind == t.kind():
		return &Lock{file: f, carrier: t.carrierOf(f), shared: t.opts.Shared, unrecorded: true}, nil // as it is
	case has && t.opts.Shared:
		return t.downgrade(ctx, f)
	}
	l, err := t.takeFile(ctx, f)
	if errors.Is(err, ErrNotLockFile) { // by now
		t.carrier.Close()
		t.carrier, t.bare = nil, true
		l, err = t.takeFile(ctx, f)
	}
	return l, err
}

// downgrade makes an exclusive lock of the caller's own a shared one, which the kernel
// does in two steps: somebody else can come in between.
func (t *taker) downgrade(ctx context.Context, f *os.File) (*Lock, error) {
	content, err := t.read(f)
	own := err == nil && !t.bare && !t.mute && isOwn(f, content)
	if err := flock.Lock(ctx, f, flock.Shared); err != nil {
		return nil, err
	}
	if own {
		content.release(t.carrier)
	}
	return &Lock{file: f, carrier: t.carrierOf(f), shared: true, unrecorded: true}, nil
}

// setCarrier finds out where the record stands.
func (t *taker) setCarrier(f *os.File) (err error) {
	t.carrier, err = openCarrier(f, openExisting)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EROFS) || err == nil && (t.opts.ReadOnly || withinLimit(mostBytes) != nil) {
		t.carrier, err = openCarrier(f, openToRead)
		t.mute = true
	}
	if content, errRead := t.readCarrier(err); errRead == nil && content.Kind == Unreadable {
		t.carrier.Close() // it may be anybody's: a page of NULs, the beginning of some JSON
		err = ErrNotLockFile
	}
	switch {
	case !t.fixed && (namesNothing(err) || errors.Is(err, ErrReplaced)):
		return ErrReplaced
	case errors.Is(err, ErrNotLockFile), errors.Is(err, os.ErrPermission), namesNothing(err), errors.Is(err, ErrReplaced):
		t.carrier, t.bare = nil, true
		return nil
	case err == nil && t.opts.Mode != Descriptor:
		return fdprobe.MarkNotAHold(f)
	}
	return err // it may be a lock file that says held
}

func (t *taker) readCarrier(err error) (Content, error) {
	if err != nil {
		return Content{}, err
	}
	return readOurs(t.carrier)
}

// openCarrier opens f's file to read and write its record, or to read it alone, if it
// can have one.
func openCarrier(f *os.File, open func(path string) (*os.File, error)) (*os.File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := regular(f.Name(), info); err != nil { // before it is opened
		return nil, err
	}
	return openSame(f, open)
}

// ReleaseOpen gives up the lock of f's open file description, for everybody who has
// it, and says so in the record if that is about this hold. It does not fail when
// there is no lock.
func ReleaseOpen(f *os.File) error {
	if carrier, err := openCarrier(f, openExisting); err == nil {
		defer carrier.Close()
		if content, err := readOurs(carrier); err == nil && isOwn(f, content) {
			content.release(carrier)
		}
	}
	return flock.Unlock(f)
}

// release records the release of a hold of mode [Descriptor]. It is best effort, as the
// kernel's word counts.
func (c Content) release(carrier *os.File) {
	if c.Noted {
		removeNote(carrier)
		return
	}
	_ = c.Record.released(nil).writeTo(carrier)
}

// isOwn reports whether the record is about the lock of f's own description.
func isOwn(f *os.File, c Content) bool {
	kind, ok := fdprobe.OwnKind(f)
	if !saysHeld(c) || c.Appended || !ok || kind != flock.Exclusive {
		return false
	}
	return c.Record.Mode == Descriptor || c.Record.Inherits && fdprobe.LockIn(c.Record.Owner.PID, f)
}

// callerWith finds for whom a descriptor is locked: of this process's ancestors that
// share it the most distant one, as that keeps it longest. It is nil if that cannot be
// seen.
func callerWith(f *os.File) (*identity.Process, *Command) {
	caller := 0
	for _, pid := range identity.Ancestors() {
		if !fdprobe.LockIn(pid, f) {
			break
		}
		caller = pid
	}
	if caller == 0 {
		return nil, nil
	}
	p := identity.Self().Neighbour(caller)
	var command *Command
	if words := identity.See(caller).CommandLine; len(words) > 0 {
		command = &Command{Name: filepath.Base(words[0])}
	}
	return &p, command
}

// isWritable reports whether f's description can write.
func isWritable(f *os.File) bool {
	return blocking.Now(f, func(fd int) error {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err == nil && flags&unix.O_ACCMODE == unix.O_RDONLY {
			err = unix.EBADF
		}
		return err
	}) == nil
}
