package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"xlock/internal/flock"
)

// ReclaimOptions say what may be reclaimed.
type ReclaimOptions struct {
	// DryRun judges all the same, the moment with the kernel lock included, and
	// changes nothing.
	DryRun bool
	// Force overrules a holder that lives or may live.
	Force bool
	// Generation, if it is not nil, is that of the only hold to be reclaimed.
	Generation *uint64

	// found is what was found at first. Force is a word against that hold, not
	// against whoever takes the lock meanwhile.
	found *Content
}

// Action is what a reclaim does to a lock.
type Action string

const (
	// Nothing: the lock was free.
	Nothing Action = "none"
	// Cleared: the record says free now.
	Cleared Action = "cleared"
	// Replaced: a new, free file has taken the place of the old one, whose
	// kernel lock somebody keeps.
	Replaced Action = "replaced"
)

// Reclaimed is what was found and what was done, or would be in a dry run.
type Reclaimed struct {
	*Report
	Action Action
	Forced bool // against a holder that lives or may live
}

// GenerationError reports that the lock has another hold than the one that was to
// be reclaimed. Nothing was changed.
type GenerationError struct {
	Holder
	Wanted, Found uint64
}

func (e *GenerationError) Error() string {
	return fmt.Sprintf("%s: generation %d, not %d", e.Path, e.Found, e.Wanted)
}

// Reclaim frees the lock at path if its owner is proven gone, under the same
// guard as a taker: with the kernel lock, and judging again what stands in the
// file then. The record keeps telling who held it. It fails with a
// [*HeldError] or [*DeadlockError], and changes nothing, if somebody holds the
// lock or may hold it, and with a [*GenerationError] if that is not the hold
// that was meant. Nothing is created.
//
// With Force it frees the lock from such a holder too, and signals nobody: the
// holder runs on, and learns at its release that its lock was broken. If it keeps
// the kernel lock, the path gets a new file.
func Reclaim(path string, opts ReclaimOptions) (*Reclaimed, error) {
	opts.found = nil
	for range MostReplaced {
		reclaimed, err := reclaimOnce(path, &opts)
		if !errors.Is(err, ErrReplaced) {
			return reclaimed, err
		}
	}
	return nil, &fs.PathError{Op: "open", Path: path, Err: errStillReplaced}
}

func reclaimOnce(path string, opts *ReclaimOptions) (*Reclaimed, error) {
	f, err := openExisting(path)
	if errors.Is(err, fs.ErrNotExist) {
		report, err := inspectMissing(path, err)
		return &Reclaimed{Report: report, Action: Nothing}, err
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if opts.found == nil {
		content, err := readOurs(f)
		if err != nil {
			return nil, err
		}
		opts.found = &content
	}
	return reclaimFile(path, f, *opts)
}

func reclaimFile(path string, f *os.File, opts ReclaimOptions) (*Reclaimed, error) {
	t := &taker{path: path, opts: Options{NoWait: true}, scene: newScene}
	s, err := t.scene(f)
	if err != nil {
		return nil, err
	}
	if err := t.lockKernel(context.Background(), f, s); err != nil {
		return breakLocked(f, err, opts)
	}
	defer flock.Unlock(f)
	content, j, err := t.judgeWon(f, s)
	if err != nil {
		return nil, err
	}
	return clearRecord(f, t.holder(content, j), content, opts)
}

// clearRecord reclaims with the kernel lock.
func clearRecord(f *os.File, h *Holder, content Content, opts ReclaimOptions) (*Reclaimed, error) {
	r := &Reclaimed{
		Report: &Report{Path: h.Path, Judgement: h.Judgement, Content: content},
		Action: Cleared,
		Forced: h.State != Abandoned,
	}
	if h.State == Free {
		r.Action, r.Forced = Nothing, false
		return r, nil
	}
	if err := opts.concerns(h); err != nil {
		return nil, err
	}
	if r.Forced && !opts.overrules(h) {
		return nil, &HeldError{Holder: *h}
	}
	if opts.DryRun {
		return r, nil
	}
	free := h.Record.released(nil)
	if r.Forced {
		free.Broken = newBreak(h.Record)
	}
	return r, free.writeTo(f)
}

// concerns fails if the hold is not the one that was meant. One that is not in the
// record, or not yet, has the generation behind the last that was.
func (o *ReclaimOptions) concerns(h *Holder) error {
	var found uint64
	if h.Record != nil {
		found = h.Record.Generation
	}
	if !h.isRecorded() {
		found++
	}
	if o.Generation == nil || *o.Generation == found {
		return nil
	}
	return &GenerationError{Holder: *h, Wanted: *o.Generation, Found: found}
}

// isRecorded reports whether the record is about the hold. It is not if it keeps to an
// earlier one: another program's, a reader's, or that of a wrapper which has not
// written its own yet.
func (h *Holder) isRecorded() bool {
	return h.Record != nil && h.Record.State == StateHeld && h.Reason != ReasonKernelLock && h.Reason != ReasonShared
}

// overrules reports whether the hold is overruled: by force, and only if it is the
// one that was found.
func (o *ReclaimOptions) overrules(h *Holder) bool {
	return o.Force && sameRecord(o.found.Record, h.Record)
}
