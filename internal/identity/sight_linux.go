package identity

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"xlock/internal/procfs"
)

func see(pid int) (s Sight) {
	if !exists(pid) {
		return Sight{Activity: Absent}
	}
	if !procIsOurs() {
		return s
	}
	dir := "/proc/" + strconv.Itoa(pid)
	s.addStat(dir)
	s.addStatus(dir)
	if text, err := procfs.ReadFile(dir + "/cmdline"); err == nil {
		s.CommandLine = procfs.CommandLine(string(text))
	}
	s.Directory, _ = os.Readlink(dir + "/cwd")
	return s
}

func (s *Sight) addStat(dir string) {
	stat, err := readStat(dir)
	if err != nil {
		return
	}
	s.Activity = activity(stat.State)
	if s.Activity == Zombie && !allThreadsEnded(dir) {
		s.Activity = Running
	}
	s.Started = startTime(stat.Start)
}

func (s *Sight) addStatus(dir string) {
	status, err := readStatus(dir)
	if err != nil {
		return
	}
	const effective = 1
	if len(status.UIDs) > effective {
		s.UID = &status.UIDs[effective]
	}
	if len(status.NSPIDs) > 1 {
		s.InnerPIDs = status.NSPIDs[1:]
		text, _ := procfs.ReadFile(dir + "/cgroup")
		s.ControlGroup = procfs.ControlGroup(string(text))
	}
}

// activity puts the states of proc_pid_stat(5) into words.
func activity(state byte) Activity {
	switch state {
	case 'T':
		return Stopped
	case 't':
		return Traced
	case 'Z', 'X', 'x':
		return Zombie
	}
	return Running
}

// startTime is when a process started by today's clock: the ticks of a start are
// 100 a second in all of /proc (USER_HZ, time(7)) and count from the boot, with
// the offset of our time namespace in both clocks. It is for people only, as it
// moves with the clock.
func startTime(ticks string) *time.Time {
	const perSecond = 100
	n, err := strconv.ParseInt(ticks, 10, 64)
	var now unix.Timespec
	if err != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return nil
	}
	age := time.Duration(now.Nano()) - time.Duration(n)*(time.Second/perSecond)
	started := time.Now().Add(-age).UTC().Truncate(time.Second)
	return &started
}

// blindSpots: the first PID namespace has a number that does not change
// (PROC_PID_INIT_INO, include/linux/proc_ns.h). A /proc that hides the init of
// the namespace, which lives, hides others too.
func blindSpots() Blind {
	const first = "4026531836"
	_, err := os.Lstat("/proc/1")
	return Blind{
		OuterNamespaces: namespaceID("pid") != first,
		Hidden:          !procIsOurs() || errors.Is(err, fs.ErrNotExist),
	}
}
