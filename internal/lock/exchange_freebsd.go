package lock

import (
	"errors"
	"os"
)

// exchange: FreeBSD has no call that does it in one step.
func exchange(dir int, a, b string) error { return errors.ErrUnsupported }

// lockOutBreakers cannot: the locks of fcntl(2) exclude those of flock(2) here.
func lockOutBreakers(*os.File) error { return nil }
