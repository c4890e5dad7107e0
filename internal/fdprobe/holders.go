package fdprobe

import "os"

// Source names where the kernel shows a holder.
type Source string

const (
	// ProcLocks is /proc/locks. It names the process that took the lock, which
	// may have ended while others hold it by inheritance, and leaves out what
	// belongs to other PID namespaces.
	ProcLocks Source = "proc-locks"
	// FDInfo is a "lock:" line of /proc/PID/fdinfo/FD. It names a process in
	// which the open file description with the lock is open now.
	FDInfo Source = "fdinfo"
)

// Holder is a process that the kernel shows as a holder of the flock(2) lock.
type Holder struct {
	PID    int    `json:"pid"`
	Source Source `json:"source"`
}

// Holders is what the kernel shows about the flock(2) lock on a file.
type Holders struct {
	Holders []Holder
	Waiters []int // pids, in the order in which they will be granted
}

// ListHolders asks the kernel who holds and who waits for the flock(2) lock on
// f's file. It is evidence for a person. That nobody is listed does not prove
// that the lock is free: processes of other PID namespaces and of other users
// can be invisible. [errors.ErrUnsupported] where the kernel does not tell.
func ListHolders(f *os.File) (Holders, error) { return listHolders(f) }

// ListQueue is the part of [ListHolders] that comes from /proc/locks alone: all
// waiters, and those holders that are listed there.
func ListQueue(f *os.File) (Holders, error) { return listQueue(f) }

// OwnLock returns a descriptor of this process, f itself aside, whose open file
// description holds the flock(2) lock on f's file, and whether that is a hold:
// one that is marked only looks, and is about to give the lock back or to become
// a hold. Where that cannot be seen, ok is false.
func OwnLock(f *os.File) (fd int, hold, ok bool) { return ownLock(f) }
