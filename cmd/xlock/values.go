package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"xlock/internal/lock"
)

// limit is a limit on waiting: seconds, with a fraction if need be, or a
// duration with units.
type limit struct {
	set      bool
	duration time.Duration
}

var errDuration = errors.New("want seconds like 1.5, or a duration like 90s or 1m30s, not negative")

func (l *limit) Set(text string) error {
	d, err := parseDuration(text)
	if err != nil {
		return err
	}
	l.set, l.duration = true, d
	return nil
}

func (l *limit) String() string { return "" }
func (l *limit) Type() string   { return "DURATION" }

func parseDuration(text string) (time.Duration, error) {
	seconds, err := strconv.ParseFloat(text, 64)
	if err == nil {
		nanoseconds := seconds * float64(time.Second)
		if !(nanoseconds >= 0 && nanoseconds < math.MaxInt64) {
			return 0, errDuration
		}
		return time.Duration(nanoseconds), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, errDuration
	}
	return d, nil
}

// exitCode is a status that a process can exit with.
type exitCode int

func (c *exitCode) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return errors.New("want a status from 0 to 255")
	}
	*c = exitCode(n)
	return nil
}

func (c *exitCode) String() string { return strconv.Itoa(int(*c)) }
func (c *exitCode) Type() string   { return "N" }

// statusFD is the descriptor of --status-fd.
type statusFD struct {
	set    bool
	number int
}

func (f *statusFD) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		return errors.New("want the number of a descriptor")
	}
	f.set, f.number = true, int(n)
	return nil
}

func (f *statusFD) String() string { return "" }
func (f *statusFD) Type() string   { return "N" }

// stateName is the argument of --is.
type stateName string

func (s *stateName) Set(text string) error {
	states := []lock.State{lock.Free, lock.Held, lock.Abandoned, lock.UnknownState}
	if !slices.Contains(states, lock.State(text)) {
		return fmt.Errorf("want one of %v", states)
	}
	*s = stateName(text)
	return nil
}

func (s *stateName) String() string { return string(*s) }
func (s *stateName) Type() string   { return "STATE" }
