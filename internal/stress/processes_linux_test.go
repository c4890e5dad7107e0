package stress_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"xlock/internal/testenv"
)

// TestProcesses lets processes contend for a lock while some are killed and
// stopped, and reclaim and inspect run beside them. No two may be inside at once,
// all must get in or be refused, and in the end the lock is free.
func TestProcesses(t *testing.T) {
	testenv.Need(t, "flock")
	all := slices.Concat(xlockForms(), closingForms())
	t.Run("xlock", func(t *testing.T) { newArena(t, 1500, all).fight() })
	t.Run("beside flock", func(t *testing.T) {
		newArena(t, 1000, slices.Concat(xlockForms(), systemForms())).fight()
	})
	t.Run("replaced", func(t *testing.T) {
		a := newArena(t, 1500, all)
		a.chaos = &chaos{arena: a, random: rand.New(rand.NewPCG(a.seed, 0))}
		a.fight()
	})
}

// arena is a directory with a lock, and those who contend for it. Only the goroutine
// of fight touches it: whatever happens comes to it as a function. Nothing is done
// by the clock. The looker's events come in any case, so that what is to be done
// some events later is done.
type arena struct {
	*soak
	dir   string
	xlock string
	visit string
	forms []form
	chaos *chaos // or nil

	events  chan func()
	now     int // how many events there were
	moved   int // when somebody last came in or ended
	agenda  []appointment
	begun   int
	members []*contender // that have not ended
	counts  counts
}

type appointment struct {
	at int
	do func()
}

type counts struct {
	acquired, refused, kills, stops, looks, reclaimed      int
	changes, lost, reported, unreportable, beside, overlap int
}

func (a *arena) String() string {
	c := a.counts
	text := fmt.Sprintf("%d processes, %d acquisitions, %d refused; %d kills, %d stops; %d looks, %d reclaims; %d overlaps",
		a.begun, c.acquired, c.refused, c.kills, c.stops, c.looks, c.reclaimed, c.overlap)
	if a.chaos != nil {
		text += fmt.Sprintf("; %d changes of the file, %d losses, all reported, %d reports in all, %d losses of those who were killed or cannot tell; %d entries beside a holder of another file",
			c.changes, c.lost, c.reported, c.unreportable, c.beside)
	}
	return fmt.Sprintf("%s; seed %d", text, a.seed)
}

func newArena(t *testing.T, count int64, forms []form) *arena {
	t.Parallel()
	bin := t.TempDir()
	a := &arena{
		soak: newSoak(t, count), dir: t.TempDir(), forms: forms, events: make(chan func()),
		xlock: filepath.Join(bin, "xlock"), visit: filepath.Join(bin, "visit"),
	}
	for path, source := range map[string]string{a.xlock: "./cmd/xlock", a.visit: "./testdata/visit"} {
		build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", path, source)
		build.Dir = testenv.Root()
		out, err := build.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", build, err, out)
		}
	}
	return a
}

// fight goes on until all that were begun have ended and nothing is left to do.
func (a *arena) fight() {
	const crowd = 12
	if a.chaos != nil {
		a.chaos.await()
	}
	over, looked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(looked)
		a.look(over)
	}()
	for {
		for len(a.members) < crowd && a.goesOn(int64(a.begun)) {
			a.begin()
		}
		if len(a.members) == 0 && len(a.agenda) == 0 {
			break
		}
		(<-a.events)()
		a.now++
		a.keepAppointments()
		a.watch()
	}
	close(over)
	a.drain(looked)
	a.Log(a)
	a.wantFree()
}

// drain takes what the looker still has to say.
func (a *arena) drain(looked <-chan struct{}) {
	for {
		select {
		case do := <-a.events:
			do()
		case <-looked:
			return
		}
	}
}

func (a *arena) after(events int, do func()) {
	a.agenda = append(a.agenda, appointment{a.now + events, do})
}

func (a *arena) keepAppointments() {
	due := a.agenda
	a.agenda = nil
	for _, p := range due {
		if p.at > a.now {
			a.agenda = append(a.agenda, p)
			continue
		}
		p.do()
	}
}

// patience is how many events make some seconds in any case: a waiter looks every
// second whether its file was replaced.
const patience = 2000

// watch finds those who are stuck: all that was due was done, and the looker
// has looked very often since anybody came in or ended.
func (a *arena) watch() {
	if a.now-a.moved < patience {
		return
	}
	a.moved = a.now
	report, _ := a.command(a.xlock, "inspect", "lock").CombinedOutput()
	a.Errorf("after %d events nobody of %d has moved for %d events\n%s", a.now, len(a.members), patience, report)
	for _, c := range a.members {
		a.Logf("%s: inside %v, told to end %v, file %d, %+v", c, c.inside, c.told, c.inode, c.fate)
		c.tellToEnd()
		c.kill()
	}
}

func (a *arena) command(path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(a.Context(), path, args...)
	cmd.Dir = a.dir
	return cmd
}

// look runs what looks at the lock, and reclaims it, until it is over.
func (a *arena) look(over <-chan struct{}) {
	looks := [][]string{{"reclaim", "lock"}, {"inspect", "lock"}, {"reclaim", "--dry-run", "lock"}, {"inspect", "--json", "lock"}}
	for i := 0; ; i++ {
		select {
		case <-over:
			return
		default:
		}
		args := looks[i%len(looks)]
		out, err := a.command(a.xlock, args...).CombinedOutput()
		a.events <- func() { a.looked(args, string(out), err) }
	}
}

func (a *arena) looked(args []string, out string, err error) {
	a.counts.looks++
	allowed := []int{0}
	if args[0] == "reclaim" {
		allowed = append(allowed, runBusy)
	}
	if a.chaos != nil {
		allowed = append(allowed, noLockFile)
	}
	if !slices.Contains(allowed, statusOf(err)) || strings.Contains(out, "unknown") {
		a.Errorf("%v: %v\n%s", args, err, out)
	}
	if strings.HasPrefix(out, "reclaimed ") {
		a.counts.reclaimed++
	}
}

// wantFree wants the lock to be had.
func (a *arena) wantFree() {
	for _, args := range [][]string{{"run", "-n", "lock", "true"}, {"inspect", "--is", "free", "lock"}} {
		if out, err := a.command(a.xlock, args...).CombinedOutput(); err != nil {
			a.Errorf("in the end %v: %v\n%s", args, err, out)
		}
	}
	c := a.counts
	if c.acquired == 0 || c.refused == 0 || c.kills == 0 || c.stops == 0 || a.chaos != nil && c.reported == 0 {
		a.Error("something was never tried")
	}
}

// inode is that of the file that has the lock's path; 0 if there is none.
func (a *arena) inode() uint64 {
	info, err := os.Lstat(filepath.Join(a.dir, "lock"))
	if err != nil {
		return 0
	}
	return inodeOf(info)
}
