package main

import (
	"os"

	"xlock/internal/lock"
)

// What flock(1) leaves unsaid, for people: on a terminal. Elsewhere standard error
// stays empty, as scripts count on that.

// notices tell who waits at a terminal what xlock run would tell.
func (l *flockLock) notices() *notices {
	path := l.file.Name()
	n := newNotices(path, &errorOutput{file: os.Stderr, message: flockMessage}, nil)
	n.reader = l.opts.shared
	n.glance = func() (*lock.Report, error) {
		if report, ok := l.glance(path); ok {
			return report, nil
		}
		return &lock.Report{Path: path, Judgement: unnamedHolder(path).Judgement}, nil
	}
	if !l.opts.noWait && isTerminal(os.Stderr) {
		n.waitFor(unnamedHolder(path))
	}
	return n
}

// busy names the lock's holder, as far as that can be done.
func (l *flockLock) busy(timedOut bool) string {
	path := l.file.Name()
	report, ok := l.glance(path)
	if !ok {
		return busyBy(&lock.HeldError{Holder: unnamedHolder(path), TimedOut: timedOut})
	}
	h := report.Holder()
	if h.State == lock.Free || h.State == lock.Abandoned { // between two holders, perhaps
		h.State, h.Reason = lock.Held, lock.ReasonKernelLock
	}
	return busy(&lock.HeldError{Holder: h, TimedOut: timedOut})
}

// glance fails to see anything of what is no lock file, and of locks of fcntl(2).
func (l *flockLock) glance(path string) (report *lock.Report, ok bool) {
	if l.opts.ranges {
		return nil, false
	}
	report, err := lock.Glance(path)
	return report, err == nil
}

// unnamedHolder is somebody of whom nothing is known but that they hold the lock.
func unnamedHolder(path string) lock.Holder {
	return lock.Holder{Path: path, Judgement: lock.Judgement{State: lock.Held}, Descriptor: -1}
}
