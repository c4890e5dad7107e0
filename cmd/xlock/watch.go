package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"xlock/internal/fdprobe"
	"xlock/internal/lock"
)

// A watch looks at the record and the kernel's list each lookEvery, which costs
// next to nothing, and through all processes when those have changed or are
// fullEvery old.
const (
	lookEvery = 500 * time.Millisecond
	fullEvery = 10 * time.Second
)

// watchLocks shows the locks until a signal ends it, or nobody reads any more.
func watchLocks(ctx context.Context, w io.Writer, opts inspectOptions, paths []string) error {
	v := &view{w: w, opts: opts}
	for _, path := range paths {
		v.locks = append(v.locks, &watchedLock{path: path})
	}
	v.live = isTerminal(w) && !opts.json && os.Getenv("TERM") != "dumb"
	signals := make(chan os.Signal, 1)
	catchEnds(signals)
	if v.live {
		signal.Notify(signals, unix.SIGWINCH, unix.SIGTSTP)
		if err := write(w, enterScreen); err != nil {
			return err
		}
		defer write(w, leaveScreen)
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if err := v.look(); err != nil {
			return err
		}
		select {
		case sig := <-signals:
			if err := v.handle(sig.(unix.Signal)); err != nil {
				return err
			}
		case <-tick.C:
			if unread(w) {
				return signalError{unix.SIGPIPE} // as at the next line
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// catchEnds catches the signals by which a user ends a program, but for those that
// were ignored when it started (nohup).
func catchEnds(signals chan os.Signal) {
	for _, sig := range []os.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT} {
		if !signal.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
}

// unread reports whether nobody reads any more what is written to a pipe (poll(2)).
func unread(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	fds := []unix.PollFd{{Fd: int32(f.Fd())}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&unix.POLLERR != 0
}

// The alternate screen, without a cursor (xterm's control sequences).
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
)

// handle redraws the screen of another size, gives it back while stopped, and ends
// the watch at any other signal.
func (v *view) handle(sig unix.Signal) error {
	switch sig {
	case unix.SIGWINCH:
	case unix.SIGTSTP:
		if err := write(v.w, leaveScreen); err != nil {
			return err
		}
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP) // returns once we are continued
		if err := write(v.w, enterScreen); err != nil {
			return err
		}
	default:
		return signalError{sig}
	}
	v.shown = ""
	return nil
}

// view is what is shown of some locks.
type view struct {
	w     io.Writer
	opts  inspectOptions
	live  bool
	locks []*watchedLock
	shown string
}

// watchedLock is one lock, as it was seen last.
type watchedLock struct {
	path   string
	report *lock.Report
	err    error
	full   time.Time // of the last full inspection
	state  string    // what was told last
}

func (v *view) look() error {
	for _, l := range v.locks {
		l.look()
		if !v.live {
			if err := l.tell(v); err != nil {
				return err
			}
		}
	}
	if v.live {
		return v.draw()
	}
	return nil
}

// look inspects the lock in full if a glance shows that something has changed.
func (l *watchedLock) look() {
	glance, err := lock.Glance(l.path)
	same := err == nil && l.report != nil && l.err == nil && fingerprint(glance) == fingerprint(l.report)
	if same && time.Since(l.full) < fullEvery {
		return
	}
	l.report, l.err = lock.Inspect(l.path)
	l.full = time.Now()
}

// fingerprint is what makes a change, as far as a glance can see it.
func fingerprint(r *lock.Report) string {
	generation := uint64(0)
	if record := r.Content.Record; record != nil {
		generation = record.Generation
	}
	var takers []int
	for _, h := range r.Kernel.Holders {
		if h.Source == fdprobe.ProcLocks {
			takers = append(takers, h.PID)
		}
	}
	return fmt.Sprint(r.Reason == lock.ReasonNoFile, r.Content.Kind, generation, recordState(r),
		r.Liveness, r.Identity, takers, r.Kernel.Waiters)
}

func recordState(r *lock.Report) string {
	if r.Content.Record == nil {
		return ""
	}
	return r.Content.Record.State
}

// tell prints a line if the lock has changed.
func (l *watchedLock) tell(v *view) error {
	if l.err != nil {
		if text := describe(l.err); text != l.state {
			l.state = text
			say(os.Stderr, text)
		}
		return nil
	}
	state := fmt.Sprint(l.report.State, l.report.Reason, fingerprint(l.report))
	if state == l.state {
		return nil
	}
	l.state = state
	if v.opts.json {
		return show(v.w, l.report, v.opts)
	}
	return tell(v.w, time.Now().Format(time.DateTime)+" "+oneLine(l.report))
}

// oneLine is a report in a line.
func oneLine(r *lock.Report) string {
	text := fmt.Sprintf("%s: %s, %s", r.Path, r.State, explain(r.Judgement))
	if r.State != lock.Free {
		text += ", " + holderCell(r)
	}
	if n := len(r.Kernel.Waiters); n > 0 {
		text += fmt.Sprintf(", %d waiting", n)
	}
	return text
}

// draw writes the screen anew if it differs from what is shown: at rest once a
// second, as the ages grow.
func (v *view) draw() error {
	var text strings.Builder
	for _, l := range v.locks {
		if l.err != nil {
			text.WriteString(message(describe(l.err)) + "\n")
			continue
		}
		text.WriteString(person(l.report, styleFor(v.w)) + "\n")
	}
	text.WriteString("^C ends this\n")
	if text.String() == v.shown {
		return nil
	}
	v.shown = text.String()
	return write(v.w, "\x1b[H"+v.fit(v.shown)+"\x1b[J")
}

// fit cuts the text to the terminal's size, and clears the rest of each line.
func (v *view) fit(text string) string {
	columns, rows := 80, 24
	if size, err := unix.IoctlGetWinsize(int(v.w.(*os.File).Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 && size.Row > 1 {
		columns, rows = int(size.Col), int(size.Row)
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) > rows {
		lines = lines[:rows]
	}
	for i, line := range lines {
		if plain := uncoloured(line); cut(plain, columns-1) != plain {
			line = cut(plain, columns-1) // of a verdict that is too long the colour goes
		}
		lines[i] = line + clearToEnd
	}
	return strings.Join(lines, "\r\n")
}
