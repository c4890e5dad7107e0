//go:build darwin || freebsd

package fdprobe

import (
	"errors"
	"os"

	"xlock/internal/flock"
)

// listHolders: neither system shows the holders of flock(2) locks to a process
// without privileges.
func listHolders(files []*os.File) ([]Holders, error) {
	return make([]Holders, len(files)), errors.ErrUnsupported
}

func listQueue(files []*os.File) ([]Holders, error) { return listHolders(files) }

func listLost(string) []int { return nil }

func openIn(int, *os.File) Answer { return Unknown }

func ownKind(*os.File) (flock.Kind, bool) { return 0, false }

func lockIn(int, *os.File) bool { return false }

func ownLock(*os.File) (fd int, hold, ok bool) { return 0, false, false }
