package stress_test

import (
	"math/rand/v2"
	"slices"
)

// form is a command line of a contender.
type form struct {
	args   []string
	busy   int  // the status of one that is refused
	may    bool // it may be refused, as it does not wait, or not for long
	shared bool
	// silent: nobody is left to tell that the lock was lost, or it does as flock(1)
	// does.
	silent bool
}

const (
	runBusy   = 75
	flockBusy = 1
)

func xlockForms() []form {
	run := func(args ...string) []string {
		return slices.Concat([]string{"xlock", "run", "-q"}, args, []string{"lock"})
	}
	face := func(args ...string) []string {
		return slices.Concat([]string{"xlock", "flock"}, args, []string{"lock"})
	}
	return []form{
		{args: run(), busy: runBusy},
		{args: run("-F"), busy: runBusy, silent: true},
		{args: run("-s"), busy: runBusy, shared: true},
		{args: run("-s", "-F"), busy: runBusy, shared: true, silent: true},
		{args: run("-w", "1h"), busy: runBusy},
		{args: run("-w", "0.02"), busy: runBusy, may: true},
		{args: run("-n"), busy: runBusy, may: true},
		{args: run("-s", "-n"), busy: runBusy, may: true, shared: true},
		{args: face(), busy: flockBusy, silent: true},
		{args: face("-s"), busy: flockBusy, shared: true, silent: true},
		{args: face("-w", "3600"), busy: flockBusy, silent: true},
		{args: face("-n"), busy: flockBusy, may: true, silent: true},
		{args: face("-F"), busy: flockBusy, silent: true},
	}
}

// closing forms keep the descriptor back from the command. Killed, they leave
// nothing to other programs but the record, which these do not read.
func closingForms() []form {
	return []form{
		{args: []string{"xlock", "run", "-q", "-o", "lock"}, busy: runBusy},
		{args: []string{"xlock", "run", "-q", "-o", "-w", "1h", "lock"}, busy: runBusy},
		{args: []string{"xlock", "run", "-q", "-o", "-n", "lock"}, busy: runBusy, may: true},
		{args: []string{"xlock", "flock", "-o", "lock"}, busy: flockBusy, silent: true},
	}
}

// systemForms are those of the system's flock(1).
func systemForms() []form {
	return []form{
		{args: []string{"flock", "lock"}, busy: flockBusy, silent: true},
		{args: []string{"flock", "-s", "lock"}, busy: flockBusy, shared: true, silent: true},
		{args: []string{"flock", "-n", "lock"}, busy: flockBusy, may: true, silent: true},
	}
}

// fate is what is done to a contender. The times are counted in events.
type fate struct {
	stay int // from its coming in until its command is told to end
	// awaits: if it has lost the lock it stays until those who had waited for its file
	// have come in under another.
	awaits bool

	killAt, stopAt int // from its start, or -1
	goOn           int // from when it is stopped
	// When it is in: what is stopped and killed before its command is told to end.
	stopInside, killWrapper, killCommand, killGroup bool
	killAfter                                       bool // just after it was told
}

// drawFate lets most live.
func drawFate(random *rand.Rand) fate {
	f := fate{killAt: -1, stopAt: -1, goOn: random.IntN(30), awaits: random.IntN(2) == 0}
	if random.IntN(3) == 0 {
		f.stay = random.IntN(12)
	}
	switch random.IntN(20) {
	case 0, 1:
		f.killAt = random.IntN(40)
	case 2:
		f.stopAt = random.IntN(40)
	case 3:
		f.stopInside = true
	case 4, 5:
		f.killWrapper = true
	case 6:
		f.killCommand = true
	case 7:
		f.killGroup = true
	case 8:
		f.killAfter = true
	case 9: // one that was stopped is killed
		f.stopAt, f.killAt = random.IntN(20), 20+random.IntN(20)
	}
	return f
}
