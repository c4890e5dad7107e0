package fdprobe

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"xlock/internal/procfs"
)

func listHolders(f *os.File) (Holders, error) {
	var h Holders
	info, err := f.Stat()
	if err != nil {
		return h, err
	}
	return h, errors.Join(h.addProcLocks(f, info), h.addFDInfo(info))
}

func listQueue(f *os.File) (Holders, error) {
	var h Holders
	info, err := f.Stat()
	if err != nil {
		return h, err
	}
	return h, h.addProcLocks(f, info)
}

// addProcLocks reads /proc/locks, where a file goes by the device number of
// its superblock and its inode. The list takes several read(2) and is not of
// one moment: while others take and release locks a line can come twice.
func (h *Holders) addProcLocks(f *os.File, info os.FileInfo) error {
	device := superblock(f, info)
	text, err := os.ReadFile("/proc/locks")
	if err != nil {
		return err
	}
	_, inode := deviceAndInode(info)
	for _, lock := range procfs.ParseLocks(string(text)) {
		switch {
		case lock.Class != "FLOCK" || lock.Device != device || lock.Inode != inode:
		case lock.Waiting: // several threads of one process can wait
			h.Waiters = append(h.Waiters, lock.PID)
		case !slices.Contains(h.Holders, Holder{lock.PID, ProcLocks}):
			h.Holders = append(h.Holders, Holder{lock.PID, ProcLocks})
		}
	}
	return nil
}

// superblock finds the device number that /proc/locks uses for f's file: that
// of the mount, as on btrfs each subvolume has a st_dev of its own that no lock
// line shows. A mount above the root of a chroot(2) is not listed; there st_dev
// must do.
func superblock(f *os.File, info os.FileInfo) procfs.Device {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/thread-self/fdinfo/%d", f.Fd()))
	mounts, _ := os.ReadFile("/proc/thread-self/mountinfo")
	id := procfs.ParseFDInfo(string(text)).MountID
	if device, ok := procfs.ParseMountInfo(string(mounts), id); ok {
		return device
	}
	dev, _ := deviceAndInode(info)
	return procfs.Device{Major: unix.Major(dev), Minor: unix.Minor(dev)}
}

// addFDInfo looks through the descriptors of every process that can be seen.
func (h *Holders) addFDInfo(target os.FileInfo) error {
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, entry := range processes {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		for _, dir := range tables(pid) {
			if _, ok := lockedDescriptor(dir, target, -1); ok {
				h.Holders = append(h.Holders, Holder{pid, FDInfo})
				break
			}
		}
	}
	return nil
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
		number := strconv.Itoa(fd)
		info, err := os.Stat(filepath.Join(dir, "fd", number))
		if fd == except || err != nil || !os.SameFile(info, target) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "fdinfo", number))
		if err != nil {
			continue
		}
		for _, lock := range procfs.ParseFDInfo(string(text)).Locks {
			if lock.Class == "FLOCK" {
				return fd, true
			}
		}
	}
	return 0, false
}

func ownLock(f *os.File) (fd int, hold, ok bool) {
	target, err := f.Stat()
	if err != nil {
		return 0, false, false
	}
	fd, ok = lockedDescriptor("/proc/thread-self", target, int(f.Fd()))
	return fd, ok && !isMarked(fd), ok
}
