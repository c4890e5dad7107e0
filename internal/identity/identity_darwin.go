package identity

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// stateZombie is SZOMB of <sys/proc.h>.
const stateZombie = 5

// machineID asks gethostuuid(2). A zero timeout does not wait for the
// directory service that may still be starting.
func machineID() string {
	var id [16]byte
	var wait unix.Timespec
	//lint:ignore SA1019 the wrapper in libSystem would need cgo
	_, _, errno := unix.Syscall(unix.SYS_GETHOSTUUID,
		uintptr(unsafe.Pointer(&id)), uintptr(unsafe.Pointer(&wait)), 0)
	if errno != 0 || id == [16]byte{} {
		return ""
	}
	return fmt.Sprintf("%x", id)
}

func bootID() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}

// everyProcessVisible: kill(2) answers ESRCH for a number that no process has,
// and EPERM for one that we may not signal.
func everyProcessVisible() bool { return true }

func readProcess(pid int) (processInfo, error) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return processInfo{}, err
	}
	started := info.Proc.P_starttime // the wall clock of then, never adjusted
	return processInfo{
		parent: int(info.Eproc.Ppid),
		start:  started.Nano() / 1000,
		zombie: info.Proc.P_stat == stateZombie,
	}, nil
}
