package identity

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// The places of struct kinfo_proc in <sys/user.h> that are used here, the same
// on amd64 and arm64. The kernel writes the size of the structure into its
// first field and keeps the layout for as long as the size is this one
// (KINFO_PROC_SIZE).
const (
	kinfoSize   = 1088
	kinfoParent = 76  // ki_ppid, int32
	kinfoStart  = 336 // ki_start, struct timeval of two int64
	kinfoState  = 388 // ki_stat, one byte
	stateZombie = 5   // SZOMB of <sys/proc.h>
)

func machineID() string { return sysctlString("kern.hostuuid") }

// bootID is the host's UUID with the microsecond after boot at which init
// started. kern.boottime will not do: the kernel moves it when the clock is
// set. In a jail init is not visible, and the boot stays unknown.
func bootID() string {
	host := machineID()
	start, err := readProcess(1)
	if err != nil || host == "" {
		return ""
	}
	return host + "/" + formatStart(start.start)
}

func sysctlString(name string) string {
	value, err := unix.Sysctl(name)
	if err != nil {
		return ""
	}
	return value
}

// everyProcessVisible reports whether ESRCH from kill(2) proves that a process
// does not exist. In a jail, and where the administrator hides the processes
// of others (security.bsd.see_other_uids and its kin, security(7)), it does
// not.
func everyProcessVisible() bool {
	if jailed, err := unix.SysctlUint32("security.jail.jailed"); err != nil || jailed != 0 {
		return false
	}
	for _, name := range []string{"uids", "gids"} {
		if seen, err := unix.SysctlUint32("security.bsd.see_other_" + name); err != nil || seen == 0 {
			return false
		}
	}
	return true
}

var errKinfo = errors.New("unknown layout of struct kinfo_proc")

func readProcess(pid int) (processInfo, error) {
	raw, err := unix.SysctlRaw("kern.proc.pid", pid)
	if err != nil {
		return processInfo{}, err
	}
	if len(raw) < kinfoSize || binary.NativeEndian.Uint32(raw) != kinfoSize {
		return processInfo{}, errKinfo
	}
	started, err := sinceBoot(raw[kinfoStart:])
	if err != nil {
		return processInfo{}, err
	}
	return processInfo{
		parent: int(int32(binary.NativeEndian.Uint32(raw[kinfoParent:]))),
		start:  started,
		zombie: raw[kinfoState] == stateZombie,
	}, nil
}

// sinceBoot takes the moment of boot off again, which the kernel adds to
// ki_start when it is read: the sum moves when the clock is set, the time
// since boot does not.
func sinceBoot(start []byte) (microseconds int64, err error) {
	boot, err := unix.SysctlRaw("kern.boottime")
	if err != nil {
		return 0, err
	}
	if len(boot) < 16 {
		return 0, errKinfo
	}
	return timeval(start) - timeval(boot), nil
}

// timeval reads a struct timeval of two int64, as microseconds.
func timeval(raw []byte) int64 {
	seconds := int64(binary.NativeEndian.Uint64(raw))
	return seconds*1_000_000 + int64(binary.NativeEndian.Uint64(raw[8:]))
}
