//go:build darwin || freebsd

package lock

import (
	"os"

	"golang.org/x/sys/unix"
)

// isLocal reports what the mount says of itself (statfs(2), MNT_LOCAL).
func isLocal(f *os.File) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(int(f.Fd()), &st) == nil && st.Flags&unix.MNT_LOCAL != 0
}

func fileSystemType(f *os.File) string {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return "unknown"
	}
	return unix.ByteSliceToString(st.Fstypename[:])
}

func protectedRegular() int { return 0 }

const noAccessTime = 0
