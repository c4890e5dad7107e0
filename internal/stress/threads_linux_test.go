package stress_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"xlock/internal/lock"
)

// TestThreads lets goroutines of this one process contend for a few locks, in all
// ways that a program has to ask for one. What keeps them apart is flock(2) alone,
// of which the race detector knows nothing: an overlap is seen by a word that who
// comes in and who goes out exchange.
func TestThreads(t *testing.T) {
	const contenders, locks = 8, 3
	s := &threads{soak: newSoak(t, 10_000)}
	for i := range locks {
		s.rooms = append(s.rooms, &room{path: filepath.Join(t.TempDir(), fmt.Sprint("lock", i))})
	}
	var all sync.WaitGroup
	for i := range contenders {
		all.Go(func() { s.contend(rand.New(rand.NewPCG(s.seed, uint64(i)))) })
	}
	all.Wait()
	t.Log(s)
	for _, r := range s.rooms {
		r.check(t)
	}
	if s.overlaps.Load() > 0 || s.taken.Load() == 0 || s.shared.Load() == 0 || s.refused.Load() == 0 || s.cancelled.Load() == 0 {
		t.Error("there are overlaps, or something was never tried")
	}
}

type threads struct {
	*soak
	rooms []*room

	taken, shared, refused, cancelled, overlaps atomic.Int64
}

func (s *threads) String() string {
	return fmt.Sprintf("%d acquisitions, of these %d shared; %d refused, %d cancelled; %d overlaps; seed %d",
		s.taken.Load(), s.shared.Load(), s.refused.Load(), s.cancelled.Load(), s.overlaps.Load(), s.seed)
}

// room is what a lock keeps others out of.
type room struct {
	path    string
	inside  atomic.Int64 // readers, or -1 for a writer
	last    uint64       // the last writer's generation, if it was recorded
	visits  int64        // of writers, who alone may count
	entered atomic.Int64
}

func (s *threads) contend(random *rand.Rand) {
	for n := s.taken.Load(); s.goesOn(n); n = s.taken.Load() {
		s.attempt(s.rooms[random.IntN(len(s.rooms))], s.ask(random))
	}
}

// request is a way to ask for a lock.
type request struct {
	lock.Options
	ctx  context.Context
	stay int // how often it lets others run
}

// ask draws a request. A thread can wait for another one of its process if it says
// that it may be cancelled, or that it does as flock(1) does.
func (s *threads) ask(random *rand.Rand) request {
	r := request{ctx: s.Context(), stay: random.IntN(3)}
	r.Mode, r.Label = lock.Process, "stress"
	if random.IntN(2) == 0 {
		r.Mode = lock.Fork // which has no record before its command
	}
	switch random.IntN(4) {
	case 0:
		r.NoWait = true
	case 1:
		r.AsFlock = true
	case 2:
		r.Limited = true
	case 3:
		ctx, cancel := context.WithCancel(r.ctx)
		r.ctx, r.Limited = ctx, true
		r.Waiting = func(lock.Holder) { cancel() }
		if random.IntN(4) == 0 {
			cancel()
		}
	}
	r.Shared = random.IntN(3) == 0
	return r
}

// attempt takes the lock and gives it back, or is told why not.
func (s *threads) attempt(at *room, r request) {
	l, err := lock.Acquire(r.ctx, at.path, r.Options)
	var held *lock.HeldError
	var deadlock *lock.DeadlockError
	switch {
	case err == nil:
		s.visit(at, l, r)
	case errors.As(err, &held) && held.TimedOut && r.Waiting != nil:
		s.cancelled.Add(1)
	case errors.As(err, &held) && r.NoWait, errors.As(err, &deadlock) && !r.AsFlock:
		s.refused.Add(1)
	default:
		s.Errorf("Acquire with %+v: %v", r.Options, err)
	}
}

func (s *threads) visit(at *room, l *lock.Lock, r request) {
	if s.taken.Add(1)%100_000 == 0 {
		s.Log(s)
	}
	if r.Shared {
		s.shared.Add(1)
		s.read(at, r)
	} else {
		s.write(at, l, r)
	}
	if err := l.Release(nil); err != nil {
		s.Errorf("Release with %+v: %v", r.Options, err)
	}
}

func (s *threads) read(at *room, r request) {
	if at.inside.Add(1) <= 0 {
		s.overlap(at, r)
	}
	r.linger()
	if at.inside.Add(-1) < 0 {
		s.overlap(at, r)
	}
}

// write touches what is no atomic: the race detector is told of the order of the
// visits by the word inside.
func (s *threads) write(at *room, l *lock.Lock, r request) {
	if !at.inside.CompareAndSwap(0, -1) {
		s.overlap(at, r)
		return
	}
	at.entered.Add(1)
	at.visits++
	if l.Generation() != at.last+1 {
		s.Errorf("generation %d comes after %d", l.Generation(), at.last)
	}
	if r.Mode == lock.Process {
		at.last++
	}
	r.linger()
	if !at.inside.CompareAndSwap(-1, 0) {
		s.overlap(at, r)
	}
}

func (r request) linger() {
	for range r.stay {
		runtime.Gosched()
	}
}

func (s *threads) overlap(at *room, r request) {
	s.overlaps.Add(1)
	s.Errorf("%s: an overlap, with %+v", at.path, r.Options)
}

// check wants the lock to be free in the end.
func (r *room) check(t *testing.T) {
	l, err := lock.Acquire(t.Context(), r.path, lock.Options{Mode: lock.Process, NoWait: true})
	if err != nil {
		t.Fatal(err)
	}
	if l.Generation() != r.last+1 || r.visits != r.entered.Load() {
		t.Errorf("generation %d comes after %d; %d of %d visits were counted", l.Generation(), r.last, r.visits, r.entered.Load())
	}
	if err := l.Release(nil); err != nil {
		t.Error(err)
	}
}
