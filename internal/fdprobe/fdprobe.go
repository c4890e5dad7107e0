// Package fdprobe says which descriptors are open on a file.
//
// It is the eye of xlock's first rule: a lock this process holds is a
// descriptor it holds. The descriptor table belongs to the process, so all
// threads, and all copies of this code in one process, see the same holds; and
// close-on-exec descriptors do not survive execve(2), so a new image of the
// process sees none of what its predecessor held. Nothing is remembered here:
// the truth is read from the table each time.
//
// # Marks
//
// Some descriptors on a lock file are not holds: those of a probe, of a reader
// of the record, and of somebody who only tries to take the lock, in whatever
// thread or copy of the code. They are told apart by what every observer of the
// table can see: a probe's descriptor is O_PATH (Linux), and every other one of
// ours carries O_NONBLOCK, which means nothing for a regular file, from
// open(2) on until [MarkHold] takes it off. Any other descriptor on the file,
// a stranger's too, counts as a hold.
package fdprobe

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"xlock/internal/blocking"
)

// Answer is what a probe found.
type Answer int

const (
	// Unknown: the table could not be listed, or the list is not proven.
	// It never means that nobody holds the file.
	Unknown Answer = iota
	// Closed: proven that no descriptor of this process that can be a hold is
	// open on the file.
	Closed
	// Open: some descriptor is.
	Open
)

func (a Answer) String() string {
	return [...]string{"unknown", "closed", "open"}[a]
}

// NotAHold is the flag for open(2) that marks a descriptor as no hold.
const NotAHold = unix.O_NONBLOCK

// MarkHold makes f count as a hold from now on, in the eyes of every probe of
// this process. Call it before the record names this process, so that at no
// moment a probe can find a record without its descriptor.
func MarkHold(f *os.File) error {
	return changeFlags(f, func(flags int) int { return flags &^ NotAHold })
}

// MarkNotAHold makes f count as no hold until [MarkHold], as [NotAHold] does from
// open(2) on.
func MarkNotAHold(f *os.File) error {
	return changeFlags(f, func(flags int) int { return flags | NotAHold })
}

// number is f's descriptor. [os.File.Fd] would change the flags of one that does not
// block.
func number(f *os.File) (fd int) {
	_ = blocking.Now(f, func(n int) error { fd = n; return nil })
	return fd
}

func changeFlags(f *os.File, change func(flags int) int) error {
	return os.NewSyscallError("fcntl", blocking.Now(f, func(fd int) error {
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err == nil {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, change(flags))
		}
		return err
	}))
}

// Probe says whether this process has a hold on f's file. The answer is about
// one moment: other threads open and close descriptors meanwhile. It is exact
// for every hold that stands before the call begins and ends after it returns.
//
// The probe proves its own listing: it opens the file afresh and believes a
// list only if the fresh descriptor is in it. A system that lists a fixed few
// descriptors, or the table of another thread group, is found out by that. The
// error says why an answer is Unknown.
func Probe(f *os.File) (Answer, error) {
	return probe(f, listings())
}

// errUnproven: the list does not show the descriptor that the probe opened.
var errUnproven = errors.New("the list of descriptors does not show a descriptor that was just opened")

// firstProof: a fixed list shows 0, 1 and 2, which a program that closed its
// standard input can get for a file that it opens.
const firstProof = 3

func probe(f *os.File, dirs []string) (Answer, error) {
	fresh, err := os.OpenFile(f.Name(), probeFlags, 0)
	if err != nil {
		return Unknown, err
	}
	defer fresh.Close()
	target, err := fresh.Stat()
	if err != nil {
		return Unknown, err
	}
	if same, err := f.Stat(); err != nil || !os.SameFile(same, target) {
		return Unknown, fmt.Errorf("%s: the path names another file by now", f.Name())
	}
	proof, err := unix.FcntlInt(fresh.Fd(), unix.F_DUPFD_CLOEXEC, firstProof)
	if err != nil {
		return Unknown, os.NewSyscallError("fcntl", err)
	}
	defer unix.Close(proof)
	why := errUnproven
	for _, dir := range dirs {
		list, err := list(dir)
		if err != nil {
			why = err
			continue
		}
		if answer, ok := judge(list, proof, target); ok {
			return answer, nil
		}
	}
	return Unknown, why
}

// list reads the numbers of open descriptors from a directory like /dev/fd.
func list(dir string) ([]int, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var fds []int
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil {
			fds = append(fds, fd)
		}
	}
	return fds, nil
}

// judge answers from a list, provided that the list shows fresh. Each
// descriptor is asked itself, by its number: one that was closed or replaced
// since the list was read answers for what it is now, which is right, as only a
// hold that stands throughout must be found.
func judge(fds []int, fresh int, target os.FileInfo) (answer Answer, proven bool) {
	answer = Closed
	for _, fd := range fds {
		switch {
		case fd == fresh:
			proven = true
		case isHold(fd, target):
			answer = Open
		}
	}
	return answer, proven
}

// isHold looks at a duplicate, which stays what it is while other threads close
// the number and use it again.
func isHold(fd int, target os.FileInfo) bool {
	if !isOn(fd, target) {
		return false
	}
	pinned, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return !errors.Is(err, unix.EBADF) && !isMarked(fd)
	}
	defer unix.Close(pinned)
	return isOn(pinned, target) && !isMarked(pinned)
}

func isOn(fd int, target os.FileInfo) bool {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return false
	}
	dev, ino := deviceAndInode(target)
	return uint64(st.Dev) == dev && uint64(st.Ino) == ino
}

func isMarked(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && flags&markFlags != 0
}
