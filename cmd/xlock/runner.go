package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"xlock/internal/eintr"
	"xlock/internal/lock"
	"xlock/internal/supervise"
)

// runner is one xlock run.
type runner struct {
	opts   runOptions
	path   string
	events *events
}

// run takes the lock, runs the command and gives the lock back. An error means
// that the command did not run.
func (r *runner) run(ctx context.Context, args []string) (supervise.Status, error) {
	command, err := supervise.Find(args)
	if err != nil {
		return supervise.Status{}, startError{err}
	}
	// A message that finds standard error closed must not end us before the
	// command, nor in place of its status. What is caught is reset by execve(2).
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	supervise.DefaultActions()
	held, err := r.acquire(ctx, command)
	if err != nil {
		return supervise.Status{}, err
	}
	r.events.acquired(held)
	if r.opts.verbose {
		say(os.Stderr, taken(held))
	}
	if err := export(held, r.opts); err != nil {
		return supervise.Status{}, abandon(held, err)
	}
	if r.opts.noFork {
		r.events.started(os.Getpid())
		return supervise.Status{}, abandon(held, startError{command.Exec()})
	}
	return r.runHolding(held, command)
}

// acquire takes the lock, and says for whom it waits once that is noticeable.
func (r *runner) acquire(ctx context.Context, command *supervise.Command) (*lock.Lock, error) {
	if r.opts.wait.set {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.opts.wait.duration)
		defer cancel()
	}
	mode, label := lock.Fork, r.opts.label
	if r.opts.noFork {
		mode = lock.Exec
	}
	if label == "" {
		label = jobAddress(os.LookupEnv)
	}
	notices := newNotices(r.path, r.screen(), r.events)
	notices.reader = r.opts.shared
	defer notices.stop()
	return lock.Acquire(ctx, r.path, lock.Options{
		Mode:     mode,
		Shared:   r.opts.shared,
		Inherits: !r.opts.close,
		Command:  command.Name(),
		Label:    label,
		NoWait:   r.opts.noWait,
		Limited:  r.opts.wait.set,
		Waiting:  notices.waitFor,
	})
}

func (r *runner) screen() screen {
	if r.opts.quiet {
		return silent{}
	}
	return &errorOutput{file: os.Stderr, message: message}
}

// runHolding runs the command with the lock held, and gives the lock back.
func (r *runner) runHolding(held *lock.Lock, command *supervise.Command) (supervise.Status, error) {
	process, err := command.Start()
	if err != nil {
		return supervise.Status{}, abandon(held, startError{err})
	}
	if err := held.Started(process.PID()); err != nil {
		process.Cancel()
		return supervise.Status{}, abandon(held, err)
	}
	status, err := process.Run(func() { r.events.started(process.PID()) })
	switch {
	case errors.As(err, new(*supervise.WaitError)):
		// It may be running: leave it the lock, as a wrapper that is killed does.
		return supervise.Status{}, err
	case err != nil:
		return supervise.Status{}, abandon(held, startError{err})
	}
	r.release(held, status)
	return status, nil
}

// release gives the lock back. One that was lost meanwhile is told, and leaves
// the command's status as it is.
func (r *runner) release(held *lock.Lock, status supervise.Status) {
	path := held.File().Name()
	err := held.Release(outcome(status))
	switch {
	case err != nil:
		say(os.Stderr, notReleased(err))
	case r.opts.verbose:
		say(os.Stderr, released(path))
	}
	r.events.exited(status, err)
}

// export hands the lock on: its descriptor, unless -o keeps it back, and what
// the environment says about it.
func export(held *lock.Lock, opts runOptions) error {
	path, err := filepath.Abs(held.File().Name())
	if err != nil {
		return fmt.Errorf("the working directory cannot be told: %v", err) // it is not the lock file
	}
	environment := map[string]string{
		"XLOCK_PATH": path,
	}
	os.Unsetenv("XLOCK_FD")
	os.Unsetenv("XLOCK_GENERATION")
	if !held.Shared() {
		environment["XLOCK_GENERATION"] = strconv.FormatUint(held.Generation(), 10)
	}
	if !opts.close {
		fd := int(held.File().Fd())
		if err := keepOnExec(fd); err != nil {
			return os.NewSyscallError("fcntl", err)
		}
		environment["XLOCK_FD"] = strconv.Itoa(fd)
	}
	for name, value := range environment {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	return nil
}

func keepOnExec(fd int) error {
	return eintr.Retry(func() error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
		return err
	})
}

// abandon gives the lock back without the command having run. What went before
// counts for more than a release that failed, which is told.
func abandon(held *lock.Lock, before error) error {
	if err := held.Release(nil); err != nil {
		say(os.Stderr, notReleased(err))
	}
	return before
}

// refused makes an error of what kept the command from running: one that is
// told already, and has the status that -E asks for, if the lock was busy.
func (r *runner) refused(err error) error {
	var held *lock.HeldError
	if !errors.As(err, &held) {
		r.events.refused(err, statusOf(err))
		return err
	}
	r.events.refused(err, int(r.opts.status))
	if !r.opts.quiet {
		say(os.Stderr, describe(err))
	}
	return statusError(r.opts.status)
}

func outcome(status supervise.Status) *lock.Outcome {
	if status.Signal != 0 {
		return &lock.Outcome{Signal: unix.SignalName(status.Signal)}
	}
	return &lock.Outcome{Exit: &status.Code}
}

func result(status supervise.Status) error {
	switch {
	case status.Signal != 0:
		return signalError{status.Signal}
	case status.Code != 0:
		return statusError(status.Code)
	}
	return nil
}
