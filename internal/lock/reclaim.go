package lock

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"xlock/internal/flock"
)

// Reclaim frees the lock at path if its owner is proven gone, under the same
// guard as a taker: with the kernel lock, and judging again what stands in the
// file then. The record keeps telling who held it. It fails with a
// [*HeldError] or [*DeadlockError], and changes nothing, if somebody holds the
// lock or may hold it.
//
// The judgement is the one that was found: Abandoned if this call freed the
// lock, Free if there was nothing to do. Nothing is created.
//
// A dry run does all that, the moment with the kernel lock included, and writes
// nothing.
func Reclaim(path string, dryRun bool) (*Report, error) {
	for {
		report, err := reclaimOnce(path, dryRun)
		if !errors.Is(err, errReplaced) {
			return report, err
		}
	}
}

func reclaimOnce(path string, dryRun bool) (*Report, error) {
	f, err := openExisting(path)
	if errors.Is(err, fs.ErrNotExist) {
		return inspectMissing(path, err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return reclaimFile(path, f, dryRun)
}

func reclaimFile(path string, f *os.File, dryRun bool) (*Report, error) {
	t := &taker{path: path, opts: Options{NoWait: true}, scene: newScene}
	s, err := t.scene(f)
	if err != nil {
		return nil, err
	}
	if err := t.lockKernel(context.Background(), f, s); err != nil {
		return nil, err
	}
	defer flock.Unlock(f)
	content, j, err := judgeWon(f, s)
	if err != nil {
		return nil, err
	}
	switch {
	case j.State == Abandoned && !dryRun:
		err = content.Record.released(nil).writeTo(f)
	case j.State == Held || j.State == UnknownState:
		err = &HeldError{Holder: *t.holder(content, j)}
	}
	return &Report{Path: path, Judgement: j, Content: content}, err
}
