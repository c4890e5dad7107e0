package lock

import (
	"errors"
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
	Content Content
	Kernel  fdprobe.Holders // whom the kernel shows
	// Evidence is what else a person wants to know, and nil after a [Glance].
	Evidence *Evidence
	Warnings []Warning
}

// Holder is who stands in the way, if anybody does.
func (r *Report) Holder() Holder {
	h := Holder{Path: r.Path, Record: r.Content.Record, Judgement: r.Judgement, Descriptor: -1}
	if r.Reason == ReasonKernelLock || r.Reason == ReasonShared {
		h.addTakers(r.Kernel)
	}
	return h
}

// Inspect looks at the lock at path. It never takes the lock, not for a
// moment, and it writes and creates nothing, so that it neither refuses nor
// delays anybody. The lock of a file that does not exist, in a directory that
// does, is free.
//
// The report is of one moment as far as the file is concerned; that the kernel
// shows no holder does not prove that there is none.
func Inspect(path string) (*Report, error) {
	found := inspectAll([]string{path}, true)
	return found[0].Report, found[0].Err
}

// Found is a report, or why there is none.
type Found struct {
	Path   string
	Report *Report
	Err    error
}

// InspectAll is an Inspect of each path, for which it looks through the processes once,
// or once for each few hundred files: it has them all open meanwhile, and in a directory
// where everybody may make files there can be more than a process may open.
func InspectAll(paths []string) []Found {
	const mostOpen = 256
	var found []Found
	for some := range slices.Chunk(paths, mostOpen) {
		found = append(found, inspectAll(some, true)...)
	}
	return found
}

// Glance is an Inspect that somebody who waits can repeat: of the kernel's
// evidence it takes what one list has, and does not look through all
// processes. Holders can be missing that Inspect finds.
func Glance(path string) (*Report, error) {
	found := inspectAll([]string{path}, false)
	return found[0].Report, found[0].Err
}

// look is an inspection under way.
type look struct {
	*Found
	file   *os.File
	scene  scene
	before Content
}

// readAny reads what [readOurs] does. What that refuses is reported only if it is
// locked: foreign is why.
func readAny(f *os.File) (content Content, foreign, err error) {
	content, err = readOurs(f)
	if errors.Is(err, ErrNotLockFile) {
		foreign, err = err, nil
	}
	return content, foreign, err
}

// inspectAll gathers all evidence, or what a [Glance] takes.
func inspectAll(paths []string, all bool) []Found {
	found := make([]Found, len(paths))
	var looks []*look
	for i, path := range paths {
		found[i].Path = path
		l := &look{Found: &found[i]}
		if l.open(all); l.file != nil {
			defer l.file.Close()
			looks = append(looks, l)
		}
	}
	const mostLooks = 10
	for n := 1; len(looks) > 0; n++ {
		looks = lookAgain(looks, all, n == mostLooks)
	}
	return found
}

// open leaves file nil if there is nothing to look at.
func (l *look) open(all bool) {
	f, err := openToRead(l.Path)
	if errors.Is(err, fs.ErrNotExist) {
		l.Report, l.Err = inspectMissing(l.Path, err)
		if all && l.Report != nil {
			l.Report.warnOfLoss()
		}
		return
	}
	if err != nil {
		l.Err = err
		return
	}
	l.scene, l.Err = newScene(f)
	if l.Err == nil {
		l.before, _, l.Err = readAny(f)
	}
	if l.Err != nil {
		f.Close()
		return
	}
	l.file = f
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

// lookAgain asks the kernel, and reads the records before and after that. Where
// they differ, the lock has changed hands meanwhile and the kernel's answer may be
// about either holder: those it returns, unless it is the last look.
func lookAgain(looks []*look, all, last bool) (again []*look) {
	list := fdprobe.ListQueue
	if all {
		list = fdprobe.ListHolders
	}
	files := make([]*os.File, len(looks))
	for i, l := range looks {
		files[i] = l.file
	}
	kernel, errKernel := list(files)
	for i, l := range looks {
		after, foreign, err := readAny(l.file)
		switch same := err == nil && sameContent(l.before, after); {
		case err != nil:
			l.Err = err
		case same || last:
			l.Report = &Report{Path: l.Path, Judgement: l.scene.judgeContent(after), Content: after}
			if kernel != nil {
				l.Report.addKernel(kernel[i])
			}
			l.Report.judgeDescriptor(errKernel)
			if foreign != nil && len(l.Report.Kernel.Holders)+len(l.Report.Kernel.Ranges) == 0 {
				l.Report, l.Err = nil, foreign
				continue
			}
			l.Report.warn(same, errKernel)
			l.Report.warnOfFile(l.file, l.scene.local)
			if all {
				l.Report.addEvidence(l.file, l.scene)
			}
		default:
			l.before = after
			again = append(again, l)
		}
	}
	return again
}

func sameContent(a, b Content) bool {
	return a.Kind == b.Kind && sameRecord(a.Record, b.Record)
}

func sameRecord(a, b *Record) bool {
	if a == nil || b == nil {
		return a == b
	}
	sameOwner := a.Owner == b.Owner || a.Owner != nil && b.Owner != nil && *a.Owner == *b.Owner
	return a.State == b.State && a.Generation == b.Generation && sameOwner
}

// addKernel adds what the kernel shows, and lets it overrule a record that says
// free: a held kernel lock is a held lock.
func (r *Report) addKernel(kernel fdprobe.Holders) {
	r.Kernel = kernel
	if len(kernel.Holders) > 0 {
		h := r.Holder()
		if !h.confirmHeld() {
			h.explainBy(kernel)
		}
		r.Judgement = h.Judgement
	}
}

// judgeDescriptor judges a record of mode [Descriptor], for which the kernel's word
// alone counts: it is nobody's if the kernel shows no holder, and can show all.
func (r *Report) judgeDescriptor(errKernel error) {
	if !saysHeld(r.Content) || r.Content.Record.Mode != Descriptor || len(r.Kernel.Holders) > 0 {
		return
	}
	blind := identity.BlindSpots()
	if errKernel != nil || blind.OuterNamespaces || blind.Hidden {
		r.State = UnknownState
		return
	}
	r.State, r.Reason, r.Blocker = Free, ReasonEnded, nil
}

// shows reports whether the kernel lists p among the holders.
func (r *Report) shows(p *identity.Process) bool {
	return slices.ContainsFunc(r.Kernel.Holders, func(h fdprobe.Holder) bool { return h.PID == p.PID })
}
