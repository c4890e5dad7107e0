package identity

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"xlock/internal/eintr"
	"xlock/internal/procfs"
)

const bootID = "/proc/sys/kernel/random/boot_id"

func boot() (string, error) {
	text, err := procfs.ReadFile(bootID)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return "", nil
	}
	return strings.TrimSpace(string(text)), err
}

func self() Process {
	p := Process{
		Machine:       machineID(),
		Boot:          firstLine(bootID),
		PIDNamespace:  namespaceID("pid"),
		TimeNamespace: namespaceID("time"),
		PID:           os.Getpid(),
	}
	// /proc/self is this process in any procfs mount that shows it at all, also
	// in that of an outer PID namespace, where /proc/<getpid()> is somebody
	// else. Only the start is taken from it: the number in it is the mount's.
	if stat, err := readStat("/proc/self"); err == nil {
		p.Start = stat.Start
	}
	if fd, err := unix.PidfdOpen(p.PID, 0); err == nil {
		p.PidfdID = pidfdID(fd)
		unix.Close(fd)
	}
	return p
}

// machineID is empty for a file that is absent, empty or marked
// "uninitialized" (machine-id(5)): images ship all three.
func machineID() string {
	id := firstLine("/etc/machine-id")
	if id == "uninitialized" {
		return ""
	}
	return id
}

func firstLine(path string) string {
	text, err := procfs.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSpace(line)
}

// namespaceID asks the main thread's entry first, which is empty once that thread has
// called pthread_exit(3) (Linux 6.18). An entry of /proc/PID/task that was looked up
// makes whoever waits for this process wait longer, as two ends of threads clear it away
// at the same time (shrink_dcache_parent in fs/dcache.c).
func namespaceID(kind string) string {
	link, err := os.Readlink("/proc/self/ns/" + kind)
	if err != nil {
		link, err = os.Readlink("/proc/thread-self/ns/" + kind)
	}
	if err != nil {
		return ""
	}
	id, err := procfs.NamespaceID(link)
	if err != nil {
		return ""
	}
	return id
}

// look gathers what can be proven about a number, from three sources that fail
// differently. kill(2) knows every process of the PID namespace, whoever owns
// it and whatever /proc hides, but answers for threads and zombies too.
// pidfd_open(2) tells a thread apart and gives the pidfd id, but is missing
// before Linux 5.3 and in some sandboxes. /proc has the start, but may be
// absent, hidden (hidepid, proc(5)) or another namespace's.
func look(pid int) sighting {
	if !exists(pid) {
		return sighting{absent: true}
	}
	var s sighting
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case err == nil:
		s.pidfdID = pidfdID(fd)
		s.ended = ended(fd, 0)
		unix.Close(fd)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EINVAL):
		// No thread group leader has this number: ENOENT as of Linux 6.18
		// (measured), EINVAL on older kernels (pidfd_open(2)). A sandbox that
		// refuses the call altogether refuses it for ourselves too.
		s.thread = pidfdWorks()
	}
	if procIsOurs() {
		s.addProc("/proc/"+strconv.Itoa(pid), err == nil)
	}
	// The process may have ended between the first question and the last, and
	// then /proc shows nothing, which must not be read as hidden.
	s.absent = !exists(pid)
	return s
}

// exists reports whether a process or thread of this PID namespace has the
// number. Any errno but ESRCH, EPERM above all, says that there is one or that
// we were not allowed to ask.
func exists(pid int) bool {
	return !errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}

func pidfdWorks() bool {
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
}

// addProc adds what dir, a /proc/PID, tells. isProcess is whether that is no thread
// for sure.
func (s *sighting) addProc(dir string, isProcess bool) {
	stat, err := readStat(dir)
	if err != nil {
		return
	}
	s.start = stat.Start
	if !isProcess {
		status, err := readStatus(dir)
		s.thread = s.thread || err == nil && status.TGID != 0 && status.TGID != stat.PID
	}
	if stat.Ended() && allThreadsEnded(dir) {
		s.ended = true
	}
}

// allThreadsEnded tells a dead process from one whose main thread alone has
// called pthread_exit(3): both show a leader in state Z. A list that cannot be
// read, or that has changed while it was read, proves nothing: false.
func allThreadsEnded(dir string) bool {
	tasks, err := os.ReadDir(filepath.Join(dir, "task"))
	if err != nil || len(tasks) == 0 {
		return false
	}
	for _, task := range tasks {
		stat, err := readStat(filepath.Join(dir, "task", task.Name()))
		if err != nil || !stat.Ended() {
			return false
		}
	}
	return true
}

// procIsOurs reports whether /proc numbers processes as this PID namespace
// does. In a namespace that has not mounted its own, /proc/1 is the init of
// the outer one. NSpid lists this process's numbers from the mount's namespace
// inwards, so exactly one number means that both are the same namespace; a
// comparison of /proc/self with getpid(2) alone could be equal by chance.
func procIsOurs() bool {
	status, err := readStatus("/proc/self")
	return err == nil && len(status.NSPIDs) == 1 && status.NSPIDs[0] == os.Getpid()
}

func readStat(dir string) (procfs.Stat, error) {
	text, err := procfs.ReadFile(dir + "/stat")
	if err != nil {
		return procfs.Stat{}, err
	}
	return procfs.ParseStat(string(text))
}

func readStatus(dir string) (procfs.Status, error) {
	text, err := procfs.ReadFile(dir + "/status")
	if err != nil {
		return procfs.Status{}, err
	}
	return procfs.ParseStatus(string(text))
}

// pidfdID is empty before Linux 6.9, where all pidfds share one anonymous
// inode.
func pidfdID(fd int) string {
	var fs unix.Statfs_t
	var st unix.Stat_t
	if unix.Fstatfs(fd, &fs) != nil || fs.Type != unix.PID_FS_MAGIC || unix.Fstat(fd, &st) != nil {
		return ""
	}
	return strconv.FormatUint(st.Ino, 10)
}

// ended waits up to limit until every thread of the pidfd's process has ended:
// that is when poll(2) reports it readable (pidfd_open(2)), zombie or not.
func ended(pidfd int, limit time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}
	deadline := time.Now().Add(limit)
	err := eintr.Retry(func() error {
		left := max(time.Until(deadline), 0)
		_, err := unix.Poll(fds, int((left+time.Millisecond-1)/time.Millisecond))
		return err
	})
	return err == nil && fds[0].Revents&unix.POLLIN != 0
}

func awaitEnd(p Process, limit time.Duration) {
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil { // it has ended, or pidfds are not to be had
		if self().Judge(p, true).Liveness != Gone {
			time.Sleep(limit)
		}
		return
	}
	defer unix.Close(fd)
	// The number may have passed to another process since p was judged.
	if id := pidfdID(fd); p.PidfdID != "" && id != "" && id != p.PidfdID {
		return
	}
	ended(fd, limit)
}

func ancestorsVisible() bool { return procIsOurs() }

func parentOf(pid int) (int, bool) {
	if !procIsOurs() {
		return 0, false
	}
	stat, err := readStat("/proc/" + strconv.Itoa(pid))
	return stat.PPID, err == nil
}
