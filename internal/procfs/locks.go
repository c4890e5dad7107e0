package procfs

import (
	"math"
	"strconv"
	"strings"
)

// Device is a device number in its two halves.
type Device struct{ Major, Minor uint32 }

// Lock is one line of /proc/locks, or one "lock:" line of
// /proc/PID/fdinfo/FD, which has the same form (proc_locks(5)).
type Lock struct {
	Class   string // FLOCK, POSIX, OFDLCK, LEASE ...
	Write   bool   // exclusive
	Waiting bool   // a "->" line: asks for the lock above it

	// PID is the process that took the lock, which may have ended long ago
	// while others hold it by inheritance; -1 for OFD locks.
	PID int

	// Device is that of the superblock, which differs from st_dev of stat(2)
	// on btrfs and on some overlays; [ParseMountInfo] gives it.
	Device Device
	Inode  uint64

	// Start and Len are the bytes that are locked; Len 0 reaches to the end of the
	// file, however it grows.
	Start, Len int64
}

// ParseLocks parses the text of /proc/locks. Lines that it does not
// understand are left out. The kernel lists the waiters of a lock below it, in
// the order in which they will be granted.
func ParseLocks(text string) []Lock {
	var locks []Lock
	for line := range strings.Lines(text) {
		if l, ok := parseLock(line); ok {
			locks = append(locks, l)
		}
	}
	return locks
}

// parseLock parses a line like
//
//	1: FLOCK  ADVISORY  WRITE 4568 fe:00:9986053 0 EOF
//	1: -> FLOCK  ADVISORY  WRITE 4570 fe:00:9986053 0 EOF
func parseLock(line string) (Lock, bool) {
	fields := strings.Fields(line)
	if len(fields) == 0 || !strings.HasSuffix(fields[0], ":") {
		return Lock{}, false
	}
	fields = fields[1:]
	waiting := len(fields) > 0 && fields[0] == "->"
	if waiting {
		fields = fields[1:]
	}
	if len(fields) < 5 {
		return Lock{}, false
	}
	pid, err := strconv.Atoi(fields[3])
	place := strings.Split(fields[4], ":")
	if err != nil || len(place) != 3 {
		return Lock{}, false
	}
	major, errMajor := strconv.ParseUint(place[0], 16, 32)
	minor, errMinor := strconv.ParseUint(place[1], 16, 32)
	inode, errInode := strconv.ParseUint(place[2], 10, 64)
	if errMajor != nil || errMinor != nil || errInode != nil {
		return Lock{}, false
	}
	start, length := parseRange(fields[5:])
	return Lock{
		Class:   fields[0],
		Write:   fields[2] == "WRITE",
		Waiting: waiting,
		PID:     pid,
		Device:  Device{uint32(major), uint32(minor)},
		Inode:   inode,
		Start:   start,
		Len:     length,
	}, true
}

// parseRange takes the first and the last byte. What it does not understand is the
// whole file.
func parseRange(fields []string) (start, length int64) {
	if len(fields) < 2 {
		return 0, 0
	}
	start, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil || start < 0 {
		return 0, 0
	}
	last, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil || last < start || last-start == math.MaxInt64 {
		return start, 0
	}
	return start, last - start + 1
}

// FDInfo is what /proc/PID/fdinfo/FD tells about a descriptor.
type FDInfo struct {
	MountID int    // -1 when the text has none
	Locks   []Lock // the locks of this open file description
}

// ParseFDInfo parses the text of /proc/PID/fdinfo/FD.
func ParseFDInfo(text string) FDInfo {
	info := FDInfo{MountID: -1}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		switch key {
		case "mnt_id":
			if id, err := strconv.Atoi(strings.TrimSpace(value)); err == nil {
				info.MountID = id
			}
		case "lock":
			if l, ok := parseLock(value); ok {
				info.Locks = append(info.Locks, l)
			}
		}
	}
	return info
}

// Mount is what a line of /proc/PID/mountinfo tells (proc_pid_mountinfo(5)).
type Mount struct {
	Device Device // of the superblock
	Type   string // ext4, nfs4, fuse.sshfs ...
}

// ParseMountInfo finds a mount in the text of /proc/self/mountinfo.
func ParseMountInfo(text string, mountID int) (Mount, bool) {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[0] != strconv.Itoa(mountID) {
			continue
		}
		first, second, _ := strings.Cut(fields[2], ":")
		major, errMajor := strconv.ParseUint(first, 10, 32)
		minor, errMinor := strconv.ParseUint(second, 10, 32)
		mount := Mount{Device: Device{uint32(major), uint32(minor)}}
		// The type stands behind a separator, as the optional fields before it
		// are any number.
		_, rest, _ := strings.Cut(line, " - ")
		if words := strings.Fields(rest); len(words) > 0 {
			mount.Type = words[0]
		}
		return mount, errMajor == nil && errMinor == nil
	}
	return Mount{}, false
}
