package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// fewestDescriptors is what a run opens at one time, besides its three: two of the
// runtime's poller, its cgroup's limit, the lock file, and the two pipes of the
// command's gate with a file of /proc.
const fewestDescriptors = 9

// checkDescriptors fails while that can still be said. The Go runtime cannot:
// when it finds no descriptor for its poller, which it makes with the first
// timer, it prints the stacks of all goroutines and dies.
func checkDescriptors() error {
	for range fewestDescriptors {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("xlock needs %d free descriptors: %w; raise the limit with ulimit -n", fewestDescriptors, err)
		}
		defer unix.Close(fd)
	}
	return nil
}
