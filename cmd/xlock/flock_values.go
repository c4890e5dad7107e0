package main

import (
	"errors"
	"math"
	"time"

	"golang.org/x/sys/unix"
)

// The values of flock(1)'s options. Errors are *[flockError].

// flockWait is a limit on waiting, of -w.
type flockWait struct {
	set      bool
	invalid  bool // timer_settime(2) refuses it
	duration time.Duration
}

const flockBadFD = "bad file descriptor"

func parseFlockFD(text string) (int, error) {
	n, err := parseFlockNumber(text, flockBadFD)
	if err == nil && n < 0 {
		err = flockValueError(flockBadFD, text, nil)
	}
	return n, err
}

func parseFlockStatus(text string) (int, error) {
	n, err := parseFlockNumber(text, "invalid exit code")
	if err == nil && (n < 0 || n > math.MaxUint8) {
		err = flockUsageError("exit code out of range (expected 0 to 255)")
	}
	return n, err
}

func parseFlockNumber(text, what string) (int, error) {
	n, err := parseC32(text)
	if err != nil {
		return 0, flockValueError(what, text, err)
	}
	return n, nil
}

func parseFlockWait(text string) (flockWait, error) {
	seconds, err := parseCFloat(text)
	if err != nil {
		return flockWait{}, flockValueError("invalid timeout value", text, err)
	}
	whole, fraction := math.Modf(seconds)
	microseconds := math.Trunc(fraction * 1e6)
	wait := flockWait{set: true, duration: math.MaxInt64}
	switch {
	case !(whole >= 0 && microseconds >= 0 && whole < math.MaxInt64):
		wait.invalid = true
	case whole < math.MaxInt64/float64(time.Second)-1:
		wait.duration = time.Duration(whole)*time.Second + time.Duration(microseconds)*time.Microsecond
	}
	return wait, nil
}

// parseFlockSize says why in any case, as flock(1) does for these two.
func parseFlockSize(text, what string) (int64, error) {
	n, err := parseCSize(text)
	switch {
	case err == nil:
		return int64(n), nil
	case errors.Is(err, unix.ERANGE):
		return 0, flockValueError(what, text, unix.ERANGE)
	}
	return 0, flockUsageError(flockBadValue(what, text) + ": " + cError(unix.EINVAL))
}
