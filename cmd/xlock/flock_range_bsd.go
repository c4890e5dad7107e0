//go:build darwin || freebsd

package main

import "golang.org/x/sys/unix"

// callRange fails: not all of these systems have such locks.
func (l *flockLock) callRange() error { return unix.EOPNOTSUPP }
