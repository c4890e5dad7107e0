// Package lock is xlock's policy: what stands in a lock file, what that means,
// and how the lock is taken, waited for, given back and reclaimed.
//
// # The rule
//
// A lock this process holds is a descriptor it holds. A holder keeps the
// descriptor with which it took the lock open until it releases, and with it
// the kernel's flock(2) lock on the file. The record in the file says who that
// is; it explains the lock, and never overrules the kernel: whoever holds
// flock(2) on the file holds the lock, whatever the record says.
//
// # Two questions
//
// Nobody takes the lock without the answer to both: does the kernel give it
// (flock(2)), and does the record name somebody who is still there?
// The second catches what the first cannot see: a command that closed the
// descriptor it had inherited and outlived its killed wrapper.
//
// docs/design.md gives the reasons.
package lock

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"xlock/internal/fdprobe"
	"xlock/internal/flock"
)

// Mode is how a holder keeps its hold.
type Mode string

const (
	// Fork: a wrapper holds the lock while its command runs as its child.
	Fork Mode = "fork"
	// Exec: the command's own process holds it. Nobody is left to write the
	// release, so such an owner that has ended has simply released.
	Exec Mode = "exec"
	// Process: a program holds it in its own process.
	Process Mode = "process"
	// Descriptor: whoever has a descriptor of the open file description holds it.
	// The kernel alone says whether it is held; the record says who took it.
	Descriptor Mode = "descriptor"
)

// Lock is a hold. Its descriptor is close-on-exec: an image that replaces
// itself loses it. Keep it reachable until Release: the garbage collector closes
// the descriptor of one that was forgotten, and the lock goes with it.
type Lock struct {
	file    *os.File
	record  Record
	written bool // the record stands in the file
	shared  bool
	// unrecorded: no record is ever written, as the hold is shared, or the file no
	// lock file, or may only be read.
	unrecorded bool

	noted bool // the record stands in a note

	// carrier is the same file, open to read and write its record: file itself, if
	// that was opened for it.
	carrier *os.File
}

// File is the descriptor with the kernel lock. It belongs to the Lock.
func (l *Lock) File() *os.File { return l.file }

// Generation grows with every exclusive acquisition of this lock file (a fencing
// token). That of a shared hold is no token: many have the same.
func (l *Lock) Generation() uint64 { return l.record.Generation }

// Shared reports whether others may hold the lock at the same time.
func (l *Lock) Shared() bool { return l.shared }

// Started writes the record of a hold of mode [Fork], naming the command's process.
// That must have been made and must not run the command before, so that a holder
// who is killed never leaves a command that nobody knows of. If the lock file was
// replaced meanwhile the hold is lost already, and the command must not run: an
// error that matches [ErrLost].
func (l *Lock) Started(pid int) error {
	if l.unrecorded {
		if !l.shared {
			return nil
		}
		return l.checkPath()
	}
	p := l.record.Owner.Neighbour(pid)
	command := Command{PID: pid, Start: p.Start, PidfdID: p.PidfdID}
	if l.record.Command != nil {
		command.Name = l.record.Command.Name
	}
	l.record.Command = &command
	if err := l.write(); err != nil {
		return err
	}
	return l.confirm()
}

// confirm looks whether a hold whose record is written is one, and withdraws it if not:
// an error that matches [ErrLost]. In this order it and a breaker (see replace) never
// miss each other, who exchanges the file first, and looks at the record then.
func (l *Lock) confirm() error {
	err := l.checkPath()
	if err != nil && l.written {
		l.written = false
		if content, errRead := readContent(l.carrier); errRead == nil && l.isIn(content) {
			_ = l.record.released(nil).writeTo(l.carrier) // the file may come back
		}
	}
	return err
}

// isIn reports whether the content is this hold's record.
func (l *Lock) isIn(c Content) bool { return c.Kind == Valid && c.Record.sameHold(&l.record) }

// write puts the record of a new hold into the file.
func (l *Lock) write() error {
	if l.noted {
		return l.record.writeNote(l.carrier)
	}
	if err := l.record.writeTo(l.carrier); err != nil {
		return err
	}
	l.written = true
	return nil
}

// ErrLost says that the lock file was deleted, replaced or overwritten under its
// holder, so that somebody else may have held the lock meanwhile.
var ErrLost = errors.New("the lock file was deleted, replaced or overwritten while it was held")

// Release records the release with the command's outcome and gives the kernel
// lock back, for all descriptors of the open file description: one that the
// command left behind in a daemon keeps nothing. A file that is no longer this
// hold's is left as it is, but for what is left of the record in it: [ErrLost], or
// [*BrokenError] if a person did that. The kernel lock is given back in any case. The
// Lock must not be used afterwards.
func (l *Lock) Release(outcome *Outcome) error {
	var err error
	switch {
	case l.written:
		if err = l.regain(); err == nil {
			err = l.rewrite(l.record.released(outcome))
		}
	case l.shared:
		err = l.checkPath()
	}
	if errUnlock := flock.Unlock(l.file); err == nil {
		err = errUnlock
	}
	if errClose := l.file.Close(); err == nil {
		err = errClose
	}
	if l.carrier != l.file {
		l.carrier.Close() // which was only read, or written to with success
	}
	return err
}

// regain fails if the command has unlocked the descriptor it inherited, and somebody
// else has the lock by now, whose record is not to be written over.
func (l *Lock) regain() error {
	const patience = 100 * time.Millisecond // with those who only look
	for waited := time.Duration(0); ; waited += time.Millisecond {
		err := flock.TryLock(context.Background(), l.file, flock.Exclusive)
		switch {
		case !errors.Is(err, flock.ErrBusy):
			return err
		case waited >= patience:
			return l.lost()
		}
		time.Sleep(time.Millisecond)
	}
}

// checkPath fails if the path names another file by now, so that writers are not
// kept out.
func (l *Lock) checkPath() error {
	named, err := pathNames(l.file)
	if err == nil && !named {
		err = l.lost()
	}
	return err
}

// rewrite replaces this hold's record. What stands in the file is looked at
// first: we hold the kernel lock, but somebody who does not keep to the rules,
// the command itself say, may have written something of his own.
func (l *Lock) rewrite(r *Record) error {
	named, err := pathNames(l.file)
	if err != nil {
		return err
	}
	content, err := readContent(l.carrier)
	switch {
	case err != nil:
		return err
	case named && content.Kind == Empty && l.carrier != l.file:
		return l.lost() // flock(1)'s users may wait with 9>PIDFILE, to write there next
	case named && content.Kind == Empty:
		// The shell's 9>LOCK has emptied it, while the kernel kept the lock.
	case named && (content.Appended || content.Kind == Foreign):
		if err := l.cut(); err != nil {
			return err
		}
		return l.lost()
	case !named || !l.isIn(content):
		return l.lost()
	}
	return r.writeTo(l.carrier)
}

// cut takes what is left of this hold's record away from a file that somebody has made
// his own: by appending to it, or by writing over its beginning. A kill in between
// leaves the file torn.
func (l *Lock) cut() error {
	line, err := l.record.encode()
	if err != nil {
		return err
	}
	now := make([]byte, len(line)+1)
	n, err := l.carrier.ReadAt(now, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	own := len(line) // behind the last byte that is not the record's
	for own > 0 && n >= own && now[own-1] == line[own-1] {
		own--
	}
	switch {
	case n > len(line) && own == 0:
		return l.moveUp(int64(len(line)))
	case n == len(line) && own < len(line):
		return l.carrier.Truncate(int64(own))
	}
	return nil // nothing of it is left
}

// What a release copies is bounded: whoever can write to the file can make it as long
// as he likes, at no cost, and go on while it is copied.
const (
	mostMoved = 16 << 20
	mostMoves = 1000
)

// moveUp removes the first bytes of the file, unless mostMoved is behind them. It goes on
// while somebody appends; what is appended behind its last look is lost.
func (l *Lock) moveUp(first int64) error {
	done, size := int64(0), int64(0)
	for range mostMoves {
		info, err := l.carrier.Stat()
		if err != nil {
			return err
		}
		size = info.Size()
		left := size - first - done
		if left <= 0 || left > mostMoved-done {
			break
		}
		rest := io.NewSectionReader(l.carrier, first+done, left)
		n, err := io.Copy(io.NewOffsetWriter(l.carrier, done), rest)
		if err != nil {
			return err
		}
		done += n
	}
	if done == 0 {
		return nil
	}
	return l.carrier.Truncate(min(done, size)) // which somebody may have cut meanwhile
}

// released is the record after the hold: who held it last, until when, and how
// it ended.
func (r Record) released(outcome *Outcome) *Record {
	now := now()
	r.State, r.Released, r.Outcome = StateFree, &now, outcome
	return &r
}

// now is a moment as records hold it: UTC, to the millisecond.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// pathNames reports whether f's path still names f's file.
//
// It proves that a process that opens the path now gets this inode and so
// meets our kernel lock. It does not prove that this stays so: the file can be
// replaced right after. Nobody who keeps to the rules does that, so the check
// is made once after the kernel lock was won, when a deletion during the wait
// shows, and once more at the release.
func pathNames(f *os.File) (bool, error) {
	ours, err := f.Stat()
	if err != nil {
		return false, err
	}
	named, err := os.Lstat(f.Name())
	if namesNothing(err) {
		return false, nil
	}
	return err == nil && os.SameFile(ours, named), err
}

// namesNothing reports whether err says that nothing is at a path, or not even a
// directory for it.
func namesNothing(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// hold turns a won kernel lock into a hold: marks the descriptor, then writes
// the record. In the other order a thread that probes in between would find a
// record of this process without its descriptor, and rob it.
//
// A wrapper has nothing to say before its command has a process: see Started.
// Until then the kernel lock alone keeps others out, and a wrapper that is killed
// leaves no trace.
func (t *taker) hold(f *os.File, before Content, s scene) (*Lock, error) {
	r := t.record(before, f, s)
	l := &Lock{file: f, record: r, shared: t.opts.Shared, unrecorded: !t.recorded(), carrier: t.carrierOf(f)}
	if before.Noted {
		removeNote(l.carrier)
	}
	l.noted = r.Mode == Descriptor && (before.Noted || before.Kind == Empty) && isWritable(f)
	if r.Mode != Descriptor { // which belongs to the caller
		if err := fdprobe.MarkHold(f); err != nil {
			return nil, err
		}
	}
	if r.Mode == Fork || l.unrecorded || r.Owner == nil {
		return l, nil
	}
	err := l.write()
	switch {
	case err == nil && !t.fixed:
		err = l.confirm()
	case err != nil && t.carrier != nil:
		l.unrecorded, err = true, nil // see AcquireOpen
	}
	if errors.Is(err, ErrLost) {
		return nil, ErrReplaced
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}
