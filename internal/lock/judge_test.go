package lock

import (
	"errors"
	"fmt"
	"testing"

	"xlock/internal/fdprobe"
	"xlock/internal/identity"
)

// The numbers of the processes in these tests.
const (
	pidSelf    = 10
	pidOwner   = 20
	pidCommand = 30
)

// staged is a scene in which the owner and the command are in the given states,
// this process lives, and nobody asks for descriptors.
func staged(t *testing.T, owner, command identity.Liveness) scene {
	words := map[identity.Liveness]identity.Word{
		identity.Alive: identity.Matched, identity.Gone: identity.ProcessGone, identity.Unknown: identity.NotVisible,
	}
	lives := map[int]identity.Liveness{pidSelf: identity.Alive, pidOwner: owner, pidCommand: command}
	return scene{
		self:  identity.Process{Boot: "boot", PID: pidSelf},
		inode: 7,
		local: true,
		judge: func(p identity.Process, _ bool) identity.Finding {
			return identity.Finding{Liveness: lives[p.PID], Identity: words[lives[p.PID]]}
		},
		locks: func(int) bool { return true },
		probe: func() (fdprobe.Answer, error) {
			t.Error("probed for another process")
			return fdprobe.Unknown, nil
		},
	}
}

// stagedRecord is a held record of that scene; command tells whether it names
// one.
func stagedRecord(mode Mode, command bool) Record {
	r := Record{
		Version: formatVersion, State: StateHeld, Mode: mode, Inode: 7,
		Owner: &identity.Process{Boot: "boot", PID: pidOwner},
	}
	if command {
		r.Command = &Command{PID: pidCommand}
	}
	return r
}

func valid(r Record) Content { return Content{Kind: Valid, Record: &r} }

// brief is a judgement in comparable form.
func brief(j Judgement) string {
	blocker := 0
	if j.Blocker != nil {
		blocker = j.Blocker.PID
	}
	return fmt.Sprintf("%s: %s %s, %s, blocked by %d, self %t", j.State, j.Liveness, j.Identity, j.Reason, blocker, j.Self)
}

func wantJudgement(t *testing.T, got Judgement, want string) {
	t.Helper()
	if brief(got) != want {
		t.Errorf("judged %s\nwant   %s", brief(got), want)
	}
}

func TestJudgeWithoutAHolder(t *testing.T) {
	free := stagedRecord(Fork, true)
	free.State = StateFree
	tests := []struct {
		name    string
		content Content
		want    string
	}{
		{"empty", Content{Kind: Empty}, "free:  , never-held, blocked by 0, self false"},
		{"unreadable", Content{Kind: Unreadable, Why: "torn"}, "free:  , unreadable-record, blocked by 0, self false"},
		{"released", valid(free), "free:  , released, blocked by 0, self false"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := staged(t, identity.Alive, identity.Alive)
			wantJudgement(t, s.judgeContent(tt.content), tt.want)
			wantJudgement(t, s.judgeLocked(tt.content), tt.want)
		})
	}
}

func TestJudgeAnotherProcess(t *testing.T) {
	const none = identity.Liveness("none")
	const (
		heldByOwner   = "held: alive matched, owner, blocked by 20, self false"
		unknownOwner  = "unknown: unknown not-visible, owner, blocked by 20, self false"
		heldByCommand = "held: gone process-gone, command-running, blocked by 30, self false"
		unknownComm   = "unknown: gone process-gone, command-running, blocked by 30, self false"
		abandoned     = "abandoned: gone process-gone, owner, blocked by 0, self false"
		ended         = "free: gone process-gone, ended, blocked by 0, self false"
	)
	tests := []struct {
		owner, command   identity.Liveness
		want, wantOfExec string
	}{
		{identity.Alive, none, heldByOwner, heldByOwner},
		{identity.Alive, identity.Alive, heldByOwner, heldByOwner},
		{identity.Alive, identity.Gone, heldByOwner, heldByOwner},
		{identity.Alive, identity.Unknown, heldByOwner, heldByOwner},
		{identity.Unknown, none, unknownOwner, unknownOwner},
		{identity.Unknown, identity.Alive, unknownOwner, unknownOwner},
		{identity.Unknown, identity.Gone, unknownOwner, unknownOwner},
		{identity.Unknown, identity.Unknown, unknownOwner, unknownOwner},
		{identity.Gone, none, abandoned, ended},
		{identity.Gone, identity.Alive, heldByCommand, heldByCommand},
		{identity.Gone, identity.Gone, abandoned, ended},
		{identity.Gone, identity.Unknown, unknownComm, unknownComm},
	}
	for _, tt := range tests {
		for _, mode := range []Mode{Fork, Exec, Process, Descriptor, ""} {
			t.Run(fmt.Sprintf("owner %s, command %s, mode %s", tt.owner, tt.command, mode), func(t *testing.T) {
				want := tt.want
				if mode == Exec || mode == Descriptor {
					want = tt.wantOfExec
				}
				c := valid(stagedRecord(mode, tt.command != none))
				wantJudgement(t, staged(t, tt.owner, tt.command).judgeContent(c), want)
			})
		}
	}
}

// A record that names this very process: its descriptors decide.
func TestJudgeSelf(t *testing.T) {
	tests := []struct {
		name   string
		answer fdprobe.Answer
		err    error
		want   string
	}{
		{"open", fdprobe.Open, nil, "held: alive descriptor-open, owner, blocked by 10, self true"},
		{"closed", fdprobe.Closed, nil, "abandoned: gone descriptor-closed, owner, blocked by 0, self false"},
		{"unknown", fdprobe.Unknown, nil, "unknown: unknown descriptor-unknown, owner, blocked by 10, self false"},
		{"closed with an error", fdprobe.Closed, errors.New("x"), "unknown: unknown descriptor-unknown, owner, blocked by 10, self false"},
	}
	for _, tt := range tests {
		for _, mode := range []Mode{Fork, Exec, Process} {
			t.Run(tt.name+", mode "+string(mode), func(t *testing.T) {
				s := staged(t, identity.Alive, identity.Gone)
				s.probe = func() (fdprobe.Answer, error) { return tt.answer, tt.err }
				r := stagedRecord(mode, true)
				r.Owner.PID = pidSelf
				wantJudgement(t, s.judgeContent(valid(r)), tt.want)
			})
		}
	}
	t.Run("closed, and the command lives", func(t *testing.T) {
		s := staged(t, identity.Alive, identity.Alive)
		s.probe = func() (fdprobe.Answer, error) { return fdprobe.Closed, nil }
		r := stagedRecord(Fork, true)
		r.Owner.PID = pidSelf
		wantJudgement(t, s.judgeContent(valid(r)), "held: gone descriptor-closed, command-running, blocked by 30, self false")
	})
	t.Run("our number, but another process", func(t *testing.T) {
		s := staged(t, identity.Gone, identity.Gone)
		s.judge = func(identity.Process, bool) identity.Finding {
			return identity.Finding{Liveness: identity.Gone, Identity: identity.ProcessReplaced}
		}
		r := stagedRecord(Fork, false)
		r.Owner.PID = pidSelf
		wantJudgement(t, s.judgeContent(valid(r)), "abandoned: gone process-replaced, owner, blocked by 0, self false")
	})
}

// A command whose wrapper was killed has replaced itself by this program. Only a
// descriptor that it had inherited can tell whether it holds the lock still.
func TestJudgeSelfAsCommand(t *testing.T) {
	const (
		held    = "held: gone process-gone, command-running, blocked by 10, self true"
		blind   = "unknown: gone process-gone, command-running, blocked by 10, self false"
		gone    = "abandoned: gone process-gone, owner, blocked by 0, self false"
		ofOwner = "held: alive matched, owner, blocked by 20, self false"
	)
	tests := []struct {
		name     string
		owner    identity.Liveness
		inherits bool
		answer   fdprobe.Answer
		want     string
	}{
		{"open", identity.Gone, true, fdprobe.Open, held},
		{"closed", identity.Gone, true, fdprobe.Closed, gone},
		{"unknown", identity.Gone, true, fdprobe.Unknown, blind},
		{"not inherited", identity.Gone, false, fdprobe.Closed, held},
		{"the wrapper lives", identity.Alive, true, fdprobe.Closed, ofOwner},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := staged(t, tt.owner, identity.Gone)
			s.probe = func() (fdprobe.Answer, error) { return tt.answer, nil }
			r := stagedRecord(Fork, true)
			r.Inherits, r.Command.PID = tt.inherits, pidSelf
			wantJudgement(t, s.judgeContent(valid(r)), tt.want)
		})
	}
}

// A copy of a lock file names a holder of the file it was copied from. Inode
// numbers tell, where they last.
func TestJudgeCopy(t *testing.T) {
	tests := []struct {
		name  string
		inode uint64
		local bool
		boot  string
		copy  bool
	}{
		{"the same inode", 7, true, "boot", false},
		{"another inode", 8, true, "boot", true},
		{"no inode recorded", 0, true, "boot", false},
		{"another inode of a network", 8, false, "boot", false},
		{"another inode in another boot", 8, true, "other", false},
		{"another inode in an unknown boot", 8, true, "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := staged(t, identity.Alive, identity.Alive)
			s.local = tt.local
			r := stagedRecord(Fork, true)
			r.Inode, r.Owner.Boot = tt.inode, tt.boot
			want := "held: alive matched, owner, blocked by 20, self false"
			if tt.copy {
				want = "abandoned: gone copied-record, owner, blocked by 0, self false"
			}
			wantJudgement(t, s.judgeContent(valid(r)), want)
		})
	}
	t.Run("no boot known at all", func(t *testing.T) {
		s := staged(t, identity.Unknown, identity.Unknown)
		s.self.Boot = ""
		r := stagedRecord(Fork, false)
		r.Inode, r.Owner.Boot = 8, ""
		wantJudgement(t, s.judgeContent(valid(r)), "unknown: unknown not-visible, owner, blocked by 20, self false")
	})
}

// The witness: somebody who was granted the kernel lock knows that the recorded
// holder has no descriptor left, where that is enough to know.
func TestJudgeLocked(t *testing.T) {
	const settled = "abandoned: gone descriptor-closed, owner, blocked by 0, self false"
	lives := []struct{ owner, command identity.Liveness }{
		{identity.Alive, identity.Alive},
		{identity.Unknown, identity.Alive},
		{identity.Unknown, identity.Gone},
		{identity.Gone, identity.Alive},
		{identity.Gone, identity.Unknown},
		{identity.Gone, identity.Gone},
	}
	for _, live := range lives {
		for witness := range 8 {
			local, sameBoot, inherits := witness&1 != 0, witness&2 != 0, witness&4 != 0
			name := fmt.Sprintf("owner %s, command %s, local %t, same boot %t, inherits %t",
				live.owner, live.command, local, sameBoot, inherits)
			t.Run(name, func(t *testing.T) {
				s := staged(t, live.owner, live.command)
				s.local = local
				r := stagedRecord(Fork, true)
				r.Inherits = inherits
				if !sameBoot {
					r.Owner.Boot = "other"
				}
				alone := s.judgeContent(valid(r))
				want := brief(alone)
				if alone.State == UnknownState && local && sameBoot && inherits {
					want = settled
				}
				wantJudgement(t, s.judgeLocked(valid(r)), want)
			})
		}
	}
}
