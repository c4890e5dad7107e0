package main

import (
	"context"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"xlock/internal/lock"
)

type runOptions struct {
	shared  bool
	noWait  bool
	wait    limit
	status  exitCode
	noFork  bool
	close   bool
	label   string
	events  statusFD
	quiet   bool
	verbose bool
}

func (o *runOptions) addFlags(flags *pflag.FlagSet) {
	flags.BoolVarP(&o.shared, "shared", "s", false, "let other shared holders in at the same time")
	flags.BoolVarP(&o.noWait, "no-wait", "n", false, "fail at once if the lock is busy")
	flags.VarP(&o.wait, "wait", "w", "wait at most this long: 1.5, 90s, 1m30s (0: as -n)")
	flags.VarP(&o.status, "conflict-exit-code", "E", "status for a busy lock, 0 to 255")
	flags.BoolVarP(&o.noFork, "no-fork", "F", false, "replace xlock by the command, which keeps the lock")
	flags.BoolVarP(&o.close, "close", "o", false, "do not pass the lock's descriptor to the command")
	flags.StringVar(&o.label, "label", "", "a note for others who see the lock held")
	flags.Var(&o.events, "status-fd", "write what happens to this descriptor, as lines of JSON")
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "no messages about waiting or a busy lock")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "say when the lock is taken and released")
}

func newRunCommand() *cobra.Command {
	opts := runOptions{status: statusBusy}
	cmd := &cobra.Command{
		Use:   "run [-s] [-n | -w DURATION] [-E N] [-F | -o] [--label TEXT] [--status-fd N] [-q | -v] LOCK [--] COMMAND [ARG...]",
		Short: "Run a command while holding a lock",
		Long: `Run takes the lock LOCK, creating the file if it is missing, runs COMMAND, and
gives the lock back when COMMAND ends. Everything behind LOCK, or behind a "--"
that follows it, is the command. The command finds the lock file's path in
XLOCK_PATH, the number of the lock's descriptor in XLOCK_FD (not with -o), and
in XLOCK_GENERATION (not with -s) a number that grows with every holder.

With -s many commands run at the same time, and none beside one without -s. Who
waits for the lock without -s goes before whoever asks for it with -s later. No
hold is ever converted: without -s within one's own -s is a deadlock, 78.

EXAMPLES
  xlock run /run/lock/deploy.lock ./deploy.sh --fast
      wait for the lock as long as it takes, then run
  xlock run -n /run/lock/sync.lock -- rsync -a src/ dst/
      do not wait: status 75 if somebody holds the lock
  xlock run -w 1m30s -E 0 /run/lock/report.lock report
      wait for 90 seconds; count a busy lock as success
  xlock run -s /run/lock/deploy.lock ./report
      beside other readers of what deploy.sh writes

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
		DisableFlagsInUseLine: true,
		Args:                  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runRun(cmd.Context(), opts, args)
		},
	}
	opts.addFlags(cmd.Flags())
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func runRun(ctx context.Context, opts runOptions, args []string) error {
	path, args, err := opts.check(args)
	if err != nil {
		return err
	}
	events, err := openEvents(opts.events, path)
	if err != nil {
		return err
	}
	r := &runner{opts: opts, path: path, events: events}
	status, err := r.run(ctx, args)
	if err != nil {
		return r.refused(err)
	}
	return result(status)
}

// check refuses a command line that makes no sense before anything is touched.
func (o *runOptions) check(args []string) (path string, command []string, err error) {
	switch {
	case o.noWait && o.wait.set:
		return "", nil, usageError{"-n and -w exclude each other; give one of them"}
	case o.noFork && o.close:
		return "", nil, usageError{"-F and -o exclude each other: without a fork the command itself keeps the descriptor"}
	case o.shared && o.close:
		return "", nil, usageError{"-s and -o exclude each other: nothing but the descriptor keeps a shared hold"}
	case o.shared && o.label != "":
		return "", nil, usageError{"-s and --label exclude each other: a shared hold writes no record that could show the label"}
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
