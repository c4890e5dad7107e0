package lock

import (
	"fmt"
	"os"

	"xlock/internal/fdprobe"
	"xlock/internal/identity"
)

// State is the verdict about a lock.
type State string

const (
	// Free: anybody may take it.
	Free State = "free"
	// Held: somebody holds it.
	Held State = "held"
	// Abandoned: the record says held, and its owner is proven gone. The next
	// taker takes it.
	Abandoned State = "abandoned"
	// UnknownState: not proven either way, and treated as held.
	UnknownState State = "unknown"
)

// The identity words of this package, beside those of package identity: they
// are about descriptors and files.
const (
	// DescriptorOpen: the record names this very process, and a descriptor of
	// it is open on the lock file.
	DescriptorOpen identity.Word = "descriptor-open"
	// DescriptorClosed: the record names this very process, and no descriptor
	// of it is open on the lock file: it was left by an earlier program in
	// this process. Also, of an owner that cannot be seen: the kernel has
	// proven that its descriptor is closed.
	DescriptorClosed identity.Word = "descriptor-closed"
	// DescriptorUnknown: the record names this very process, and its
	// descriptors could not be listed.
	DescriptorUnknown identity.Word = "descriptor-unknown"
	// CopiedRecord: the record was written into another file, and came here
	// with a copy of it. It says nothing about this file.
	CopiedRecord identity.Word = "copied-record"
)

// Reason is the one fact that a verdict rests on.
type Reason string

const (
	ReasonNoFile         Reason = "no-file"
	ReasonNeverHeld      Reason = "never-held"
	ReasonReleased       Reason = "released"
	ReasonBroken         Reason = "broken" // the last hold was ended by a reclaim with force
	ReasonEnded          Reason = "ended"  // modes exec and descriptor: nobody was left to record the release
	ReasonUnreadable     Reason = "unreadable-record"
	ReasonOwner          Reason = "owner"           // the owner's liveness decides
	ReasonCommandRunning Reason = "command-running" // the owner is gone, its command is not
	ReasonKernelLock     Reason = "kernel-lock"     // flock(2) is held, and no record explains it
	ReasonShared         Reason = "shared"          // flock(2) is held by readers, who write no record
	ReasonWriterWaits    Reason = "writer-waits"    // readers hold flock(2), and no more are let in before a writer
	ReasonNoAnswer       Reason = "no-answer"       // flock(2) has not answered while we waited
)

// Judgement is a verdict with its grounds.
type Judgement struct {
	State  State
	Reason Reason

	// Liveness and Identity are about the owner, and empty without one. With
	// [ReasonCommandRunning] the owner is gone, and State is about the command.
	Liveness identity.Liveness
	Identity identity.Word

	// Blocker is the process that keeps the lock, if State is Held or unknown
	// because of a process: when it ends, the lock may be free.
	Blocker *identity.Process
	// Self: Blocker is this very process, and holds the lock.
	Self bool
}

// scene is what a record is judged against: this process, and the file that
// the record was read from.
type scene struct {
	self  identity.Process
	inode uint64
	// local: the file system belongs to this machine alone, so that nobody
	// else can have written the record and its locks are this kernel's.
	local bool
	judge func(p identity.Process, thisMachineOnly bool) identity.Finding
	probe func() (fdprobe.Answer, error)
	// locks: the process is seen to share the kernel lock on the file.
	locks func(pid int) bool
}

// newScene sets the scene for f.
func newScene(f *os.File) (scene, error) {
	info, err := f.Stat()
	if err != nil {
		return scene{}, err
	}
	self := identity.Self()
	if self.Boot == "" {
		if self.Boot, err = identity.Boot(); err != nil {
			return scene{}, fmt.Errorf("the identity of this boot cannot be read: %v", err)
		}
	}
	return scene{
		self:  self,
		inode: inodeOf(info),
		local: isLocal(f),
		judge: self.Judge,
		probe: func() (fdprobe.Answer, error) { return fdprobe.Probe(f) },
		locks: func(pid int) bool { return fdprobe.LockIn(pid, f) },
	}, nil
}

// judgeContent says what the content of a lock file means by itself, before
// the kernel's word on who holds flock(2).
func (s scene) judgeContent(c Content) Judgement {
	switch {
	case c.Kind == Empty, c.Kind == Foreign:
		return Judgement{State: Free, Reason: ReasonNeverHeld}
	case c.Kind != Valid:
		return Judgement{State: Free, Reason: ReasonUnreadable}
	case c.Record.State == StateFree && c.Record.wasBroken():
		return Judgement{State: Free, Reason: ReasonBroken}
	case c.Record.State == StateFree:
		return Judgement{State: Free, Reason: ReasonReleased}
	}
	return s.judgeHeld(c.Record)
}

func (s scene) judgeHeld(r *Record) Judgement {
	if s.isCopy(r) {
		return Judgement{State: Abandoned, Liveness: identity.Gone, Identity: CopiedRecord, Reason: ReasonOwner}
	}
	owner := s.judgeProcess(r.Owner)
	if r.Mode == Descriptor && owner.State == Held && !s.locks(r.Owner.PID) {
		return Judgement{State: Free, Reason: ReasonEnded, Liveness: owner.Liveness, Identity: owner.Identity}
	}
	if owner.State != Abandoned {
		return owner
	}
	if command := s.judgeCommand(r, owner); command.State != Abandoned {
		return command
	}
	if r.Mode == Descriptor || r.Mode == Exec && owner.Identity != DescriptorClosed {
		owner.State, owner.Reason = Free, ReasonEnded
	}
	return owner
}

// isCopy: inodes are compared only where they last, on a local file system
// within one boot.
func (s scene) isCopy(r *Record) bool {
	return s.local && s.sameBoot(r) && r.Inode != 0 && r.Inode != s.inode
}

func (s scene) sameBoot(r *Record) bool {
	return r.Owner.Boot != "" && r.Owner.Boot == s.self.Boot
}

// judgeProcess judges as if p alone were named: by its identity, and by its
// descriptors if it is this very process.
func (s scene) judgeProcess(p *identity.Process) Judgement {
	finding := s.judge(*p, s.local)
	j := Judgement{Liveness: finding.Liveness, Identity: finding.Identity, Reason: ReasonOwner, Blocker: p}
	if finding.Identity == identity.Matched && p.PID == s.self.PID {
		j.Liveness, j.Identity = s.judgeSelf()
		j.Self = j.Liveness == identity.Alive
	}
	switch j.Liveness {
	case identity.Gone:
		j.State, j.Blocker = Abandoned, nil
	case identity.Alive:
		j.State = Held
	default:
		j.State = UnknownState
	}
	return j
}

// judgeSelf asks the descriptor table, as only this process can: its identity
// matches, but whether the program that wrote the record still runs in it, only
// an open descriptor tells.
func (s scene) judgeSelf() (identity.Liveness, identity.Word) {
	answer, err := s.probe()
	switch {
	case err != nil || answer == fdprobe.Unknown:
		return identity.Unknown, DescriptorUnknown
	case answer == fdprobe.Open:
		return identity.Alive, DescriptorOpen
	}
	return identity.Gone, DescriptorClosed
}

// judgeCommand asks for the command of an owner that is gone: a killed wrapper
// does not end its command's hold.
func (s scene) judgeCommand(r *Record, owner Judgement) Judgement {
	command := r.commandProcess()
	if command == nil {
		return owner
	}
	running := s.judgeProcess(command)
	if running.Identity == DescriptorClosed && !r.Inherits {
		// The command has replaced itself by this program. It never had the
		// descriptor, so that its absence tells nothing.
		running.State, running.Blocker, running.Self = Held, command, true
	}
	if running.State != Abandoned {
		owner.State, owner.Reason = running.State, ReasonCommandRunning
		owner.Blocker, owner.Self = running.Blocker, running.Self
	}
	return owner
}

// judgeLocked judges for somebody who holds the kernel lock on the file and is
// therefore a witness: on a local file system, in the boot that the record
// names, no open file description of the recorded holder can be left, or this
// lock would not have been granted. That settles an owner in a namespace that
// we cannot see into, which is what frees the lock of a dead container. It
// needs a command that had inherited the descriptor, since one that had not
// could live unseen; and it does not settle an owner that is seen alive.
//
// What it does not prove: a holder that closed its descriptor, or unlocked it,
// and runs on unseen looks the same as a dead one.
func (s scene) judgeLocked(c Content) Judgement {
	j := s.judgeContent(c)
	if saysHeld(c) && c.Record.Mode == Descriptor {
		j.State, j.Reason, j.Blocker, j.Self = Free, ReasonEnded, nil, false
	}
	if j.State == UnknownState && s.local && s.sameBoot(c.Record) && c.Record.Inherits {
		j.State, j.Blocker = Abandoned, nil
		j.Liveness, j.Identity, j.Reason = identity.Gone, DescriptorClosed, ReasonOwner
	}
	return j
}
