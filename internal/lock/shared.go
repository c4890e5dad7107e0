package lock

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"

	"xlock/internal/fdprobe"
	"xlock/internal/flock"
	"xlock/internal/identity"
	"xlock/internal/turnstile"
)

func (t *taker) kind() flock.Kind {
	if t.opts.Shared {
		return flock.Shared
	}
	return flock.Exclusive
}

// tryOnce asks for the kernel lock once. A reader is refused where it would overtake
// a writer that waits.
func (t *taker) tryOnce(ctx context.Context, f *os.File) error {
	if t.opts.Shared {
		if _, has := fdprobe.OwnKind(f); !has {
			if err := t.tryPass(f); err != nil {
				return err
			}
		}
	}
	return flock.TryLock(ctx, f, t.kind())
}

// tryPass asks for the turnstile. A reader whose own process or ancestor is a reader
// already goes in beside it: the writer waits for that one, and so for this.
func (t *taker) tryPass(f *os.File) error {
	gate, err := t.reopen(f, os.O_RDONLY)
	if gate == nil {
		return err
	}
	defer gate.Close()
	if err := turnstile.TryPass(gate); !errors.Is(err, turnstile.ErrClosed) {
		return aboutTurnstile(f, err)
	}
	_, within := ownHold(f)
	if within || slices.ContainsFunc(identity.Ancestors(), func(pid int) bool { return fdprobe.LockIn(pid, f) }) {
		return nil
	}
	return flock.ErrBusy
}

// queue waits for the kernel lock.
//
// A writer waits in the queue of flock(2), where everybody can see it, and behind
// its back for the turnstile, so that no reader comes in front of it. A reader goes
// in by the turnstile. Between its passing and its lock a writer can take the
// turnstile: the writer came later then.
func (t *taker) queue(ctx context.Context, f *os.File) error {
	access := os.O_RDWR
	if t.opts.Shared {
		access = os.O_RDONLY
	}
	gate, err := t.reopen(f, access)
	switch {
	case err != nil:
		return err
	case gate == nil:
	case t.opts.Shared:
		err := turnstile.Pass(ctx, gate)
		gate.Close()
		if err != nil {
			return aboutTurnstile(f, err)
		}
	default:
		keeping, open := context.WithCancel(ctx)
		defer open()
		keepTurnstile(keeping, gate)
	}
	return flock.Lock(ctx, f, t.kind())
}

// aboutTurnstile names the lock file, unless the wait was given up.
func aboutTurnstile(f *os.File, err error) error {
	if err == nil || flock.Abandoned(err) {
		return err
	}
	return &fs.PathError{Op: "fcntl", Path: f.Name(), Err: err}
}

// keepTurnstile keeps it until ctx ends: from now on if it is to be had, else as
// soon as it is. Where that fails readers may come first.
func keepTurnstile(ctx context.Context, gate *os.File) {
	err := turnstile.TryKeep(gate)
	go func() {
		if errors.Is(err, turnstile.ErrClosed) {
			_ = turnstile.Keep(ctx, gate)
		}
		<-ctx.Done()
		gate.Close()
	}()
}

// reopen makes another open file description of f's file, for the turnstile. It is nil
// where the turnstile is done without: at what is no lock file, or was deleted, and where
// a description that was there before cannot be made again.
func (t *taker) reopen(f *os.File, access int) (*os.File, error) {
	if t.bare {
		return nil, nil
	}
	again, err := openSame(f, func(path string) (*os.File, error) { return openRegular(path, access) })
	if namesNothing(err) || err != nil && (t.fixed || t.mute) {
		return nil, nil
	}
	return again, err
}

// openSame opens f's file by its path, and fails with ErrReplaced if that names another.
func openSame(f *os.File, open func(path string) (*os.File, error)) (*os.File, error) {
	again, err := open(f.Name())
	if err != nil {
		return nil, err
	}
	ours, err := f.Stat()
	if err != nil {
		again.Close()
		return nil, err
	}
	named, err := again.Stat()
	if err == nil && !os.SameFile(ours, named) {
		err = ErrReplaced
	}
	if err != nil {
		again.Close()
		return nil, err
	}
	return again, nil
}

// ancestorsLock finds a reader that started this process, or one of its ancestors, took
// the kernel lock and has it still. An ancestor that has it exclusively, and says so in
// no record, may be a program that does not wait for us.
func ancestorsLock(f *os.File) (pid int, ok bool) {
	list, err := fdprobe.ListQueue([]*os.File{f})
	if err != nil || !list[0].Shared {
		return 0, false
	}
	for _, h := range list[0].Holders {
		if identity.IsAncestor(h.PID) && fdprobe.LockIn(h.PID, f) {
			return h.PID, true
		}
	}
	return 0, false
}

func saysHeld(c Content) bool { return c.Kind == Valid && c.Record.State == StateHeld }

// clearStale writes the release that an exclusive holder has not: readers write
// nothing that could take its record's place. It gives up the kernel lock, as there
// is no step from the shared to the exclusive one, and leaves the record as it is if
// somebody else comes in between: a program that keeps no record may have it shared
// for long.
func (t *taker) clearStale(ctx context.Context, f *os.File, s scene) error {
	if err := flock.Unlock(f); err != nil {
		return err
	}
	if err := flock.TryLock(ctx, f, flock.Exclusive); err != nil {
		if errors.Is(err, flock.ErrBusy) {
			return nil
		}
		return err
	}
	defer flock.Unlock(f)
	content, j, err := t.judgeWon(f, s)
	if err != nil || !saysHeld(content) {
		return err
	}
	if content.Noted {
		removeNote(t.carrierOf(f))
		return nil
	}
	if j.State == Free || j.State == Abandoned {
		return content.Record.released(nil).writeTo(t.carrierOf(f))
	}
	return nil
}
