package identity

import (
	"fmt"
	"math"
	"testing"
)

// The processes of the tables: the reader, the owner in its record, and what
// the reader sees of a living owner.
var (
	reader = Process{
		Machine: "machine", Boot: "boot", PIDNamespace: "4026531836", TimeNamespace: "4026531834",
		PID: 100, Start: "5000", PidfdID: "90",
	}
	owner = Process{
		Machine: "machine", Boot: "boot", PIDNamespace: "4026531836", TimeNamespace: "4026531834",
		PID: 7, Start: "300", PidfdID: "50",
	}
	alive = sighting{start: "300", pidfdID: "50"}
)

// TestJudge has the rows of the table in docs/design.md that are about
// identity.
func TestJudge(t *testing.T) {
	for _, test := range []struct {
		name string
		edit func(owner, reader *Process, seen *sighting)
		want Finding
	}{
		{"everything agrees", func(_, _ *Process, _ *sighting) {}, Finding{Alive, Matched}},
		{"start alone agrees", func(o, _ *Process, _ *sighting) { o.PidfdID = "" }, Finding{Alive, Matched}},
		{"pidfd id alone agrees", func(o, _ *Process, _ *sighting) { o.Start = "" }, Finding{Alive, Matched}},
		{"no pidfs here", func(_, _ *Process, s *sighting) { s.pidfdID = "" }, Finding{Alive, Matched}},
		{"no /proc/PID here", func(_, _ *Process, s *sighting) { s.start = "" }, Finding{Alive, Matched}},
		{"no time namespaces", func(o, r *Process, _ *sighting) {
			o.PidfdID, o.TimeNamespace, r.TimeNamespace = "", "", ""
		}, Finding{Alive, Matched}},
		{"other machine id in the same boot", func(o, _ *Process, _ *sighting) { o.Machine = "image" }, Finding{Alive, Matched}},

		{"no such process", func(_, _ *Process, s *sighting) { *s = sighting{absent: true} }, Finding{Gone, ProcessGone}},
		{"no such process by the last look", func(_, _ *Process, s *sighting) { s.absent = true }, Finding{Gone, ProcessGone}},
		{"no such process, nothing to compare", func(o, _ *Process, s *sighting) {
			o.Start, o.PidfdID, *s = "", "", sighting{absent: true}
		}, Finding{Gone, ProcessGone}},

		{"other start", func(o, _ *Process, s *sighting) { o.PidfdID, s.start = "", "301" }, Finding{Gone, ProcessReplaced}},
		{"other pidfd id", func(_, _ *Process, s *sighting) { s.pidfdID = "51" }, Finding{Gone, ProcessReplaced}},
		{"other pidfd id, no start", func(o, _ *Process, s *sighting) { o.Start, s.pidfdID = "", "51" }, Finding{Gone, ProcessReplaced}},
		{"other pidfd id, other clock", func(o, _ *Process, s *sighting) {
			o.TimeNamespace, s.pidfdID = "4026532000", "51"
		}, Finding{Gone, ProcessReplaced}},
		{"replaced by a zombie", func(_, _ *Process, s *sighting) {
			*s = sighting{ended: true, start: "301", pidfdID: "51"}
		}, Finding{Gone, ProcessReplaced}},
		{"a thread", func(_, _ *Process, s *sighting) { *s = sighting{thread: true} }, Finding{Gone, ProcessReplaced}},
		{"a thread of the same tick", func(o, _ *Process, s *sighting) {
			o.PidfdID, *s = "", sighting{thread: true, start: "300"}
		}, Finding{Gone, ProcessReplaced}},

		{"zombie", func(_, _ *Process, s *sighting) { s.ended = true }, Finding{Gone, ProcessZombie}},
		{"zombie by the pidfd id", func(_, _ *Process, s *sighting) { s.ended, s.start = true, "" }, Finding{Gone, ProcessZombie}},
		{"zombie by the start", func(o, _ *Process, s *sighting) { s.ended, o.PidfdID = true, "" }, Finding{Gone, ProcessZombie}},
		{"zombie that may be another", func(o, _ *Process, s *sighting) {
			s.ended, o.PidfdID, o.Start = true, "", ""
		}, Finding{Gone, ProcessZombie}},
		{"zombie that may be another's, other clock", func(o, _ *Process, s *sighting) {
			s.ended, o.TimeNamespace, o.PidfdID = true, "4026532000", ""
		}, Finding{Gone, ProcessZombie}},

		{"nothing to compare in the record", func(o, _ *Process, _ *sighting) {
			o.Start, o.PidfdID = "", ""
		}, Finding{Unknown, NotVisible}},
		{"nothing to see here", func(_, _ *Process, s *sighting) { *s = sighting{} }, Finding{Unknown, NotVisible}},
		{"start here, pidfd id there", func(o, _ *Process, s *sighting) { o.Start, s.pidfdID = "", "" }, Finding{Unknown, NotVisible}},
		{"pidfd id here, start there", func(o, _ *Process, s *sighting) { o.PidfdID, s.start = "", "" }, Finding{Unknown, NotVisible}},

		{"other clock, same pidfd id", func(o, _ *Process, s *sighting) {
			o.TimeNamespace, o.Start = "4026532000", "500300"
		}, Finding{Alive, Matched}},
		{"other clock, zombie of the same pidfd id", func(o, _ *Process, s *sighting) {
			o.TimeNamespace, o.Start, s.ended = "4026532000", "500300", true
		}, Finding{Gone, ProcessZombie}},
		{"other clock, no pidfd id", func(o, _ *Process, _ *sighting) {
			o.TimeNamespace, o.Start, o.PidfdID = "4026532000", "500300", ""
		}, Finding{Unknown, OtherTimeNamespace}},
		{"other clock, same start by chance", func(o, _ *Process, s *sighting) {
			o.TimeNamespace, s.pidfdID = "4026532000", ""
		}, Finding{Unknown, OtherTimeNamespace}},
		{"clock of the record unknown", func(o, _ *Process, s *sighting) {
			o.TimeNamespace, o.PidfdID, s.start = "", "", "301"
		}, Finding{Unknown, OtherTimeNamespace}},
		{"clock of the reader unknown", func(o, r *Process, s *sighting) {
			r.TimeNamespace, o.PidfdID, s.start = "", "", "301"
		}, Finding{Unknown, OtherTimeNamespace}},
		// The inode of a time namespace is used again at once (measured on
		// Linux 6.18), so an equal one does not make two starts comparable
		// against what a pidfd id proves.
		{"other clock of a recycled inode, same pidfd id", func(o, _ *Process, _ *sighting) {
			o.Start = "500300"
		}, Finding{Alive, Matched}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, r, s := owner, reader, alive
			test.edit(&o, &r, &s)
			for _, thisMachineOnly := range []bool{true, false} {
				got := judge(o, r, thisMachineOnly, func(pid int) sighting {
					if pid != o.PID {
						t.Errorf("looked for process %d", pid)
					}
					return s
				})
				if got != test.want {
					t.Errorf("this machine only %v: got %v, want %v", thisMachineOnly, got, test.want)
				}
			}
		})
	}
}

// TestJudgeWithoutALook has the rows where the number means nothing here:
// whoever has it is a stranger and must not be looked at.
func TestJudgeWithoutALook(t *testing.T) {
	earlier, stranger := Finding{Gone, EarlierBoot}, Finding{Unknown, OtherMachine}
	hidden, contained := Finding{Unknown, NotVisible}, Finding{Unknown, OtherPIDNamespace}
	for _, test := range []struct {
		name   string
		edit   func(owner, reader *Process)
		local  Finding // when only this machine can have written the record
		shared Finding // when another can, too
	}{
		{"other boot, same machine", func(o, _ *Process) { o.Boot = "before" }, earlier, earlier},
		{"other boot, no machine in the record", func(o, _ *Process) { o.Boot, o.Machine = "before", "" }, earlier, stranger},
		{"other boot, no machine here", func(o, r *Process) { o.Boot, r.Machine = "before", "" }, earlier, stranger},
		{"other boot, no machine on either side", func(o, r *Process) {
			o.Boot, o.Machine, r.Machine = "before", "", ""
		}, earlier, stranger},
		// A directory that is local here can be exported to others.
		{"other boot, other machine", func(o, _ *Process) { o.Boot, o.Machine = "before", "other" }, stranger, stranger},
		{"other boot, other namespaces", func(o, _ *Process) {
			o.Boot, o.PIDNamespace, o.TimeNamespace = "before", "4026532000", "4026532001"
		}, earlier, earlier},
		{"other boot, no namespaces on either side", func(o, r *Process) {
			o.Boot, o.PIDNamespace, r.PIDNamespace = "before", "", ""
		}, earlier, earlier},
		{"no boot in the record", func(o, _ *Process) { o.Boot = "" }, hidden, hidden},
		{"no boot here", func(_, r *Process) { r.Boot = "" }, hidden, hidden},
		{"no boot on either side", func(o, r *Process) { o.Boot, r.Boot = "", "" }, hidden, hidden},
		{"other PID namespace", func(o, _ *Process) { o.PIDNamespace = "4026532000" }, contained, contained},
		{"no PID namespace in the record", func(o, _ *Process) { o.PIDNamespace = "" }, hidden, hidden},
		{"no PID namespace here", func(_, r *Process) { r.PIDNamespace = "" }, hidden, hidden},
		{"no PID namespace on either side", func(o, r *Process) {
			o.PIDNamespace, r.PIDNamespace = "", ""
		}, hidden, hidden},
		{"no number", func(o, _ *Process) { o.PID = 0 }, hidden, hidden},
		// kill(2) would ask a whole process group, or everybody.
		{"a negative number", func(o, _ *Process) { o.PID = -1 }, hidden, hidden},
		{"a number that pid_t would cut off", func(o, _ *Process) { o.PID = math.MaxInt32; o.PID++ }, hidden, hidden},
		{"nothing in the record", func(o, _ *Process) { *o = Process{} }, hidden, hidden},
		{"nothing here", func(_, r *Process) { *r = Process{} }, hidden, hidden},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, r := owner, reader
			test.edit(&o, &r)
			noLook := func(pid int) sighting {
				t.Errorf("looked for process %d", pid)
				return sighting{absent: true}
			}
			if got := judge(o, r, true, noLook); got != test.local {
				t.Errorf("this machine only: got %v, want %v", got, test.local)
			}
			if got := judge(o, r, false, noLook); got != test.shared {
				t.Errorf("other machines too: got %v, want %v", got, test.shared)
			}
		})
	}
}

// TestJudgeIgnorance takes away every combination of knowledge: a living owner
// is then never found gone, and one whose number has passed on never alive.
func TestJudgeIgnorance(t *testing.T) {
	for missing := range 1 << 12 {
		o, r, living := owner, reader, alive
		replaced := sighting{start: "301", pidfdID: "51"}
		for i, field := range []*string{
			&o.Machine, &o.Boot, &o.PIDNamespace, &o.TimeNamespace, &o.Start, &o.PidfdID,
			&r.Machine, &r.Boot, &r.PIDNamespace, &r.TimeNamespace,
		} {
			if missing&(1<<i) != 0 {
				*field = ""
			}
		}
		if missing&(1<<10) != 0 {
			living.start, replaced.start = "", ""
		}
		if missing&(1<<11) != 0 {
			living.pidfdID, replaced.pidfdID = "", ""
		}
		what := fmt.Sprintf("record %+v, reader %+v", o, r)
		if got := judge(o, r, true, func(int) sighting { return living }); got.Liveness == Gone {
			t.Errorf("%s, seen %+v: a living owner is %v", what, living, got)
		}
		if got := judge(o, r, true, func(int) sighting { return replaced }); got.Liveness == Alive {
			t.Errorf("%s, seen %+v: a stranger is %v", what, replaced, got)
		}
	}
}
