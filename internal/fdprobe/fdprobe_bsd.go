//go:build darwin || freebsd

package fdprobe

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const probeFlags = unix.O_RDONLY | unix.O_NOFOLLOW | NotAHold

const markFlags = NotAHold

// listings: FreeBSD's /dev/fd lists all descriptors only where fdescfs is
// mounted (fdescfs(5)) and 0, 1 and 2 otherwise, which the probe finds out.
func listings() []string { return []string{"/dev/fd"} }

func deviceAndInode(info os.FileInfo) (dev, ino uint64) {
	st := info.Sys().(*syscall.Stat_t)
	return uint64(st.Dev), st.Ino
}
