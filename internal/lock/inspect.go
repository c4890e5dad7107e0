package lock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"xlock/internal/fdprobe"
	"xlock/internal/identity"
)

// Report is everything that can be said about a lock from here.
type Report struct {
	Path string
	Judgement
	Content  Content
	Holders  []fdprobe.Holder // whom the kernel shows
	Waiters  []int            // in the order in which they will be granted
	Warnings []string
}

// Holder is who stands in the way, if anybody does.
func (r *Report) Holder() Holder {
	return Holder{Path: r.Path, Record: r.Content.Record, Judgement: r.Judgement, Descriptor: -1}
}

// Inspect looks at the lock at path. It never takes the lock, not for a
// moment, and it writes and creates nothing, so that it neither refuses nor
// delays anybody. The lock of a file that does not exist, in a directory that
// does, is free.
//
// The report is of one moment as far as the file is concerned; that the kernel
// shows no holder does not prove that there is none.
func Inspect(path string) (*Report, error) { return inspect(path, fdprobe.ListHolders) }

// Glance is an Inspect that somebody who waits can repeat: of the kernel's
// evidence it takes what one list has, and does not look through all
// processes. Holders can be missing that Inspect finds.
func Glance(path string) (*Report, error) { return inspect(path, fdprobe.ListQueue) }

// lister asks the kernel about a file.
type lister func(*os.File) (fdprobe.Holders, error)

func inspect(path string, list lister) (*Report, error) {
	f, err := openToRead(path)
	if errors.Is(err, fs.ErrNotExist) {
		return inspectMissing(path, err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return inspectFile(path, f, list)
}

func inspectMissing(path string, missing error) (*Report, error) {
	if _, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, missing
	}
	return &Report{
		Path:      path,
		Judgement: Judgement{State: Free, Reason: ReasonNoFile},
		Content:   Content{Kind: Empty},
	}, nil
}

// inspectFile reads the record before and after it asks the kernel. If they
// differ, the lock has changed hands meanwhile and the kernel's answer may be
// about either holder: look again.
func inspectFile(path string, f *os.File, list lister) (*Report, error) {
	s, err := newScene(f)
	if err != nil {
		return nil, err
	}
	before, err := readOurs(f)
	if err != nil {
		return nil, err
	}
	const mostLooks = 10
	for look := 1; ; look++ {
		kernel, errKernel := list(f)
		after, err := readOurs(f)
		if err != nil {
			return nil, err
		}
		if same := sameContent(before, after); same || look == mostLooks {
			r := &Report{Path: path, Judgement: s.judgeContent(after), Content: after}
			r.addKernel(kernel, errKernel)
			r.warn(same)
			return r, nil
		}
		before = after
	}
}

func sameContent(a, b Content) bool {
	if a.Kind != Valid || b.Kind != Valid {
		return a.Kind == b.Kind
	}
	return a.Record.State == b.Record.State && a.Record.Generation == b.Record.Generation
}

// addKernel adds what the kernel shows, and lets it overrule a record that says
// free: a held kernel lock is a held lock.
func (r *Report) addKernel(kernel fdprobe.Holders, err error) {
	r.Holders, r.Waiters = kernel.Holders, kernel.Waiters
	if err != nil {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the kernel's list of locks cannot be read: %v", err))
	}
	if len(r.Holders) > 0 {
		h := r.Holder()
		h.explainKernelLock()
		r.Judgement = h.Judgement
	}
}

// warn adds what a person should know besides. consistent is whether the record
// and the kernel's answer are of one moment.
func (r *Report) warn(consistent bool) {
	if r.Content.Kind == Unreadable {
		r.Warnings = append(r.Warnings, "the record cannot be read: it is "+r.Content.Why)
	}
	switch {
	case !consistent:
		r.Warnings = append(r.Warnings, "the lock changes hands faster than it can be looked at")
	case len(r.Holders) > 0 && r.Reason == ReasonOwner && r.Blocker != nil && !r.shows(r.Blocker):
		r.Warnings = append(r.Warnings, "the kernel shows another holder than the record")
	}
}

// shows reports whether the kernel lists p among the holders.
func (r *Report) shows(p *identity.Process) bool {
	return slices.ContainsFunc(r.Holders, func(h fdprobe.Holder) bool { return h.PID == p.PID })
}
