package fdprobe

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"xlock/internal/flock"
	"xlock/internal/procfs"
	"xlock/internal/turnstile"
)

func listHolders(files []*os.File) ([]Holders, error) {
	survey, err := newSurvey(files)
	if err != nil {
		return nil, err
	}
	err = errors.Join(survey.addProcLocks(), survey.addFDInfo())
	return survey.answers(), err
}

func listQueue(files []*os.File) ([]Holders, error) {
	survey, err := newSurvey(files)
	if err != nil {
		return nil, err
	}
	err = survey.addProcLocks()
	return survey.answers(), err
}

// survey gathers what is found about several files.
type survey []*surveyed

type surveyed struct {
	Holders
	device procfs.Device // of the superblock
	info   os.FileInfo
	path   string // absolute
}

func newSurvey(files []*os.File) (survey, error) {
	var s survey
	for _, f := range files {
		info, err := f.Stat()
		if err != nil {
			return nil, err
		}
		s = append(s, &surveyed{device: superblock(f, info), info: info, path: realPath(f.Name())})
	}
	return s, nil
}

func (s survey) answers() []Holders {
	var answers []Holders
	for _, file := range s {
		slices.SortStableFunc(file.Ranges, func(a, b Range) int { // the kernel lists them in no order
			return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Len, b.Len))
		})
		answers = append(answers, file.Holders)
	}
	return answers
}

// addProcLocks reads /proc/locks, where a file goes by the device number of
// its superblock and its inode. The list takes several read(2) and is not of
// one moment: while others take and release locks a line can come twice.
func (s survey) addProcLocks() error {
	text, err := procfs.ReadFile("/proc/locks")
	if err != nil {
		return err
	}
	for _, lock := range procfs.ParseLocks(string(text)) {
		for _, file := range s {
			file.addLock(lock)
		}
	}
	return nil
}

func (s *surveyed) addLock(lock procfs.Lock) {
	_, inode := deviceAndInode(s.info)
	holder := Holder{lock.PID, ProcLocks}
	switch {
	case lock.Device != s.device || lock.Inode != inode:
	case lock.Class == "POSIX", lock.Class == "OFDLCK":
		s.addRange(lock, lock.PID, ProcLocks)
	case lock.Class != "FLOCK":
	case lock.Waiting: // several threads of one process can wait
		s.Waiters = append(s.Waiters, lock.PID)
	default:
		s.add(holder, lock)
	}
}

// addRange adds a lock of fcntl(2), or somebody who waits at the turnstile.
func (s *surveyed) addRange(lock procfs.Lock, pid int, source Source) {
	switch {
	case lock.Start >= turnstile.Place && lock.Len > 0: // ours
		if lock.Waiting && !lock.Write {
			s.Readers++
		}
	case !lock.Waiting:
		s.Ranges = append(s.Ranges, Range{
			PID: pid, Source: source, OFD: lock.Class == "OFDLCK", Shared: !lock.Write, Start: lock.Start, Len: lock.Len,
		})
	}
}

func (s *surveyed) add(holder Holder, lock procfs.Lock) {
	s.Shared = !lock.Write // there is one kind at a time
	if !slices.Contains(s.Holders.Holders, holder) {
		s.Holders.Holders = append(s.Holders.Holders, holder)
	}
}

// superblock finds the device number that /proc/locks uses for f's file: that
// of the mount, as on btrfs each subvolume has a st_dev of its own that no lock
// line shows. A mount above the root of a chroot(2) is not listed; there st_dev
// must do.
func superblock(f *os.File, info os.FileInfo) procfs.Device {
	text, _ := procfs.ReadFile(fmt.Sprintf("/proc/thread-self/fdinfo/%d", number(f)))
	mounts, _ := procfs.ReadFile("/proc/thread-self/mountinfo")
	id := procfs.ParseFDInfo(string(text)).MountID
	if mount, ok := procfs.ParseMountInfo(string(mounts), id); ok {
		return mount.Device
	}
	dev, _ := deviceAndInode(info)
	return procfs.Device{Major: unix.Major(dev), Minor: unix.Minor(dev)}
}

// addFDInfo looks through the descriptors of every process that can be seen.
func (s survey) addFDInfo() error {
	return eachProcess(func(pid int) {
		unseen := 0
		for _, dir := range tables(pid) {
			if !s.addTable(pid, dir) {
				unseen = 1
			}
		}
		for _, file := range s {
			file.Unseen += unseen
		}
	})
}

func eachProcess(look func(pid int)) error {
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, entry := range processes {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			look(pid)
		}
	}
	return nil
}

// addTable is false if the table may not be read.
func (s survey) addTable(pid int, dir string) bool {
	fds, err := list(filepath.Join(dir, "fd"))
	for _, fd := range fds {
		info, err := os.Stat(filepath.Join(dir, "fd", strconv.Itoa(fd)))
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		for _, file := range s {
			file.addDescriptor(pid, dir, fd, info)
		}
	}
	return !errors.Is(err, fs.ErrPermission)
}

func (s *surveyed) addDescriptor(pid int, dir string, fd int, info os.FileInfo) {
	holder := Holder{pid, FDInfo}
	switch {
	case os.SameFile(info, s.info):
		for _, lock := range locksOf(dir, fd) {
			switch lock.Class {
			case "FLOCK":
				s.add(holder, lock)
			case "OFDLCK": // of which /proc/locks does not say whose they are
				s.addRange(lock, pid, FDInfo)
			}
		}
	case isLost(dir, fd, info, s.path) && !slices.Contains(s.Lost, pid):
		s.Lost = append(s.Lost, pid)
	}
}

// isLost: the link of a descriptor keeps the last name of a deleted file
// (proc_pid_fd(5)).
func isLost(dir string, fd int, info os.FileInfo, path string) bool {
	if info.Sys().(*syscall.Stat_t).Nlink > 0 {
		return false
	}
	name, err := os.Readlink(filepath.Join(dir, "fd", strconv.Itoa(fd)))
	return err == nil && isLastName(name, path) && isLocked(dir, fd)
}

// realPath is the path as links of descriptors have it: absolute, and without
// symbolic links on the way.
func realPath(path string) string {
	dir, name := filepath.Split(path)
	if real, err := filepath.EvalSymlinks(filepath.Clean(dir)); err == nil {
		dir = real
	}
	path, _ = filepath.Abs(filepath.Join(dir, name))
	return path
}

// isLastName reports whether the link of a deleted file says that it had the path.
// One that a forced reclaim took away has been beside it since.
func isLastName(link, path string) bool {
	link, deleted := strings.CutSuffix(link, " (deleted)")
	digits, beside := strings.CutPrefix(link, filepath.Join(filepath.Dir(path), PrefixBeside(path)))
	return deleted && (link == path || beside && strings.Trim(digits, "0123456789") == "")
}

func listLost(path string) (lost []int) {
	path = realPath(path)
	_ = eachProcess(func(pid int) {
		for _, dir := range tables(pid) {
			fds, _ := list(filepath.Join(dir, "fd"))
			if slices.ContainsFunc(fds, func(fd int) bool {
				info, err := os.Stat(filepath.Join(dir, "fd", strconv.Itoa(fd)))
				return err == nil && isLost(dir, fd, info, path)
			}) {
				lost = append(lost, pid)
				return
			}
		}
	})
	return lost
}

func openIn(pid int, f *os.File) Answer {
	target, err := f.Stat()
	if err != nil {
		return Unknown
	}
	for _, dir := range tables(pid) {
		fds, err := list(filepath.Join(dir, "fd"))
		if err != nil {
			return Unknown
		}
		for _, fd := range fds {
			info, err := os.Stat(filepath.Join(dir, "fd", strconv.Itoa(fd)))
			if err == nil && os.SameFile(info, target) {
				return Open
			}
		}
	}
	return Closed
}

// tables lists the directories that may show a process's descriptors: its own,
// and those of its threads, for once the main thread has called
// pthread_exit(3) only theirs do.
func tables(pid int) []string {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	if fds, err := os.ReadDir(filepath.Join(dir, "fd")); err != nil || len(fds) > 0 {
		return []string{dir}
	}
	threads, _ := filepath.Glob(filepath.Join(dir, "task", "*"))
	return threads
}

// lockedDescriptor finds a descriptor under dir, a /proc/PID, that is open on
// the target and whose description holds a flock(2) lock. The descriptor
// numbered except is passed over.
func lockedDescriptor(dir string, target os.FileInfo, except int) (fd int, ok bool) {
	fds, err := list(filepath.Join(dir, "fd"))
	if err != nil {
		return 0, false
	}
	for _, fd := range fds {
		info, err := os.Stat(filepath.Join(dir, "fd", strconv.Itoa(fd)))
		if fd == except || err != nil || !os.SameFile(info, target) {
			continue
		}
		if isLocked(dir, fd) {
			return fd, true
		}
	}
	return 0, false
}

// locksOf are the locks that a descriptor's description holds.
func locksOf(dir string, fd int) []procfs.Lock {
	text, _ := procfs.ReadFile(filepath.Join(dir, "fdinfo", strconv.Itoa(fd)))
	return procfs.ParseFDInfo(string(text)).Locks
}

// isLocked reports whether a descriptor's description holds a flock(2) lock.
func isLocked(dir string, fd int) bool {
	return slices.ContainsFunc(locksOf(dir, fd), func(lock procfs.Lock) bool { return lock.Class == "FLOCK" })
}

func ownKind(f *os.File) (kind flock.Kind, ok bool) {
	for _, lock := range locksOf("/proc/thread-self", number(f)) {
		switch {
		case lock.Class != "FLOCK":
		case lock.Write:
			return flock.Exclusive, true
		default:
			return flock.Shared, true
		}
	}
	return 0, false
}

func lockIn(pid int, f *os.File) bool {
	target, err := f.Stat()
	if err != nil {
		return false
	}
	const none = -1
	_, ok := lockedDescriptor(filepath.Join("/proc", strconv.Itoa(pid)), target, none)
	return ok
}

func ownLock(f *os.File) (fd int, hold, ok bool) {
	target, err := f.Stat()
	if err != nil {
		return 0, false, false
	}
	fd, ok = lockedDescriptor("/proc/thread-self", target, number(f))
	return fd, ok && !isMarked(fd), ok
}
