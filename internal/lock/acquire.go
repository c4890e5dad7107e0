package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"xlock/internal/fdprobe"
	"xlock/internal/flock"
	"xlock/internal/identity"
)

// Options say how to take a lock and what to record about it.
type Options struct {
	Mode     Mode
	Inherits bool   // the command will get the descriptor too
	Command  string // the command's name; empty without a command
	Label    string // see [CheckLabel]

	// Shared: together with other shared holds. Such a hold writes no record, as
	// many cannot share one: the descriptor alone keeps it, also after its wrapper
	// was killed. It is granted in front of nobody who waits for an exclusive one.
	Shared bool
	// NoWait: fail with a [*HeldError] rather than wait.
	NoWait bool
	// AsFlock: wait as flock(1) does, for oneself too, as others who share a descriptor
	// may unlock it (flock -u) and an ancestor need not wait for this process; and for
	// a file that was replaced meanwhile, before its successor is locked.
	AsFlock bool
	// ReadOnly: [AcquireOpen] heeds a record and writes none, as with a file that may only
	// be read. Through a symbolic link, anybody's empty file would get one.
	ReadOnly bool
	// Limited: the context has a time limit, so that waiting for oneself ends.
	Limited bool
	// Waiting is called, if it is not nil, each time the wait begins to be
	// for somebody else, with what is known of them.
	Waiting func(Holder)
}

// Holder is who stands in the way, as far as the record tells.
type Holder struct {
	Path   string
	Record *Record // nil if the lock file says nothing
	Judgement
	// Ancestor: the Blocker started this process, or one of its ancestors.
	Ancestor bool
	// Descriptor is a descriptor of this very process that keeps the kernel
	// lock, or -1.
	Descriptor int
	// Takers are the processes that took the kernel lock, as far as they can be
	// seen, where the record does not name the holder.
	Takers []int
}

// HeldError reports that the lock was not taken, as somebody holds it or may
// hold it.
type HeldError struct {
	Holder
	TimedOut bool // the context ended while waiting
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("%s: %s (%s %s)", e.Path, e.State, e.Reason, e.Identity)
}

// DeadlockError reports that a wait would be for this very process, for one of
// its ancestors, or for a descriptor of its own.
type DeadlockError struct{ Holder }

func (e *DeadlockError) Error() string {
	return fmt.Sprintf("%s: would wait for itself (%s %s)", e.Path, e.Reason, e.Identity)
}

// Acquire takes the lock at path, creating the file if it is missing.
//
// It fails with a [*HeldError] if somebody holds the lock and opts.NoWait is
// set or ctx ends, with a [*DeadlockError] if the lock is held by this very
// process or, with no limit on the wait, by an ancestor; with an error that
// matches [ErrNotLockFile] or an errno if the file cannot serve. After a
// failure nothing is held, and the file is as it was or newly created and
// empty. In mode [Fork] it is so after a success too, until [Lock.Started].
func Acquire(ctx context.Context, path string, opts Options) (*Lock, error) {
	t := &taker{path: path, opts: opts, scene: newScene}
	return t.take(ctx)
}

// taker is one attempt to take one lock.
type taker struct {
	path  string
	opts  Options
	scene func(*os.File) (scene, error)

	// carrier is the lock file, open to read and write its record, if the
	// description to be locked is not.
	carrier *os.File
	// bare: what is to be locked is no lock file, and nobody reads it or writes
	// there. mute: it is one, which we may only read.
	bare, mute bool
	// fixed: the description is to be locked whatever its path names.
	fixed bool
}

// recorded reports whether the hold will be recorded.
func (t *taker) recorded() bool { return !t.opts.Shared && !t.bare && !t.mute }

func (t *taker) carrierOf(f *os.File) *os.File {
	if t.carrier != nil {
		return t.carrier
	}
	return f
}

func (t *taker) read(f *os.File) (Content, error) {
	if t.bare {
		return Content{Kind: Empty}, nil
	}
	return readOurs(t.carrierOf(f))
}

// ErrReplaced is what [AcquireOpen] returns where the path has come to name another
// file meanwhile, so that the caller must open it anew.
var ErrReplaced = errors.New("the lock file was replaced")

// MostReplaced is how often a path may have come to name another file before those
// who do not wait, or not any more, give up: somebody does nothing else.
const MostReplaced = 100

func (t *taker) take(ctx context.Context) (*Lock, error) {
	for tries := 1; ; tries++ {
		f, err := openToLock(t.path)
		if err != nil {
			return nil, err
		}
		lock, err := t.takeFile(ctx, f)
		if err != nil {
			f.Close()
		}
		switch {
		case !errors.Is(err, ErrReplaced):
			return lock, t.explain(err)
		case tries >= MostReplaced && (t.opts.NoWait || ctx.Err() != nil):
			return nil, &fs.PathError{Op: "open", Path: t.path, Err: errStillReplaced}
		}
	}
}

var errStillReplaced = errors.New("it is replaced again and again")

// takeFile takes the lock on f, which stays open if that succeeds.
func (t *taker) takeFile(ctx context.Context, f *os.File) (*Lock, error) {
	s, err := t.scene(f)
	if err != nil {
		return nil, err
	}
	for mayClear := t.opts.Shared && !t.mute; ; {
		if err := t.lockKernel(ctx, f, s); err != nil {
			return nil, err
		}
		content, j, err := t.judgeWon(f, s)
		if err != nil {
			return nil, err
		}
		if j.State == Free || j.State == Abandoned {
			if !mayClear || !saysHeld(content) {
				return t.hold(f, content, s)
			}
			mayClear = false
			if err := t.clearStale(ctx, f, s); err != nil {
				return nil, err
			}
			continue
		}
		// The kernel lock is given back while we wait for a living record, so
		// that its owner's own new image never waits for us, who wait for it.
		if err := flock.Unlock(f); err != nil {
			return nil, err
		}
		if err := t.awaitRecord(ctx, f, s, *t.holder(content, j)); err != nil {
			return nil, err
		}
	}
}

// judgeWon judges with the kernel lock just won. It fails with ErrReplaced if
// the lock was won on a file that the path no longer names, which locks nobody
// out.
func (t *taker) judgeWon(f *os.File, s scene) (Content, Judgement, error) {
	if named, err := t.pathNames(f); err != nil || !named {
		return Content{}, Judgement{}, cmp.Or(err, ErrReplaced)
	}
	content, err := t.read(f)
	if err == nil && content.Appended {
		err = notLockFile(f.Name(), "something stands behind its record, and is left untouched")
	}
	if err != nil {
		return Content{}, Judgement{}, err
	}
	return content, s.judgeLocked(content), nil
}

func (t *taker) pathNames(f *os.File) (bool, error) {
	if t.fixed {
		return true, nil
	}
	return pathNames(f)
}

func (t *taker) holder(c Content, j Judgement) *Holder {
	return &Holder{Path: t.path, Record: c.Record, Judgement: j, Descriptor: -1}
}

// lockKernel returns nil with the kernel lock held.
func (t *taker) lockKernel(ctx context.Context, f *os.File, s scene) error {
	h, err := t.lockSoon(ctx, f, s)
	if h == nil || err != nil {
		return err
	}
	if t.opts.NoWait {
		t.explainKernelLock(f, h)
		return &HeldError{Holder: *h}
	}
	if err := t.hopeless(f, h); err != nil {
		return err
	}
	t.explainKernelLock(f, h)
	t.waitingFor(*h)
	if _, ok := ownHold(f); ok && !t.opts.Limited && h.Blocker != nil {
		return t.lockWhileOwnerLives(ctx, f, s, *h)
	}
	return t.lockUnlessReplaced(ctx, f)
}

// lockUnlessReplaced waits for the kernel lock, and fails with ErrReplaced when
// the path has come to name another file: whoever keeps the old one may never let
// go. A path that names nothing is waited with, since to make a new file there
// would let us in beside the holder.
func (t *taker) lockUnlessReplaced(ctx context.Context, f *os.File) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ours, err := f.Stat()
	if err != nil {
		return err
	}
	go func() {
		tick := time.NewTicker(lookAtPath)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if t.isReplaced(f.Name(), ours) {
					cancel()
				}
			}
		}
	}()
	err = t.queue(ctx, f)
	if flock.Abandoned(err) && t.isReplaced(f.Name(), ours) {
		return ErrReplaced // also at the end of a limit: the new file may be free
	}
	return err
}

// lookAtPath is how often a waiter in the kernel's queue looks at the path.
const lookAtPath = time.Second

func (t *taker) isReplaced(path string, ours os.FileInfo) bool {
	named, err := os.Lstat(path)
	return err == nil && !os.SameFile(ours, named) && !t.opts.AsFlock
}

// lockWhileOwnerLives waits for a kernel lock that a descriptor of our own
// shares with a wrapper, which unlocks it at its end. Should the wrapper be
// killed instead, the lock stays with that descriptor, and the wait is for
// ourselves.
func (t *taker) lockWhileOwnerLives(ctx context.Context, f *os.File, s scene, h Holder) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	granted, ended := make(chan error, 1), make(chan struct{})
	go func() { granted <- t.lockUnlessReplaced(ctx, f) }()
	go func(owner identity.Process) {
		defer close(ended)
		for ctx.Err() == nil && s.judge(owner, s.local).Liveness != identity.Gone {
			identity.AwaitEnd(owner, time.Second)
		}
	}(*h.Blocker)
	select {
	case err := <-granted:
		return err
	case <-ended:
	}
	if fd, ok := ownHold(f); ok {
		h.Descriptor = fd
		return &DeadlockError{h}
	}
	return <-granted
}

// lockSoon takes the kernel lock or says who holds it.
//
// It tries for a moment. A kernel lock that no record explains may be held by
// somebody who only looks and is about to give it back: a waiter that has been
// granted the lock and finds a living record, or a holder between two of its
// steps. One that a living record explains is busy at once.
func (t *taker) lockSoon(ctx context.Context, f *os.File, s scene) (*Holder, error) {
	var waited time.Duration
	for pause := 500 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		err := t.try(ctx, f)
		if !errors.Is(err, flock.ErrBusy) {
			return nil, err
		}
		h, err := t.look(f, s)
		if err != nil {
			return nil, err
		}
		if waited >= t.patience(f, h) || ctx.Err() != nil {
			return h, nil
		}
		time.Sleep(pause)
		waited += pause
	}
}

// try asks for the kernel lock once. Whoever does not want to wait does not wait
// for a file system that does not answer either, and is not told "busy".
func (t *taker) try(ctx context.Context, f *os.File) error {
	if !t.opts.NoWait {
		ctx, cancel := atLeastAMoment(ctx)
		defer cancel()
		return t.tryOnce(ctx, f)
	}
	const answers = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, answers)
	defer cancel()
	err := t.tryOnce(ctx, f)
	if flock.Abandoned(err) {
		return &fs.PathError{Op: "flock", Path: t.path, Err: syscall.ETIMEDOUT}
	}
	return err
}

// atLeastAMoment lets a limit that is over at once pass for a limit of nothing:
// who asks so finds a free lock free.
func atLeastAMoment(ctx context.Context) (context.Context, context.CancelFunc) {
	const moment = 100 * time.Millisecond
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < moment {
		return context.WithTimeout(context.WithoutCancel(ctx), moment)
	}
	return ctx, func() {}
}

// patience is how long to try for a kernel lock that is busy. What an earlier
// image of this very process left is ours to take over at once, ahead of the
// whole queue of waiters, each of which may have to look at the record and give
// way. Anybody else who can wait queues up, as the kernel's order of arrival is
// the fairest. But not behind another thread of this very process, which is about
// to give the kernel lock back or to make it a hold: that is refused, and to
// wait for it could be to wait for ourselves.
func (t *taker) patience(f *os.File, h *Holder) time.Duration {
	switch {
	case h.State == Abandoned && h.Identity == DescriptorClosed:
		return time.Second
	case t.opts.NoWait && (h.State == Free || h.State == Abandoned):
		return 100 * time.Millisecond
	case t.opts.NoWait:
		return 0
	}
	if _, hold, ok := fdprobe.OwnLock(f); ok && !hold {
		return time.Second
	}
	return 0
}

// look judges the file without the kernel lock. It fails with a
// [*DeadlockError] when the record is of this very process, which must not
// even queue up for it.
func (t *taker) look(f *os.File, s scene) (*Holder, error) {
	content, err := t.read(f)
	if err != nil {
		return nil, err
	}
	h := t.holder(content, s.judgeContent(content))
	if h.Self && !t.opts.AsFlock {
		return nil, &DeadlockError{*h}
	}
	return h, nil
}

// hopeless refuses a wait without a limit that nobody but a process that waits
// for us, or we ourselves, could end.
func (t *taker) hopeless(f *os.File, h *Holder) error {
	h.Ancestor = h.State == Held && h.Blocker != nil && identity.IsAncestor(h.Blocker.PID)
	if t.opts.Limited || t.opts.AsFlock {
		return nil
	}
	if h.Ancestor {
		return &DeadlockError{*h}
	}
	if fd, ok := ownHold(f); ok && !unlocksAtItsEnd(h) {
		h.Descriptor = fd
		t.explainKernelLock(f, h)
		return &DeadlockError{*h}
	}
	if taker, ok := ancestorsLock(f); ok {
		t.explainKernelLock(f, h)
		h.Ancestor, h.Takers = true, []int{taker}
		return &DeadlockError{*h}
	}
	return nil
}

// ownHold finds a descriptor of this process that keeps the kernel lock itself,
// inherited from a shell or from the command of some wrapper. One that is marked
// belongs to another thread that takes this lock too, and gives it back or makes
// it a hold.
func ownHold(f *os.File) (fd int, ok bool) {
	fd, hold, ok := fdprobe.OwnLock(f)
	return fd, ok && hold
}

// unlocksAtItsEnd: only the wrapper, when it lives, unlocks the whole description
// at its end. An owner of mode exec just ends, and its descriptor in us stays. A
// wrapper whose kinship to us cannot be seen may be waiting for us.
func unlocksAtItsEnd(h *Holder) bool {
	return h.State == Held && h.Reason == ReasonOwner && h.Record.Mode == Fork && identity.AncestorsVisible()
}

func (t *taker) waitingFor(h Holder) {
	if t.opts.Waiting != nil {
		t.opts.Waiting(h)
	}
}

// How often a record is read again while its process lives without the kernel
// lock: less and less, for a thousand may be waiting, and a change that is not
// the end of the process takes a person (reclaim) or another machine. The end of
// the process is noticed at once.
const (
	firstLookAgain = 10 * time.Millisecond
	lastLookAgain  = 2 * time.Second
)

// awaitRecord waits, without the kernel lock, for the record to change or for
// its process to end.
func (t *taker) awaitRecord(ctx context.Context, f *os.File, s scene, h Holder) error {
	// That our own descriptors cannot be listed makes no difference to who it
	// is that we would wait for.
	h.Self = h.Self || h.Identity == DescriptorUnknown
	if h.Self {
		return &DeadlockError{h}
	}
	if t.opts.NoWait {
		return &HeldError{Holder: h}
	}
	if err := t.hopeless(f, &h); err != nil {
		return err
	}
	t.waitingFor(h)
	for pause := firstLookAgain; ; pause = min(2*pause, lastLookAgain) {
		awaitEnd(ctx, h, pause)
		if ctx.Err() != nil {
			return &HeldError{Holder: h, TimedOut: true}
		}
		if changed, err := t.changed(f, s, h); changed || err != nil {
			return err
		}
	}
}

// awaitEnd waits for the end of the process that keeps the lock, for the pause
// and no longer than the context lasts.
func awaitEnd(ctx context.Context, h Holder, pause time.Duration) {
	if deadline, ok := ctx.Deadline(); ok {
		pause = min(pause, max(time.Until(deadline), 0))
	}
	if h.State == Held && h.Blocker != nil {
		identity.AwaitEnd(*h.Blocker, pause)
		return
	}
	time.Sleep(pause)
}

// changed reports whether the file no longer says what h says of it.
func (t *taker) changed(f *os.File, s scene, h Holder) (bool, error) {
	named, err := t.pathNames(f)
	if err != nil || !named {
		return !named, err
	}
	content, err := t.read(f)
	if err != nil {
		return false, err
	}
	if content.Kind != Valid || !content.Record.sameHold(h.Record) {
		return true, nil
	}
	j := s.judgeContent(content)
	return j.State != h.State || j.Reason != h.Reason, nil
}

// explain makes the end of a wait in the kernel an error that names the
// holder. The file that waited is not ours any more: it is read afresh. If
// nobody is seen to hold the lock, the file system has not answered, or is
// about to: the lock was just given back.
func (t *taker) explain(err error) error {
	if !flock.Abandoned(err) {
		return err
	}
	// A search through all processes could take longer than the wait.
	report, errInspect := Glance(t.path)
	switch {
	case errInspect != nil && (t.bare || t.fixed):
		report = &Report{Path: t.path, Judgement: Judgement{State: Held, Reason: ReasonKernelLock}}
	case errInspect != nil:
		return errInspect
	}
	h := report.Holder()
	t.explainShared(&h)
	if h.State == Free || h.State == Abandoned {
		h.State, h.Reason = UnknownState, ReasonNoAnswer
	}
	return &HeldError{Holder: h, TimedOut: true}
}

// explainKernelLock says who keeps the kernel lock, which is held.
func (t *taker) explainKernelLock(f *os.File, h *Holder) {
	if h.confirmHeld() {
		return
	}
	h.Reason = ReasonKernelLock
	if list, err := fdprobe.ListQueue([]*os.File{f}); err == nil {
		h.explainBy(list[0])
	}
	t.explainShared(h)
}

func (t *taker) explainShared(h *Holder) {
	if t.opts.Shared {
		h.ExplainToReader()
	}
}

// ExplainToReader corrects the reason for a reader: others are in its way only by the
// turnstile.
func (h *Holder) ExplainToReader() {
	if h.Reason == ReasonShared {
		h.Reason = ReasonWriterWaits
	}
}

// confirmHeld: the kernel lock is held, so whatever the record says, the lock is
// held. It reports whether the record says by whom.
func (h *Holder) confirmHeld() bool {
	named := h.State == Held || h.State == UnknownState
	h.State = Held
	return named
}

// explainBy names the holders from the kernel's evidence.
func (h *Holder) explainBy(kernel fdprobe.Holders) {
	h.Reason = ReasonKernelLock
	if kernel.Shared {
		h.Reason = ReasonShared
	}
	h.addTakers(kernel)
}

func (h *Holder) addTakers(kernel fdprobe.Holders) {
	for _, holder := range kernel.Holders {
		if !slices.Contains(h.Takers, holder.PID) {
			h.Takers = append(h.Takers, holder.PID)
		}
	}
}

// record is what this taker writes.
func (t *taker) record(before Content, f *os.File, s scene) Record {
	acquired := now()
	uid := os.Getuid()
	r := Record{
		Version:    formatVersion,
		State:      StateHeld,
		Generation: 1,
		Owner:      &s.self,
		Mode:       t.opts.Mode,
		Inherits:   t.opts.Inherits,
		Inode:      s.inode,
		Host:       hostName(),
		User:       userName(),
		UID:        &uid,
		Label:      t.opts.Label,
		Acquired:   &acquired,
	}
	if t.opts.Mode == Descriptor && t.recorded() {
		r.Owner, r.Command = callerWith(f)
	}
	if before.Kind == Valid {
		r.Generation = max(before.Record.Generation, before.Record.Generation+1) // never back to 0
		r.Broken = before.Record.Broken                                          // its holder may not have noticed yet
	}
	if t.opts.Command != "" {
		r.Command = &Command{Name: t.opts.Command}
	}
	return r
}

// CheckLabel says what keeps a label from standing in a record.
func CheckLabel(label string) error {
	if err := cleanLabel(label); err != nil {
		return fmt.Errorf("the label %w", err)
	}
	return nil
}
