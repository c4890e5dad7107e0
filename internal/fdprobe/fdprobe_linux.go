package fdprobe

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// probeFlags: O_PATH opens without permission to read and does not count as
// an open of the file for anybody but the table.
const probeFlags = unix.O_PATH | unix.O_NOFOLLOW

const markFlags = unix.O_PATH | NotAHold

// listings: /dev/fd may be missing in a small chroot. /proc/self is the table
// of the main thread, and empty once that has called pthread_exit(3) while
// others run on (measured on Linux 6.18); /proc/thread-self is the caller's.
func listings() []string {
	return []string{"/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"}
}

func deviceAndInode(info os.FileInfo) (dev, ino uint64) {
	st := info.Sys().(*syscall.Stat_t)
	return uint64(st.Dev), st.Ino
}
