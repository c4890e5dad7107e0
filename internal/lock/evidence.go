package lock

import (
	"os"
	"os/user"
	"slices"
	"strconv"

	"xlock/internal/fdprobe"
	"xlock/internal/identity"
)

// Evidence are the processes behind a lock, as they can be seen now.
type Evidence struct {
	// Owner and Command are those that the record names; nil without.
	Owner, Command *Party
	// Seen are all processes that the kernel shows, by their numbers.
	Seen map[int]Seen
}

// Party is a process that a record names.
type Party struct {
	identity.Finding
	// Seen is empty unless the process is proven to be the recorded one.
	Seen
	// Descriptors: whether it has a descriptor open on the lock file.
	Descriptors Descriptors `json:"descriptors"`
}

// Descriptors says in a word what the descriptors of a process show.
type Descriptors string

const (
	DescriptorsOpen       Descriptors = "open"
	DescriptorsClosed     Descriptors = "closed"
	DescriptorsNotVisible Descriptors = "not visible"
)

// Seen is a process as it can be seen from here.
type Seen struct {
	PID  int    `json:"pid"`
	User string `json:"user,omitempty"`
	identity.Sight
}

func see(pid int) Seen {
	s := Seen{PID: pid, Sight: identity.See(pid)}
	if s.UID != nil {
		id := strconv.Itoa(*s.UID)
		if u, err := user.LookupId(id); err == nil {
			s.User = u.Username
		} else {
			s.User = id
		}
	}
	return s
}

// addEvidence looks at the processes behind the lock on f.
func (r *Report) addEvidence(f *os.File, s scene) {
	e := &Evidence{Seen: make(map[int]Seen)}
	pids := slices.Concat(r.Kernel.Waiters, r.Kernel.Lost)
	for _, h := range r.Kernel.Holders {
		pids = append(pids, h.PID)
	}
	for _, pid := range pids {
		if _, ok := e.Seen[pid]; !ok {
			e.Seen[pid] = see(pid)
		}
	}
	e.addRecord(r.Content.Record, f, s)
	r.Evidence = e
	r.warnOfProcesses()
}

// addRecord looks at the processes of a record that says held.
func (e *Evidence) addRecord(record *Record, f *os.File, s scene) {
	if record == nil || record.State != StateHeld {
		return
	}
	e.Owner = party(record.Owner, f, s)
	if command := record.commandProcess(); command != nil {
		e.Command = party(command, f, s)
	}
}

func party(p *identity.Process, f *os.File, s scene) *Party {
	party := &Party{
		Finding:     s.judge(*p, s.local),
		Seen:        Seen{PID: p.PID},
		Descriptors: DescriptorsNotVisible,
	}
	if party.Identity == identity.Matched || party.Identity == identity.ProcessZombie {
		party.Seen = see(p.PID)
	}
	if party.Liveness == identity.Alive {
		switch fdprobe.OpenIn(p.PID, f) {
		case fdprobe.Open:
			party.Descriptors = DescriptorsOpen
		case fdprobe.Closed:
			party.Descriptors = DescriptorsClosed
		}
	}
	if party.Liveness == identity.Gone {
		party.Descriptors = DescriptorsClosed
	}
	return party
}
