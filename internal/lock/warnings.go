package lock

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"xlock/internal/fdprobe"
	"xlock/internal/identity"
)

// Warning is what a person should know besides. The codes are part of xlock's
// interface; the detail completes the sentence that a code stands for.
type Warning struct {
	Code   WarningCode
	Detail string
}

// WarningCode names a kind of warning.
type WarningCode string

const (
	// WarnRecord: the record cannot be read. Detail: what is wrong with it.
	WarnRecord WarningCode = "unreadable-record"
	// WarnKernel: the kernel's list of locks cannot be read. Detail: the error.
	WarnKernel WarningCode = "no-kernel-list"
	// WarnChanging: the lock changes hands faster than it can be looked at.
	WarnChanging WarningCode = "changing"
	// WarnOtherHolder: the kernel shows another holder than the record.
	WarnOtherHolder WarningCode = "other-holder"
	// WarnNoKernelLock: the record's process lives, and the kernel shows no lock.
	WarnNoKernelLock WarningCode = "no-kernel-lock"
	// WarnNamespace: holders and waiters of other PID namespaces are not
	// visible.
	WarnNamespace WarningCode = "other-namespaces-not-visible"
	// WarnHidden: processes of other users are hidden.
	WarnHidden WarningCode = "processes-hidden"
	// WarnUnseen: some processes may not be looked into. Detail: how many.
	WarnUnseen WarningCode = "processes-not-readable"
	// WarnLost: processes hold a deleted file that had this path. Detail: their
	// numbers.
	WarnLost WarningCode = "file-lost"
	// WarnFileSystem: the file system may not be this machine's own. Detail: its
	// type.
	WarnFileSystem WarningCode = "file-system"
	// WarnSticky: other users' programs may not open the file with O_CREAT.
	WarnSticky WarningCode = "protected-regular"
	// WarnMode: every user can open the file, and so block the lock. Detail: the
	// mode.
	WarnMode WarningCode = "open-to-all"
	// WarnClock: the record tells of the future.
	WarnClock WarningCode = "clock"
)

func (r *Report) addWarning(code WarningCode, detail string) {
	r.Warnings = append(r.Warnings, Warning{code, detail})
}

// warn warns of what the record and the kernel say. consistent is whether they are
// of one moment.
func (r *Report) warn(consistent bool, errKernel error) {
	if r.Content.Kind == Unreadable {
		r.addWarning(WarnRecord, r.Content.Why)
	}
	if errKernel != nil {
		r.addWarning(WarnKernel, errKernel.Error())
	}
	switch named := r.Reason == ReasonOwner && r.Blocker != nil; {
	case !consistent:
		r.addWarning(WarnChanging, "")
	case len(r.Kernel.Holders) > 0 && named && r.Liveness == identity.Alive && !r.shows(r.Blocker):
		r.addWarning(WarnOtherHolder, "")
	}
	r.warnOfClock()
}

// warnOfClock: the clock was set back since, or another machine's goes ahead.
func (r *Report) warnOfClock() {
	record := r.Content.Record
	if record == nil {
		return
	}
	const tolerance = 2 * time.Second
	soon := time.Now().Add(tolerance)
	for _, t := range []*time.Time{record.Acquired, record.Released} {
		if t != nil && t.After(soon) {
			r.addWarning(WarnClock, "")
			return
		}
	}
}

// warnOfFile warns of where the file stands and who can open it.
func (r *Report) warnOfFile(f *os.File, local bool) {
	if !local {
		r.addWarning(WarnFileSystem, fileSystemType(f))
	}
	info, err := f.Stat()
	if err != nil {
		return
	}
	path, err := filepath.Abs(f.Name())
	if err != nil {
		return
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	const others = 0o006
	if info.Mode()&others != 0 && reachable(filepath.Dir(path)) {
		r.addWarning(WarnMode, fmt.Sprintf("%04o", info.Mode().Perm()))
	}
	if dir, err := os.Stat(filepath.Dir(path)); err == nil && isProtected(dir, info) {
		r.addWarning(WarnSticky, "")
	}
}

// reachable reports whether every user may enter the directory.
func reachable(dir string) bool {
	for {
		info, err := os.Stat(dir)
		const enter = 0o001
		if err != nil || info.Mode()&enter == 0 {
			return false
		}
		if parent := filepath.Dir(dir); parent != dir {
			dir = parent
			continue
		}
		return true
	}
}

// isProtected: with fs.protected_regular the kernel refuses O_CREAT of another
// user's file in a sticky directory of somebody else's that all may write to, and
// from 2 on the group (proc(5)).
func isProtected(dir, file os.FileInfo) bool {
	const group, others = 0o020, 0o002
	level := protectedRegular()
	shared := level >= 1 && dir.Mode()&others != 0 || level >= 2 && dir.Mode()&group != 0
	return shared && dir.Mode()&fs.ModeSticky != 0 && ownerOf(dir) != ownerOf(file)
}

func ownerOf(info os.FileInfo) uint32 { return info.Sys().(*syscall.Stat_t).Uid }

// warnOfLoss: nothing is at the path, but somebody may hold what was there.
func (r *Report) warnOfLoss() {
	r.addLost(fdprobe.ListLost(r.Path))
	r.warnOfBlindness()
}

func (r *Report) addLost(pids []int) {
	var texts []string
	for _, pid := range pids {
		texts = append(texts, "pid "+strconv.Itoa(pid))
	}
	if len(texts) > 0 {
		r.addWarning(WarnLost, strings.Join(texts, ", "))
	}
}

func (r *Report) warnOfBlindness() {
	blind := identity.BlindSpots()
	if blind.OuterNamespaces {
		r.addWarning(WarnNamespace, "")
	}
	if blind.Hidden {
		r.addWarning(WarnHidden, "")
	}
}

// warnOfProcesses warns of what was not seen, and of what should have been.
func (r *Report) warnOfProcesses() {
	r.addLost(r.Kernel.Lost)
	r.warnOfBlindness()
	if unseen := r.Kernel.Unseen; unseen > 0 {
		r.addWarning(WarnUnseen, fmt.Sprint(unseen))
	}
	owner := r.Evidence.Owner
	if r.Reason == ReasonOwner && r.State == Held && len(r.Kernel.Holders) == 0 &&
		owner != nil && owner.Descriptors == DescriptorsClosed {
		r.addWarning(WarnNoKernelLock, "")
	}
}
