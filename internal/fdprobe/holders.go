package fdprobe

import (
	"os"
	"path/filepath"

	"xlock/internal/flock"
)

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

// Range is a lock of fcntl(2): of a process, or of an open file description (OFD).
type Range struct {
	PID        int // -1 if the kernel does not say whose it is
	Source     Source
	OFD        bool
	Shared     bool
	Start, Len int64 // Len 0: to the end of the file
}

// Holders is what the kernel shows about the flock(2) lock on a file.
type Holders struct {
	Holders []Holder
	Shared  bool // the lock that they hold
	// Readers is how many wait at the turnstile; the kernel does not say who.
	Readers int
	// Ranges are locks of fcntl(2) on the file. They have nothing to do with the
	// flock(2) lock; a program that uses them may take the file for its own.
	Ranges  []Range
	Waiters []int // pids, in the order in which they will be granted
	// Unseen is how many processes did not let us look at their descriptors.
	Unseen int
	// Lost are processes with a lock on a deleted file that had the path
	// before: it was deleted or replaced under them.
	Lost []int
}

// ListHolders asks the kernel who holds and who waits for the flock(2) lock on
// each file: one answer per file, all from one look through the processes. It is
// evidence for a person. That nobody is listed does not prove that the lock is
// free: processes of other PID namespaces and of other users can be invisible.
// [errors.ErrUnsupported] where the kernel does not tell.
func ListHolders(files []*os.File) ([]Holders, error) { return listHolders(files) }

// ListQueue is the part of [ListHolders] that comes from /proc/locks alone: all
// waiters, and those holders that are listed there.
func ListQueue(files []*os.File) ([]Holders, error) { return listQueue(files) }

// PrefixBeside is how the name of a file begins that a forced reclaim makes beside
// the lock file at path, before digits. No name is longer than 255 bytes (NAME_MAX).
func PrefixBeside(path string) string {
	const most = 200
	name := filepath.Base(path)
	return "." + name[:min(len(name), most)] + "."
}

// ListLost lists the processes with a lock on a deleted file that had this path.
func ListLost(path string) []int { return listLost(path) }

// OpenIn says whether a descriptor of another process is open on f's file,
// locked or not, and Unknown if its descriptors may not be read.
func OpenIn(pid int, f *os.File) Answer { return openIn(pid, f) }

// OwnKind says which flock(2) lock f's own description is seen to hold.
func OwnKind(f *os.File) (kind flock.Kind, ok bool) { return ownKind(f) }

// LockIn reports whether a descriptor of another process is seen to share a
// flock(2) lock on f's file.
func LockIn(pid int, f *os.File) bool { return lockIn(pid, f) }

// OwnLock returns a descriptor of this process, f itself aside, whose open file
// description holds the flock(2) lock on f's file, and whether that is a hold:
// one that is marked only looks, and is about to give the lock back or to become
// a hold. Where that cannot be seen, ok is false.
func OwnLock(f *os.File) (fd int, hold, ok bool) { return ownLock(f) }
