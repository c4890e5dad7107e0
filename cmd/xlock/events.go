package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"xlock/internal/lock"
	"xlock/internal/supervise"
)

// events tells a program, on the descriptor of --status-fd, what becomes of a
// run: one JSON object per line. A nil *events tells nobody. docs/status-fd.md
// has the fields, which are part of xlock's interface.
type events struct {
	file   *os.File
	path   string
	failed bool // and the user was told
}

// patience is how long xlock waits for a reader of a full pipe.
const patience = 5 * time.Second

// eventJSON is one line.
type eventJSON struct {
	Event      string      `json:"event"`
	Time       time.Time   `json:"time"`
	Lock       string      `json:"lock"`
	Generation uint64      `json:"generation,omitempty"`
	Shared     bool        `json:"shared,omitempty"`
	PID        int         `json:"pid,omitempty"`
	Exit       *int        `json:"exit,omitempty"`
	Signal     string      `json:"signal,omitempty"`
	Status     *int        `json:"status,omitempty"`
	Message    string      `json:"message,omitempty"`
	TimedOut   bool        `json:"timed_out,omitempty"`
	Lost       bool        `json:"lost,omitempty"`
	Ahead      *int        `json:"ahead,omitempty"`
	Holder     *holderJSON `json:"holder,omitempty"`
}

// openEvents returns nil if no descriptor is asked for. The command does not
// get it, so that whoever reads from it sees its end when xlock ends; unless it
// is one of the standard three.
func openEvents(fd statusFD, path string) (*events, error) {
	if !fd.set {
		return nil, nil
	}
	if err := checkWritable(fd.number); err != nil {
		return nil, usageError{fmt.Sprintf("--status-fd %d is %v; open it for writing: %d>FILE", fd.number, err, fd.number)}
	}
	if fd.number > int(os.Stderr.Fd()) {
		unix.CloseOnExec(fd.number)
	}
	return &events{file: os.NewFile(uintptr(fd.number), "status-fd"), path: path}, nil
}

// checkWritable refuses also what the Go runtime has opened for itself.
func checkWritable(fd int) error {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	var st unix.Stat_t
	if err != nil || unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT == 0 {
		return errors.New("not open")
	}
	if flags&unix.O_ACCMODE == unix.O_RDONLY {
		return errors.New("open for reading only")
	}
	return nil
}

func (e *events) waiting(w wait) {
	event := eventJSON{Event: "waiting", Holder: jsonHolder(w.Holder)}
	if w.ahead >= 0 {
		event.Ahead = &w.ahead
	}
	e.write(event)
}

func (e *events) acquired(l *lock.Lock) {
	event := eventJSON{Event: "acquired", Shared: l.Shared()}
	if !l.Shared() {
		event.Generation = l.Generation()
	}
	e.write(event)
}

func (e *events) started(pid int) { e.write(eventJSON{Event: "started", PID: pid}) }

// exited tells how the command has ended, and what became of the lock.
func (e *events) exited(status supervise.Status, release error) {
	o := outcome(status)
	e.write(eventJSON{Event: "exited", Exit: o.Exit, Signal: o.Signal, Lost: errors.Is(release, lock.ErrLost)})
}

// refused tells why the command did not run.
func (e *events) refused(err error, status int) {
	event := eventJSON{Event: "error", Status: &status, Message: describe(err)}
	var held *lock.HeldError
	var deadlock *lock.DeadlockError
	var interrupted *supervise.InterruptedError
	switch {
	case errors.As(err, &held):
		event.Event, event.Holder, event.TimedOut = "busy", jsonHolder(held.Holder), held.TimedOut
	case errors.As(err, &deadlock):
		event.Event, event.Holder = "deadlock", jsonHolder(deadlock.Holder)
	case errors.As(err, &interrupted):
		event.Signal = unix.SignalName(interrupted.Signal)
	}
	e.write(event)
}

// write does not keep the command from running, nor the lock from being given
// back, when nobody reads any more.
func (e *events) write(event eventJSON) {
	if e == nil || e.failed {
		return
	}
	event.Lock, event.Time = e.path, time.Now().UTC().Truncate(time.Millisecond)
	line, err := encodeLine(event)
	if err == nil && !writable(int(e.file.Fd()), patience) {
		err = unix.ETIMEDOUT
	}
	if err == nil {
		_, err = e.file.WriteString(line)
	}
	if err != nil {
		e.failed = true
		say(os.Stderr, silenced(err))
	}
}
