package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"xlock/internal/blocking"
	"xlock/internal/fdprobe"
	"xlock/internal/flock"
)

// Break says who overruled a holder. It is left at the path for everybody, and in
// the file that was taken away for its holder, as a second break may follow.
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
		return r, mayReplace(f)
	}
	switch err := lockOutBreakers(f); {
	case errors.Is(err, syscall.EAGAIN):
		return nil, refused // another breaker of this file is at work
	case err != nil:
		return nil, cannotReplace(h.Path, err)
	}
	dir, err := os.OpenRoot(filepath.Dir(f.Name()))
	if err != nil {
		return nil, cannotReplace(h.Path, err)
	}
	defer dir.Close()
	// A wrong exchange is put back, but a release in that moment would be lost: it is
	// for what changes from now on.
	if !sameRecord(content.Record, h.Record) || !isOld(dir, filepath.Base(f.Name()), f, content) {
		return nil, ErrReplaced
	}
	return r, replace(dir, f, content, freeAfterBreak(h))
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

// replace puts a free file in the place of f's, which is in dir. The new file is made
// beside the old one, locked, and exchanged with it, so that at each moment the path
// names a lock file: who opens the new one waits until it is known to be right.
//
// What came out in exchange is looked at: it must be f's file, in the state in which
// it was judged. If not, it is put back as it was, and ErrReplaced tells to judge
// again. A breaker that is killed leaves a file beside the lock, with a name by
// [fdprobe.PrefixBeside].
//
// Nothing is looked up by f's path again: whoever owns a directory on the way can make
// it lead into another one at any moment, where nothing is to be made, given away or
// removed.
func replace(dir *os.Root, f *os.File, judged Content, free *Record) error {
	path, name := f.Name(), filepath.Base(f.Name())
	fresh, beside, err := freeFileLike(dir, f, free)
	if err != nil {
		return cannotReplace(path, err)
	}
	defer fresh.Close()
	err = lockOutBreakers(fresh) // until it is known to be right
	if err == nil {
		err = exchangeIn(dir, beside, name)
	}
	if err != nil {
		dir.Remove(beside)
		return cannotReplace(path, err)
	}
	if isOld(dir, beside, f, judged) {
		_ = free.writeTo(f)    // the word at the path is enough, until the next break
		_ = dir.Remove(beside) // the lock is broken whether or not this stays
		return nil
	}
	if err := exchangeIn(dir, beside, name); err != nil { // what is beside now is not ours to remove
		return cannotReplace(filepath.Join(filepath.Dir(path), beside), err)
	}
	dir.Remove(beside)
	return ErrReplaced
}

// exchangeIn lets two names in dir change their files, in one step.
func exchangeIn(dir *os.Root, a, b string) error {
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	return blocking.Now(d, func(fd int) error { return exchange(fd, a, b) })
}

// cannotReplace names the lock, and not the file beside it, which nobody knows. A
// path that has gone meanwhile is judged again.
func cannotReplace(path string, err error) error {
	if namesNothing(err) {
		return ErrReplaced
	}
	var inner *os.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return &os.PathError{Op: opReplace, Path: path, Err: err}
}

// opReplace is the Op of the errors of a file that could not be replaced.
const opReplace = "replace"

// mayReplace fails if the directory can be seen not to allow it. Not all can be
// seen without trying.
func mayReplace(f *os.File) error {
	err := unix.Faccessat(unix.AT_FDCWD, filepath.Dir(f.Name()), unix.R_OK|unix.W_OK|unix.X_OK, unix.AT_EACCESS)
	if err != nil {
		return cannotReplace(f.Name(), err)
	}
	return nil
}

// freeFileLike makes a file in dir with the mode and owner of f's and the record, and
// takes its lock.
func freeFileLike(dir *os.Root, f *os.File, free *Record) (fresh *os.File, name string, err error) {
	const mostTries = 100 // of names that are there already
	err = fs.ErrExist
	for n := 0; n < mostTries && errors.Is(err, fs.ErrExist); n++ {
		name = fdprobe.PrefixBeside(f.Name()) + strconv.FormatUint(uint64(rand.Uint32()), 10)
		fresh, err = dir.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err != nil {
		return nil, "", err
	}
	if err := makeFree(fresh, f, free); err != nil {
		fresh.Close()
		dir.Remove(name)
		return nil, "", err
	}
	return fresh, name, nil
}

func makeFree(fresh, old *os.File, free *Record) error {
	info, err := old.Stat()
	if err != nil {
		return err
	}
	if err := flock.TryLock(context.Background(), fresh, flock.Exclusive); err != nil {
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
	return free.writeTo(fresh)
}

// freeAfterBreak is the record of the lock once its hold is broken. It carries the
// generation on: a hold that is not in the record has the next one.
func freeAfterBreak(h *Holder) *Record {
	free := Record{Version: formatVersion, State: StateFree}
	if h.Record != nil {
		free = *h.Record
	}
	if free.State == StateHeld {
		free = *free.released(nil)
	}
	if !h.isRecorded() {
		free.Generation++
	}
	free.Broken = newBreak(&free)
	return &free
}

// isOld reports whether the name in dir is that of f's file, and it still says what it
// said.
func isOld(dir *os.Root, name string, f *os.File, judged Content) bool {
	ours, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := dir.Lstat(name)
	if err != nil || !os.SameFile(ours, named) {
		return false
	}
	content, err := readOurs(f)
	return err == nil && sameContent(judged, content)
}

// lost says how this hold was lost: whoever broke it has left word, in the file
// and at the path.
func (l *Lock) lost() error {
	word := l.breakIn(l.file)
	if f, err := openToRead(l.file.Name()); err == nil && word == nil {
		defer f.Close()
		word = l.breakIn(f)
	}
	if word != nil {
		return &BrokenError{Path: l.file.Name(), Break: *word}
	}
	return fmt.Errorf("%s: %w", l.file.Name(), ErrLost)
}

// breakIn finds the break of this hold.
func (l *Lock) breakIn(f *os.File) *Break {
	content, err := readOurs(f)
	if err != nil || content.Kind != Valid {
		return nil
	}
	if word := content.Record.Broken; word != nil && word.Generation == l.record.Generation {
		return word
	}
	return nil
}
