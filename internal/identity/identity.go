// Package identity says who a process is, and whether a process that was
// recorded earlier is still there.
//
// A process number alone names nobody: numbers are used again after a reboot,
// by the next process, and at the same time in another PID namespace. A
// [Process] is therefore a machine, a boot, a PID namespace, a number in it
// and the moment the process started. It names the process, not the program:
// execve(2) changes none of it.
//
// Judging follows one rule: ignorance is not death. Only proof makes an owner
// [Gone]; whatever cannot be seen from here is [Unknown].
package identity

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Process identifies a process. The fields are compared, never calculated
// with. An empty field is knowledge that was not to be had, and equals
// nothing, not even another empty field.
type Process struct {
	// Machine is the installation: /etc/machine-id on Linux (machine-id(5)),
	// the host's UUID elsewhere.
	Machine string `json:"machine,omitempty"`

	// Boot changes with every boot of the kernel, and all containers of one
	// kernel share it (random(4), boot_id).
	Boot string `json:"boot,omitempty"`

	// PIDNamespace is the inode of the PID namespace that PID belongs to.
	// The kernel uses these inodes again as soon as a namespace is gone, so
	// an equal one does not prove the same namespace; what it does prove is
	// that an owner in another namespace of that inode has ended, because a
	// namespace with a living process keeps its inode.
	PIDNamespace string `json:"pid_namespace,omitempty"`

	// TimeNamespace is the inode of the time namespace that Start was read
	// in: the kernel adds the reader's offset to it (time_namespaces(7)).
	TimeNamespace string `json:"time_namespace,omitempty"`

	PID int `json:"pid,omitempty"`

	// Start is when the process started, in a unit of the system's own:
	// clock ticks since boot on Linux, where no change of the wall clock
	// moves it.
	Start string `json:"start,omitempty"`

	// PidfdID is the inode of a pidfd on pidfs (Linux 6.9 and later): unique
	// among all processes until the next boot, in every namespace.
	PidfdID string `json:"pidfd_id,omitempty"`
}

// Liveness is what is known about a recorded process.
type Liveness string

const (
	// Alive: proven to be there.
	Alive Liveness = "alive"
	// Gone: proven to have ended.
	Gone Liveness = "gone"
	// Unknown: neither is proven.
	Unknown Liveness = "unknown"
)

// Word says in one word what a [Finding] rests on. The words are part of
// xlock's output.
type Word string

const (
	// Matched: the process lives and everything that is known agrees.
	Matched Word = "matched"
	// ProcessGone: its PID namespace is ours, and no process has its number.
	ProcessGone Word = "process-gone"
	// ProcessReplaced: the number belongs to a younger process or to a
	// thread of another process.
	ProcessReplaced Word = "process-replaced"
	// ProcessZombie: every thread has ended; the parent has not looked yet.
	ProcessZombie Word = "process-zombie"
	// EarlierBoot: it ran on this machine before the machine was booted.
	EarlierBoot Word = "earlier-boot"
	// OtherMachine: it may run on a machine that we cannot look into.
	OtherMachine Word = "other-machine"
	// OtherPIDNamespace: it belongs to a container (or the host of ours),
	// where its number means something that we cannot look up.
	OtherPIDNamespace Word = "other-pid-namespace"
	// NotVisible: hidden (hidepid, no /proc, a /proc of another namespace),
	// or recorded without what would be needed to tell.
	NotVisible Word = "not-visible"
	// OtherTimeNamespace: its start was read under another clock offset, and
	// there is no pidfd id to compare instead.
	OtherTimeNamespace Word = "other-time-namespace"
)

// Finding is the answer to "is this process still there?".
type Finding struct {
	Liveness Liveness `json:"liveness"`
	Identity Word     `json:"identity"`
}

// Self identifies this process.
func Self() Process { return self() }

// Neighbour identifies another running process of the PID namespace of p, which is
// what [Self] has returned in this process, as Self would from within. The caller
// must see to it that the number cannot pass to another process meanwhile, as the
// parent of a child that it has not waited for does. What cannot be read stays empty.
func (p Process) Neighbour(pid int) Process {
	s := look(pid)
	p.PID, p.Start, p.PidfdID = pid, s.start, s.pidfdID
	return p
}

// Judge says whether the process that other names is still there, as far as this
// process can prove it, for which [Self] has returned p. thisMachineOnly is whether
// only this machine can have written other, which holds for a file on a local file
// system: without it, another boot may be another machine that is running now.
func (p Process) Judge(other Process, thisMachineOnly bool) Finding {
	return judge(other, p, thisMachineOnly, look)
}

// sighting is what this process sees of a process number right now.
type sighting struct {
	absent  bool   // proven: neither a process nor a thread has the number
	thread  bool   // the number is that of a thread in some process
	ended   bool   // a zombie without a living thread
	start   string // empty when not readable
	pidfdID string // empty when the kernel has none
}

func judge(p, self Process, thisMachineOnly bool, look func(int) sighting) Finding {
	switch {
	case p.PID <= 0 || p.PID > math.MaxInt32: // pid_t: the kernel would cut it off
		return Finding{Unknown, NotVisible}
	case p.Boot == "" || self.Boot == "":
		return Finding{Unknown, NotVisible}
	case p.Boot != self.Boot:
		return judgeOtherBoot(p, self, thisMachineOnly)
	case p.PIDNamespace == "" || self.PIDNamespace == "":
		return Finding{Unknown, NotVisible}
	case p.PIDNamespace != self.PIDNamespace:
		return Finding{Unknown, OtherPIDNamespace}
	}
	return judgeSighting(p, self, look(p.PID))
}

// judgeOtherBoot: two machine ids that are known and differ are two machines,
// on a local file system too, because a directory can be local here and at the
// same time exported to others (NFS, SMB, 9p, virtiofs), whose locks need not
// meet ours in the kernel.
func judgeOtherBoot(p, self Process, thisMachineOnly bool) Finding {
	known := p.Machine != "" && self.Machine != ""
	switch {
	case known && p.Machine == self.Machine:
		return Finding{Gone, EarlierBoot}
	case !known && thisMachineOnly:
		return Finding{Gone, EarlierBoot}
	}
	return Finding{Unknown, OtherMachine}
}

func judgeSighting(p, self Process, s sighting) Finding {
	sameID := p.PidfdID != "" && p.PidfdID == s.pidfdID
	startKnown := p.Start != "" && s.start != ""
	// Two empty time namespaces are one: within a boot, and so on one kernel,
	// it means that this kernel has none (before Linux 5.6).
	comparable := startKnown && p.TimeNamespace == self.TimeNamespace
	switch {
	case s.absent:
		return Finding{Gone, ProcessGone}
	case s.thread:
		return Finding{Gone, ProcessReplaced}
	case p.PidfdID != "" && s.pidfdID != "" && !sameID:
		return Finding{Gone, ProcessReplaced}
	case !sameID && comparable && p.Start != s.start:
		return Finding{Gone, ProcessReplaced}
	case s.ended:
		return Finding{Gone, ProcessZombie} // whosever it is: p or, p being gone, another
	case !sameID && !startKnown:
		return Finding{Unknown, NotVisible}
	case !sameID && !comparable:
		return Finding{Unknown, OtherTimeNamespace}
	}
	return Finding{Alive, Matched}
}

// Boot is the identity of this boot, and empty where the system has none or does not
// show it. It fails where that cannot be read just now: a [Process] without it could
// never be judged again.
func Boot() (string, error) { return boot() }

// IsAncestor reports whether the process of this number, in this PID
// namespace, started this process or one of its ancestors. It says no where
// the chain of parents cannot be seen.
func IsAncestor(pid int) bool { return slices.Contains(Ancestors(), pid) }

// Ancestors are the numbers, in this PID namespace, of the process that started this
// one, of that which started it, and so on, as far as they can be seen.
func Ancestors() (pids []int) {
	parent, ok := parentOf(self().PID)
	for ok && parent > 0 && len(pids) < mostAncestors {
		pids = append(pids, parent)
		parent, ok = parentOf(parent)
	}
	return pids
}

// AncestorsVisible reports whether a no of [IsAncestor] is an answer, and not
// that the parents cannot be seen.
func AncestorsVisible() bool { return ancestorsVisible() }

// mostAncestors ends the walk should processes come and go so that the chain
// closes to a ring while it is read.
const mostAncestors = 10_000

// AwaitEnd returns when the process that p names has ended, and after limit
// at the latest. It does not say which of the two happened, and it may return
// early: the caller judges again.
func AwaitEnd(p Process, limit time.Duration) { awaitEnd(p, limit) }

// String is for error messages and tests.
func (p Process) String() string {
	return fmt.Sprintf("pid %d (start %s, pidfd %s, boot %s)", p.PID, p.Start, p.PidfdID, p.Boot)
}
