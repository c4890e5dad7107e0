package main

import (
	"os"
	"slices"
	"time"

	"xlock/internal/lock"
)

// wait is what can be said about a wait for a lock.
type wait struct {
	lock.Holder
	changed bool // the holder is another than was last said
	waited  time.Duration
	ahead   int // in the kernel's queue; -1: this process is not seen there
}

// When to look who holds the lock, and when to say it. A look costs next to
// nothing, but a thousand may be waiting. Nobody reads a log that repeats itself,
// but CI systems end a job that says nothing for ten minutes.
const (
	noticeable   = time.Second // until then nobody wonders
	longestLook  = 30 * time.Second
	secondNotice = 10 * time.Second
	longestQuiet = 5 * time.Minute
	secondLook   = 100 * time.Millisecond
)

// notices keep whoever waits informed: for whom, for how long, and how many are
// ahead.
type notices struct {
	glance func() (*lock.Report, error)
	reader bool // who waits wants to share the lock
	screen screen
	events *events

	end, ended chan struct{}
	holders    chan lock.Holder

	started time.Time
	next    time.Duration // how long the wait is when the next notice is due
	doubt   bool          // the last look found nobody
	looked  bool
	// The holders that were last told on the screen, and to the program.
	said, sent lock.Holder
}

// screen is where notices appear.
type screen interface {
	// live shows the text in place of the last one, if there is a place that
	// can be written again.
	live(text string) bool
	// add adds a line.
	add(text string)
	// clear takes away what live has shown.
	clear()
}

func newNotices(path string, s screen, e *events) *notices {
	return &notices{
		glance: func() (*lock.Report, error) { return lock.Glance(path) },
		screen: s,
		events: e,
		next:   noticeable,
	}
}

// waitFor is told each time the wait begins to be for somebody else.
func (n *notices) waitFor(h lock.Holder) {
	if n.holders != nil {
		select { // the last one counts
		case <-n.holders:
		default:
		}
		n.holders <- h
		return
	}
	n.started = time.Now()
	n.holders, n.end, n.ended = make(chan lock.Holder, 1), make(chan struct{}), make(chan struct{})
	go n.run(wait{Holder: h, ahead: -1})
}

// stop ends the notices. When it returns no more will come, unless one is being
// written to somebody who does not read: nobody waits for that.
func (n *notices) stop() {
	if n.end == nil {
		return
	}
	close(n.end)
	select {
	case <-n.ended:
	case <-time.After(secondLook):
	}
}

func (n *notices) run(w wait) {
	defer close(n.ended)
	defer n.screen.clear()
	n.events.waiting(w)
	n.said, n.sent = w.Holder, w.Holder
	timer := time.NewTimer(noticeable)
	for {
		select {
		case w.Holder = <-n.holders:
			if n.looked {
				timer.Reset(0)
			}
		case <-timer.C:
			timer.Reset(n.look(&w))
		case <-n.end:
			return
		}
	}
}

// sameHold reports whether two holders are one, as far as their records tell.
func sameHold(a, b lock.Holder) bool {
	recordless := []lock.Reason{lock.ReasonKernelLock, lock.ReasonShared, lock.ReasonWriterWaits}
	generation := func(h lock.Holder) uint64 {
		if h.Record == nil || slices.Contains(recordless, h.Reason) {
			return 0
		}
		return h.Record.Generation
	}
	return a.Reason == b.Reason && generation(a) == generation(b)
}

// look looks who holds the lock now, says so if there is reason to, and returns
// when to look again. In the kernel's queue the lock passes from one to another
// without a word to those behind.
func (n *notices) look(w *wait) (pause time.Duration) {
	report, err := n.glance()
	if err != nil {
		return noticeable // the wait itself will tell
	}
	h := report.Holder()
	if n.reader {
		h.ExplainToReader()
	}
	if h.State == lock.Free || h.State == lock.Abandoned {
		if !n.doubt { // between two holders, perhaps
			n.doubt = true
			return secondLook
		}
		h.State, h.Reason = lock.Held, lock.ReasonKernelLock
	}
	n.doubt = false
	h.Ancestor = w.Ancestor && sameHold(w.Holder, h)
	w.Holder = h
	w.waited = time.Since(n.started).Round(time.Second)
	w.ahead = ahead(report.Kernel.Waiters, os.Getpid())
	return n.tell(*w)
}

// tell says what there is to say, and returns when to look again.
func (n *notices) tell(w wait) (pause time.Duration) {
	if !n.looked || !sameHold(n.sent, w.Holder) {
		n.events.waiting(w)
		n.sent = w.Holder
	}
	// What was before the first notice is nobody's concern.
	w.changed = n.looked && !sameHold(n.said, w.Holder)
	n.looked = true
	if n.screen.live(waiting(w)) {
		n.said = w.Holder
		return noticeable
	}
	if w.changed || w.waited >= n.next {
		n.screen.add(waiting(w))
		n.said = w.Holder
		n.next = min(max(secondNotice, 2*w.waited), w.waited+longestQuiet)
	}
	return min(max(w.waited/10, noticeable), longestLook)
}

// ahead is how many wait before pid, or -1 if it is not among the waiters. A
// list that changes while it is read can have a process twice.
func ahead(waiters []int, pid int) int {
	i := slices.Index(waiters, pid)
	if i < 0 {
		return -1
	}
	before := slices.Sorted(slices.Values(waiters[:i]))
	return len(slices.Compact(before))
}
