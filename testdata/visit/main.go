// Visit is the command that contenders run under a lock. It knows nothing of xlock:
// that nobody else is inside it learns from a lock of fcntl(2) on another file, which
// the kernel ends with the process.
//
//	visit WORD
//
// Where WORD is "shared", others who say so may be inside too. It prints its number, the
// inode of the lock file, as far as the kernel shows that (0), and whether anybody
// was inside, under that very file ("overlap") or under another ("beside"); and ends
// when its input does. All files are in the working directory.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"
)

func main() {
	shared := os.Args[1] == "shared"
	inode := lockedInode(os.Getpid())
	if inode == "0" { // it was not passed on
		inode = lockedInode(os.Getppid())
	}
	finding := "alone"
	if !enter("witness", shared) {
		finding = "beside"
	}
	if inode != "0" && !enter("witness."+inode, shared) {
		finding = "overlap"
	}
	fmt.Println(os.Getpid(), inode, finding)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// lockedInode is that of the file in the working directory that the process has open
// and locked by flock(2).
func lockedInode(pid int) string {
	flock := regexp.MustCompile(`(?m)^lock:\s.* FLOCK .*:(\d+) 0 EOF$`)
	here, _ := os.Getwd()
	list, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fdinfo/*", pid))
	for _, path := range list {
		text, _ := os.ReadFile(path)
		target, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, filepath.Base(path)))
		found := flock.FindSubmatch(text)
		if found != nil && filepath.Dir(target) == here {
			return string(found[1])
		}
	}
	return "0"
}

// enter locks a file until this process ends, or reports that somebody else has.
func enter(path string, shared bool) bool {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err == nil {
		how := unix.Flock_t{Type: unix.F_WRLCK}
		if shared {
			how.Type = unix.F_RDLCK
		}
		err = unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &how)
	}
	return err == nil
}
