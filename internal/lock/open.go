package lock

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"xlock/internal/fdprobe"
	"xlock/internal/flock"
	"xlock/internal/identity"
)

// ErrReplaced is what [AcquireOpen] returns where the path has come to name another
// file, so that the caller must open it anew.
var ErrReplaced = errReplaced

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
// After an error the caller closes f, and does not use it otherwise.
func AcquireOpen(ctx context.Context, f *os.File, opts Options) (*Lock, error) {
	t := &taker{path: f.Name(), opts: opts, scene: newScene}
	named, err := pathNames(f)
	t.fixed = opts.Mode == Descriptor || err != nil || !named
	if err := t.setCarrier(f); err != nil {
		return nil, err
	}
	if kind, ok := fdprobe.OwnKind(f); ok && kind == t.kind() {
		return &Lock{file: f, carrier: t.carrierOf(f), shared: opts.Shared, bare: true}, nil // as it is
	}
	l, err := t.takeFile(ctx, f)
	if errors.Is(err, ErrNotLockFile) { // by now
		t.carrier.Close()
		t.carrier, t.bare = nil, true
		l, err = t.takeFile(ctx, f)
	}
	if err != nil && t.carrier != nil {
		t.carrier.Close()
	}
	return l, t.explain(err)
}

// setCarrier finds out where the record stands.
func (t *taker) setCarrier(f *os.File) (err error) {
	t.carrier, err = openCarrier(f, openExisting)
	if errors.Is(err, os.ErrPermission) || errors.Is(err, unix.EROFS) {
		t.carrier, err = openCarrier(f, openToRead)
		t.mute = true
	}
	switch {
	case err != nil:
		t.carrier, t.bare = nil, true
		return nil
	case t.opts.Mode != Descriptor:
		return fdprobe.MarkNotAHold(f)
	case t.opts.Shared && !t.mute: // the record goes with the exclusive lock
		recordRelease(f, t.carrier)
	}
	return nil
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
		recordRelease(f, carrier)
	}
	return flock.Unlock(f)
}

// recordRelease is best effort, as the kernel's word counts.
func recordRelease(f, carrier *os.File) {
	content, err := readOurs(carrier)
	switch {
	case err != nil || !isOwn(f, content):
	case content.Noted:
		removeNote(carrier)
	default:
		_ = content.Record.released(nil).writeTo(carrier)
	}
}

// isOwn reports whether the record is about the lock of f's own description.
func isOwn(f *os.File, c Content) bool {
	kind, ok := fdprobe.OwnKind(f)
	if !saysHeld(c) || !ok || kind != flock.Exclusive {
		return false
	}
	return c.Record.Mode == Descriptor || c.Record.Inherits && fdprobe.LockIn(c.Record.Owner.PID, f)
}

// callerWith finds for whom a descriptor is locked: of this process's ancestors that
// share it the most distant one, as that keeps it longest.
func callerWith(f *os.File) (*identity.Process, *Command) {
	caller := unix.Getppid()
	for _, pid := range identity.Ancestors() {
		if !fdprobe.LockIn(pid, f) {
			break
		}
		caller = pid
	}
	p := identity.Of(caller)
	var command *Command
	if words := identity.See(caller).CommandLine; len(words) > 0 {
		command = &Command{Name: filepath.Base(words[0])}
	}
	return &p, command
}
