package main

import (
	"context"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"xlock/internal/lock"
)

type inspectOptions struct {
	json  bool
	watch bool
	is    stateName
}

func newInspectCommand() *cobra.Command {
	var opts inspectOptions
	cmd := &cobra.Command{
		Use:   "inspect [--json] [--watch] [--is STATE] LOCK|DIRECTORY...",
		Short: "Say who holds a lock, and whether that is really so",
		Long: `Inspect says whether each LOCK is free, held, abandoned (its holder is proven
gone) or unknown (neither is proven, and it is treated as held), and why: what
the record says, what is there of its processes, what the kernel shows, who
waits, and what to do. Of a DIRECTORY it lists the lock files. It never takes
the lock, and writes nothing.

EXAMPLES
  xlock inspect /run/lock/deploy.lock
  xlock inspect /run/lock                     a table of the locks in there
  xlock inspect --watch /run/lock/deploy.lock look on, until ^C
  xlock inspect --is held /run/lock/deploy.lock && echo busy
  xlock inspect --json /run/lock/*.lock       for programs, see docs/inspect-json.md

EXIT STATUS
  0   it could look, and with --is all locks are in that state
  1   with --is: some lock is in another state
  64  wrong usage
  71  the result could not be printed
  73  a lock file could not be looked at, or is no lock file`,
		DisableFlagsInUseLine: true,
		Args:                  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			return runInspect(c.Context(), os.Stdout, opts, args)
		},
	}
	cmd.Flags().BoolVar(&opts.json, "json", false, "print one JSON object per lock")
	cmd.Flags().BoolVar(&opts.watch, "watch", false, "look on, twice a second: redraw on a terminal, else a line per change that is seen")
	cmd.Flags().Var(&opts.is, "is", "print nothing, and succeed if the lock is free, held, abandoned or unknown")
	return cmd
}

func runInspect(ctx context.Context, w io.Writer, opts inspectOptions, paths []string) error {
	switch {
	case len(paths) == 0 || slices.Contains(paths, ""):
		return usageError{"no lock file given; usage: xlock inspect LOCK..."}
	case opts.json && opts.is != "":
		return usageError{"--json and --is exclude each other; give one of them"}
	case opts.watch && opts.is != "":
		return usageError{"--watch and --is exclude each other; give one of them"}
	case opts.watch && slices.ContainsFunc(paths, isDirectory):
		return usageError{"--watch takes lock files, not a directory"}
	case opts.watch:
		return watchLocks(ctx, w, opts, paths)
	}
	var worst statusError
	for len(paths) > 0 {
		status, rest, err := inspectSome(w, opts, paths)
		if err != nil {
			return err
		}
		worst, paths = max(worst, status), rest
	}
	if worst != 0 {
		return worst
	}
	return nil
}

// inspectSome inspects the first directory, or all files up to the next one, and
// returns what is left to do.
func inspectSome(w io.Writer, opts inspectOptions, paths []string) (worst statusError, rest []string, err error) {
	if isDirectory(paths[0]) {
		worst, err = inspectDirectory(w, opts, paths[0])
		return worst, paths[1:], err
	}
	files := slices.IndexFunc(paths, isDirectory)
	if files < 0 {
		files = len(paths)
	}
	var reports []*lock.Report
	for _, found := range lock.InspectAll(paths[:files]) {
		if found.Err != nil {
			say(os.Stderr, describe(found.Err))
			worst = max(worst, statusError(statusOf(found.Err)))
			continue
		}
		reports = append(reports, found.Report)
	}
	status, err := showAll(w, opts, reports)
	return max(worst, status), paths[files:], err
}

// showAll shows the reports, or says by the status whether all are in the state of
// --is.
func showAll(w io.Writer, opts inspectOptions, reports []*lock.Report) (worst statusError, err error) {
	for _, r := range reports {
		switch {
		case opts.is == "":
			if err := show(w, r, opts); err != nil {
				return 0, err
			}
		case r.State != lock.State(opts.is):
			worst = 1
		}
	}
	return worst, nil
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func show(w io.Writer, r *lock.Report, opts inspectOptions) error {
	if !opts.json {
		return write(w, person(r, styleFor(w)))
	}
	return writeJSON(w, jsonReport(r))
}
