//go:build darwin || freebsd

package supervise_test

// roleInterrupted is for systems with a gate.
func roleInterrupted() int { return 1 }
