package main

import (
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"xlock/internal/fdprobe"
	"xlock/internal/lock"
)

type inspectOptions struct {
	json bool
	is   stateName
}

func newInspectCommand() *cobra.Command {
	var opts inspectOptions
	cmd := &cobra.Command{
		Use:   "inspect [--json] [--is STATE] LOCK...",
		Short: "Say who holds a lock, and whether that is really so",
		Long: `Inspect says whether each LOCK is free, held, abandoned (its holder is proven
gone) or unknown (neither is proven, and it is treated as held), and why. It
never takes the lock, and writes nothing.

EXAMPLES
  xlock inspect /run/lock/deploy.lock
  xlock inspect --is held /run/lock/deploy.lock && echo busy
  xlock inspect --json /run/lock/*.lock

EXIT STATUS
  0   it could look, and with --is all locks are in that state
  1   with --is: some lock is in another state
  64  wrong usage
  73  a lock file could not be looked at, or is no lock file`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			return runInspect(os.Stdout, opts, args)
		},
	}
	cmd.Flags().BoolVar(&opts.json, "json", false, "print one JSON object per lock")
	cmd.Flags().Var(&opts.is, "is", "print nothing, and succeed if the lock is free, held, abandoned or unknown")
	return cmd
}

func runInspect(w io.Writer, opts inspectOptions, paths []string) error {
	if len(paths) == 0 || slices.Contains(paths, "") {
		return usageError{"no lock file given; usage: xlock inspect LOCK..."}
	}
	if opts.json && opts.is != "" {
		return usageError{"--json and --is exclude each other; give one of them"}
	}
	var failure error
	for _, path := range paths {
		report, err := lock.Inspect(path)
		switch {
		case err != nil:
			say(os.Stderr, describe(err))
			failure = statusError(statusOf(err))
		case opts.is != "":
			if report.State != lock.State(opts.is) && failure == nil {
				failure = statusError(1)
			}
		default:
			if err := show(w, report, opts); err != nil {
				return err
			}
		}
	}
	return failure
}

func show(w io.Writer, r *lock.Report, opts inspectOptions) error {
	if !opts.json {
		return write(w, person(r))
	}
	line, err := encodeLine(jsonReport(r))
	if err != nil {
		return err
	}
	return write(w, line)
}

// reportJSON is the object of inspect --json. Its field names are part of
// xlock's interface.
type reportJSON struct {
	Lock string `json:"lock"`
	*holderJSON
	Holders  []fdprobe.Holder `json:"holders"`
	Waiters  []int            `json:"waiters"`
	Warnings []string         `json:"warnings"`
}

func jsonReport(r *lock.Report) reportJSON {
	return reportJSON{
		Lock:       r.Path,
		holderJSON: jsonHolder(r.Holder()),
		Holders:    append([]fdprobe.Holder{}, r.Holders...),
		Waiters:    append([]int{}, r.Waiters...),
		Warnings:   append([]string{}, r.Warnings...),
	}
}
