package lock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"xlock/internal/eintr"
	"xlock/internal/flock"
)

// Break says who overruled a holder. A record has room for the last one: of two
// broken holders who both run on, the first learns only that it lost its lock.
type Break struct {
	Generation uint64    `json:"generation"` // of the hold that was broken
	Time       time.Time `json:"time"`
	PID        int       `json:"pid"`
	User       string    `json:"user,omitempty"`
	Host       string    `json:"host,omitempty"`
}

func newBreak(record *Record) *Break {
	return &Break{
		Generation: record.Generation,
		Time:       now(),
		PID:        os.Getpid(),
		User:       printable(userName()),
		Host:       printable(hostName()),
	}
}

// wasBroken reports whether the record's own hold was broken.
func (r *Record) wasBroken() bool { return r.Broken != nil && r.Broken.Generation == r.Generation }

// BrokenError tells a holder that its lock was broken. It matches [ErrLost].
type BrokenError struct {
	Path string
	Break
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("%s: broken by pid %d", e.Path, e.PID)
}

func (e *BrokenError) Unwrap() error { return ErrLost }

// breakLocked frees a lock whose kernel lock somebody keeps, if that is what was
// asked for: refused is why the kernel lock was not to be had.
func breakLocked(f *os.File, refused error, opts ReclaimOptions) (*Reclaimed, error) {
	h := holderIn(refused)
	if h == nil {
		return nil, refused
	}
	if err := opts.concerns(h); err != nil {
		return nil, err
	}
	if !opts.overrules(h) {
		return nil, refused
	}
	content, err := readOurs(f)
	if err != nil {
		return nil, err
	}
	r := &Reclaimed{
		Report: &Report{Path: h.Path, Judgement: h.Judgement, Content: content},
		Action: Replaced,
		Forced: true,
	}
	if opts.DryRun {
		return r, nil
	}
	if err := lockOutBreakers(f); err != nil {
		return nil, refused // another breaker of this file is at work
	}
	// A wrong exchange is put back, but a release in that moment would be lost: it is
	// for what changes from now on.
	if !sameRecord(content.Record, h.Record) || !isOld(f.Name(), f, content) {
		return nil, errReplaced
	}
	return r, replace(f, content)
}

func holderIn(refused error) *Holder {
	var held *HeldError
	var deadlock *DeadlockError
	switch {
	case errors.As(refused, &held):
		return &held.Holder
	case errors.As(refused, &deadlock):
		return &deadlock.Holder
	}
	return nil
}

// replace puts a free file in the place of f's. The new file is made beside the
// old one, locked, and exchanged with it, so that at each moment the path names
// a lock file: who opens the new one waits until it is known to be right.
//
// What came out in exchange is looked at: it must be f's file, in the state in which
// it was judged. If not, it is put back as it was, and errReplaced tells to judge
// again. A breaker that is killed leaves a file beside the lock, whose name begins
// with a dot and the lock's.
func replace(f *os.File, judged Content) error {
	path := f.Name()
	fresh, err := freeFileLike(f, judged)
	if err != nil {
		return err
	}
	defer fresh.Close()
	beside := fresh.Name()
	if err := exchange(beside, path); err != nil {
		os.Remove(beside)
		return cannotReplace(path, err)
	}
	if isOld(beside, f, judged) {
		return os.Remove(beside)
	}
	if err := exchange(beside, path); err != nil { // what is beside now is not ours to remove
		return cannotReplace(beside, err)
	}
	os.Remove(beside)
	return errReplaced
}

// cannotReplace names the lock, and not the file beside it, which nobody knows. A
// path that has gone meanwhile is judged again.
func cannotReplace(path string, err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return errReplaced
	}
	var inner *os.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return &os.PathError{Op: opReplace, Path: path, Err: err}
}

// opReplace is the Op of the errors of a file that could not be replaced.
const opReplace = "replace"

// freeFileLike makes a file with the mode and owner of f's and a free record that
// carries the generation on, and takes its lock.
func freeFileLike(f *os.File, content Content) (*os.File, error) {
	dir, name := filepath.Split(f.Name())
	if dir == "" {
		dir = "."
	}
	fresh, err := os.CreateTemp(dir, "."+name+".*")
	if err != nil {
		return nil, cannotReplace(f.Name(), err)
	}
	if err := makeFree(fresh, f, content); err != nil {
		fresh.Close()
		os.Remove(fresh.Name())
		return nil, cannotReplace(f.Name(), err)
	}
	return fresh, nil
}

func makeFree(fresh, old *os.File, content Content) error {
	info, err := old.Stat()
	if err != nil {
		return err
	}
	if err := flock.TryLock(context.Background(), fresh); err != nil {
		return err
	}
	own, err := fresh.Stat()
	if err != nil {
		return err
	}
	st, ours := info.Sys().(*syscall.Stat_t), own.Sys().(*syscall.Stat_t)
	if st.Uid != ours.Uid || st.Gid != ours.Gid {
		if err := fresh.Chown(int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	if err := fresh.Chmod(info.Mode().Perm()); err != nil {
		return err
	}
	free := Record{Version: formatVersion, State: StateFree}
	if content.Kind == Valid {
		free = *content.Record
	}
	if free.State == StateHeld {
		free = *free.released(nil)
	} else {
		// The holder has not written its record yet, or keeps none. The next
		// generation is its own.
		free.Generation++
	}
	free.Broken = newBreak(&free)
	return free.writeTo(fresh)
}

// isOld reports whether the path names f's file, and it still says what it said.
func isOld(path string, f *os.File, judged Content) bool {
	ours, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	if err != nil || !os.SameFile(ours, named) {
		return false
	}
	content, err := readOurs(f)
	return err == nil && sameContent(judged, content)
}

// lost says how this hold was lost: whoever broke it has left word at the path.
func (l *Lock) lost() error {
	f, err := openToRead(l.file.Name())
	if err == nil {
		defer f.Close()
		content, err := readOurs(f)
		if err == nil && content.Kind == Valid && content.Record.Broken != nil &&
			content.Record.Broken.Generation == l.record.Generation {
			return &BrokenError{Path: l.file.Name(), Break: *content.Record.Broken}
		}
	}
	return fmt.Errorf("%s: %w", l.file.Name(), ErrLost)
}

// setLock asks for the whole file by a command of fcntl(2).
func setLock(f *os.File, command int) error {
	return eintr.Retry(func() error {
		return unix.FcntlFlock(f.Fd(), command, &unix.Flock_t{Type: unix.F_WRLCK})
	})
}
