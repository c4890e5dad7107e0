package stress_test

import (
	"context"
	"math/rand/v2"
	"os"
	"os/signal"
	"strconv"
	"testing"
	"time"
)

// soak says how long a test goes on: until it has counted so many, or with
// XLOCK_SOAK=DURATION for that long, or until it is interrupted. XLOCK_SEED repeats
// what a run has drawn.
type soak struct {
	*testing.T
	seed  uint64
	count int64
	limit context.Context
}

func newSoak(t *testing.T, count int64) *soak {
	t.Helper()
	s := &soak{T: t, seed: rand.Uint64N(1 << 32), count: count}
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt)
	t.Cleanup(stop)
	s.limit = ctx
	if text := os.Getenv("XLOCK_SOAK"); text != "" {
		long, err := time.ParseDuration(text)
		s.check(err)
		limit, cancel := context.WithTimeout(ctx, long)
		t.Cleanup(cancel)
		s.limit, s.count = limit, 1<<62
	}
	if text := os.Getenv("XLOCK_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		s.check(err)
		s.seed = seed
	}
	t.Log("seed ", s.seed)
	return s
}

func (s *soak) goesOn(done int64) bool {
	return done < s.count && s.limit.Err() == nil && !s.Failed()
}

func (s *soak) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}
