//go:build darwin || freebsd

package fdprobe

import (
	"errors"
	"os"
)

// listHolders: neither system shows the holders of flock(2) locks to a process
// without privileges.
func listHolders(*os.File) (Holders, error) { return Holders{}, errors.ErrUnsupported }

func listQueue(*os.File) (Holders, error) { return Holders{}, errors.ErrUnsupported }

func ownLock(*os.File) (fd int, hold, ok bool) { return 0, false, false }
