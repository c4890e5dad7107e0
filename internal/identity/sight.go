package identity

import "time"

// Activity is what a process is doing, in the words that a person would use.
type Activity string

const (
	// Running, or waiting for something, as most do mostly.
	Running Activity = "running"
	// Stopped by a signal: SIGCONT lets it go on.
	Stopped Activity = "stopped"
	// Traced: stopped by a debugger.
	Traced Activity = "traced"
	// Zombie: it has ended, and its parent has not looked.
	Zombie Activity = "zombie"
	// Absent: nobody has the number any more.
	Absent Activity = "absent"
)

// Sight is what can be seen of a process now, for a person: it proves nothing
// about who the process is. What cannot be seen stays empty.
type Sight struct {
	Activity    Activity   `json:"activity,omitempty"`
	UID         *int       `json:"uid,omitempty"` // the effective one
	Started     *time.Time `json:"started,omitempty"`
	CommandLine []string   `json:"command_line,omitempty"`
	Directory   string     `json:"directory,omitempty"`
	// InnerPIDs are its numbers in the PID namespaces within ours, if it lives
	// in one of them, and ControlGroup is then the name of its container's
	// control group (cgroups(7)).
	InnerPIDs    []int  `json:"inner_pids,omitempty"`
	ControlGroup string `json:"control_group,omitempty"`
}

// See looks at the process of this PID namespace that has the number. The number
// can pass to another process at any time, so judge first and see then.
func See(pid int) Sight { return see(pid) }

// Blind says what this process cannot see of others, whoever they are.
type Blind struct {
	// OuterNamespaces: there are PID namespaces beside and above ours.
	OuterNamespaces bool
	// Hidden: /proc is missing, or another namespace's, or hides the processes
	// of other users (hidepid, proc(5)).
	Hidden bool
}

// BlindSpots finds out what cannot be seen from here.
func BlindSpots() Blind { return blindSpots() }
