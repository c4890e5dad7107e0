// Package eintr repeats system calls that a signal interrupted.
//
// The Go runtime installs its handlers with SA_RESTART (signal(7)), yet some
// calls fail with EINTR all the same: poll(2) always, flock(2) and the calls
// on files of a network or FUSE file system whenever their driver says so.
package eintr

import (
	"errors"
	"syscall"
)

// Retry calls f until it returns anything other than EINTR and returns that.
func Retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
