package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"xlock/internal/lock"
	"xlock/internal/supervise"
)

type runOptions struct {
	noWait  bool
	wait    limit
	status  exitCode
	noFork  bool
	close   bool
	label   string
	quiet   bool
	verbose bool
}

func (o *runOptions) addFlags(flags *pflag.FlagSet) {
	flags.BoolVarP(&o.noWait, "no-wait", "n", false, "fail at once if the lock is busy")
	flags.VarP(&o.wait, "wait", "w", "wait at most this long: 1.5, 90s, 1m30s (0: as -n)")
	flags.VarP(&o.status, "conflict-exit-code", "E", "status for a busy lock, 0 to 255")
	flags.BoolVarP(&o.noFork, "no-fork", "F", false, "replace xlock by the command, which keeps the lock")
	flags.BoolVarP(&o.close, "close", "o", false, "do not pass the lock's descriptor to the command")
	flags.StringVar(&o.label, "label", "", "a note for others who see the lock held")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "no messages about waiting or a busy lock")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "say when the lock is taken and released")
}

func newRunCommand() *cobra.Command {
	opts := runOptions{status: statusBusy}
	cmd := &cobra.Command{
		Use:   "run [-n | -w DURATION] [-E N] [-F | -o] [--label TEXT] [-q | -v] LOCK [--] COMMAND [ARG...]",
		Short: "Run a command while holding a lock",
		Long: `Run takes the lock LOCK, creating the file if it is missing, runs COMMAND, and
gives the lock back when COMMAND ends. Everything behind LOCK, or behind a "--"
that follows it, is the command. The command finds the lock file's path in
XLOCK_PATH, the number of the lock's descriptor in XLOCK_FD (not with -o), and
in XLOCK_GENERATION a number that grows with every holder.

EXAMPLES
  xlock run /run/lock/deploy.lock ./deploy.sh --fast
      wait for the lock as long as it takes, then run
  xlock run -n /run/lock/sync.lock -- rsync -a src/ dst/
      do not wait: status 75 if somebody holds the lock
  xlock run -w 1m30s -E 0 /run/lock/report.lock report
      wait for 90 seconds; count a busy lock as success

EXIT STATUS
  the command's own, or its death by the same signal, once it ran
  64   wrong usage
  71   another system error
  73   the lock file cannot be opened, created or written, or is no lock file
  75   the lock is busy, or the wait ran out (or what -E says)
  78   deadlock: held by this very process, or without a limit on the wait by
       an ancestor of it
  126  the command cannot be executed
  127  the command was not found`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runRun(cmd.Context(), opts, args)
		},
	}
	opts.addFlags(cmd.Flags())
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func runRun(ctx context.Context, opts runOptions, args []string) error {
	path, command, err := opts.check(args)
	if err != nil {
		return err
	}
	found, err := supervise.Find(command)
	if err != nil {
		return startError{err}
	}
	if opts.wait.set {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, opts.wait.duration)
		defer cancel()
	}
	// A message that finds standard error closed must not end us before the
	// command, nor in place of its status. What is caught is reset by execve(2).
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	spare := supervise.DieWhenTold()
	held, err := acquire(ctx, path, opts, found)
	if err != nil {
		return opts.conflict(err)
	}
	if err := export(held, opts); err != nil {
		return abandon(held, err)
	}
	if opts.verbose {
		say(os.Stderr, taken(held))
	}
	if opts.noFork {
		return abandon(held, startError{found.Exec()})
	}
	return runHolding(held, opts, found, spare)
}

// check refuses a command line that makes no sense before anything is touched.
func (o *runOptions) check(args []string) (path string, command []string, err error) {
	switch {
	case o.noWait && o.wait.set:
		return "", nil, usageError{"-n and -w exclude each other; give one of them"}
	case o.noFork && o.close:
		return "", nil, usageError{"-F and -o exclude each other: without a fork the command itself keeps the descriptor"}
	case o.quiet && o.verbose:
		return "", nil, usageError{"-q and -v exclude each other; give one of them"}
	case len(args) == 0 || args[0] == "":
		return "", nil, usageError{"no lock file given; usage: xlock run LOCK COMMAND"}
	}
	path, command = args[0], args[1:]
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	if len(command) == 0 || command[0] == "" {
		return "", nil, usageError{"no command given to run under " + path + "; usage: xlock run LOCK COMMAND"}
	}
	if o.wait.set && o.wait.duration == 0 {
		o.noWait, o.wait.set = true, false
	}
	if err := lock.CheckLabel(o.label); err != nil {
		return "", nil, usageError{err.Error() + "; give a shorter, printable --label"}
	}
	return path, command, nil
}

// acquire takes the lock, and says for whom it waits once that is noticeable.
func acquire(ctx context.Context, path string, opts runOptions, command *supervise.Command) (*lock.Lock, error) {
	const noticeable = time.Second
	var notice *time.Timer
	stop := func() {
		if notice != nil {
			notice.Stop()
		}
	}
	defer stop()
	mode := lock.Fork
	if opts.noFork {
		mode = lock.Exec
	}
	label := opts.label
	if label == "" {
		label = jobAddress(os.LookupEnv)
	}
	return lock.Acquire(ctx, path, lock.Options{
		Mode:     mode,
		Inherits: !opts.close,
		Command:  command.Name(),
		Label:    label,
		NoWait:   opts.noWait,
		Limited:  opts.wait.set,
		Waiting: func(h lock.Holder) {
			stop()
			if !opts.quiet {
				notice = time.AfterFunc(noticeable, func() {
					if h, ok := holderNow(h); ok {
						say(os.Stderr, waiting(h))
					}
				})
			}
		},
	})
}

// holderNow is who stands in the way now: in the kernel's queue the lock can have
// passed to another since a wait for h began, or be about to become ours.
func holderNow(h lock.Holder) (current lock.Holder, ok bool) {
	report, err := lock.Inspect(h.Path)
	if err != nil || report.State == lock.Free || report.State == lock.Abandoned {
		return h, false
	}
	current = report.Holder()
	current.Ancestor = h.Ancestor && current.Blocker != nil && current.Blocker.PID == h.Blocker.PID
	return current, true
}

// conflict turns a busy lock into what -q and -E ask for.
func (o *runOptions) conflict(err error) error {
	var held *lock.HeldError
	if !errors.As(err, &held) {
		return err
	}
	if !o.quiet {
		say(os.Stderr, describe(err))
	}
	return statusError(o.status)
}

// runHolding runs the command with the lock held and gives the lock back. A
// lock that was lost meanwhile is told, and leaves the command's status as it
// is.
func runHolding(held *lock.Lock, opts runOptions, command *supervise.Command, spare func()) error {
	process, err := command.Start()
	spare() // from now on signals are caught for the command
	if err != nil {
		return abandon(held, startError{err})
	}
	if err := held.Started(process.PID()); err != nil {
		process.Cancel()
		return abandon(held, err)
	}
	status, err := process.Run(func() {})
	if err != nil {
		return abandon(held, startError{err})
	}
	path := held.File().Name()
	err = held.Release(outcome(status))
	switch {
	case err != nil:
		say(os.Stderr, warning(err))
	case opts.verbose:
		say(os.Stderr, released(path))
	}
	return result(status)
}

// export hands the lock on: its descriptor, unless -o keeps it back, and what
// the environment says about it.
func export(held *lock.Lock, opts runOptions) error {
	path, err := filepath.Abs(held.File().Name())
	if err != nil {
		return err
	}
	environment := map[string]string{
		"XLOCK_PATH":       path,
		"XLOCK_GENERATION": strconv.FormatUint(held.Generation(), 10),
	}
	os.Unsetenv("XLOCK_FD")
	if !opts.close {
		fd := int(held.File().Fd())
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
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

// abandon gives the lock back without the command having run. What went before
// counts for more than a release that failed, which is told.
func abandon(held *lock.Lock, before error) error {
	var interrupted *supervise.InterruptedError
	if errors.As(before, &interrupted) {
		before = signalError{interrupted.Signal}
	}
	if err := held.Release(nil); err != nil {
		say(os.Stderr, warning(err))
	}
	return before
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
