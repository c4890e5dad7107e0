//go:build darwin || freebsd

package identity

import (
	"errors"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"xlock/internal/eintr"
)

// onlyNamespace stands for PID and time namespaces on systems that have one
// numbering and one clock for all processes. Jails hide processes, but do not
// number them anew.
const onlyNamespace = "host"

// processInfo is what the kernel's process table tells about a number.
type processInfo struct {
	parent int
	start  int64 // microseconds, fixed for the process's life
	zombie bool
}

func self() Process {
	p := Process{
		Machine:       machineID(),
		Boot:          bootID(),
		PIDNamespace:  onlyNamespace,
		TimeNamespace: onlyNamespace,
		PID:           os.Getpid(),
	}
	p.Start = look(p.PID).start
	return p
}

// look takes existence from kill(2) and the rest from the process table.
// Thread numbers are not in the number space of processes here.
func look(pid int) sighting {
	if !exists(pid) {
		return sighting{absent: everyProcessVisible()}
	}
	info, err := readProcess(pid)
	if err != nil {
		return sighting{absent: !exists(pid) && everyProcessVisible()}
	}
	return sighting{ended: info.zombie, start: formatStart(info.start)}
}

func exists(pid int) bool {
	return !errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}

func formatStart(microseconds int64) string {
	return strconv.FormatInt(microseconds, 10)
}

// awaitEnd uses kqueue(2), whose NOTE_EXIT fires for processes of any parent.
func awaitEnd(p Process, limit time.Duration) {
	queue, err := unix.Kqueue()
	if err != nil {
		time.Sleep(limit)
		return
	}
	defer unix.Close(queue)
	unix.CloseOnExec(queue)
	watch := make([]unix.Kevent_t, 1)
	unix.SetKevent(&watch[0], p.PID, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	watch[0].Fflags = unix.NOTE_EXIT
	_, err = unix.Kevent(queue, watch, nil, nil)
	if self().Judge(p, true).Liveness == Gone {
		return // it ended before the watch stood
	}
	if err != nil {
		time.Sleep(limit)
		return
	}
	deadline := time.Now().Add(limit)
	_ = eintr.Retry(func() error {
		left := unix.NsecToTimespec(int64(max(time.Until(deadline), 0)))
		_, err := unix.Kevent(queue, nil, watch, &left)
		return err
	})
}

func ancestorsVisible() bool {
	_, err := readProcess(os.Getpid())
	return err == nil
}

func parentOf(pid int) (int, bool) {
	info, err := readProcess(pid)
	return info.parent, err == nil
}

func boot() (string, error) { return bootID(), nil }
