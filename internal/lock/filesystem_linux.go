package lock

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"xlock/internal/procfs"
)

// isLocal reports whether f is on a file system that belongs to this machine
// alone and keeps its inode numbers: only the known ones do. FUSE is not among
// them, for anything can be behind it, nor the shared folders of virtual
// machines, nor FAT and its kin, which number a file anew each time they forget
// it. statfs(2) lists the numbers.
func isLocal(f *os.File) bool {
	const (
		xfsMagic      = 0x58465342
		zfsMagic      = 0x2fc12fc1
		bcachefsMagic = 0xca451a4e
	)
	var st unix.Statfs_t
	if unix.Fstatfs(int(f.Fd()), &st) != nil {
		return false
	}
	return slices.Contains([]int64{
		unix.EXT4_SUPER_MAGIC, // ext2 and ext3 too
		unix.TMPFS_MAGIC,
		unix.RAMFS_MAGIC,
		unix.OVERLAYFS_SUPER_MAGIC,
		unix.BTRFS_SUPER_MAGIC,
		unix.F2FS_SUPER_MAGIC,
		xfsMagic,
		zfsMagic,
		bcachefsMagic,
	}, int64(uint32(st.Type))) // a signed 32-bit number on some machines
}

// fileSystemType is the name of f's file system, or its number (statfs(2)) where
// the mount is not to be seen.
func fileSystemType(f *os.File) string {
	text, _ := procfs.ReadFile(fmt.Sprintf("/proc/thread-self/fdinfo/%d", f.Fd()))
	mounts, _ := procfs.ReadFile("/proc/thread-self/mountinfo")
	if mount, ok := procfs.ParseMountInfo(string(mounts), procfs.ParseFDInfo(string(text)).MountID); ok && mount.Type != "" {
		return mount.Type
	}
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return "unknown"
	}
	return fmt.Sprintf("%#x", uint32(st.Type))
}

// protectedRegular is the level of fs.protected_regular, 0 where it is not known.
func protectedRegular() int {
	text, _ := procfs.ReadFile("/proc/sys/fs/protected_regular")
	level, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	return level
}

// noAccessTime leaves the time of the last access alone (open(2)).
const noAccessTime = unix.O_NOATIME
