package main

import (
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"xlock/internal/lock"
)

type reclaimOptions struct {
	dryRun     bool
	force      bool
	json       bool
	generation generationFlag
}

// generationFlag is the argument of --if-generation.
type generationFlag struct{ value *uint64 }

func (g *generationFlag) Set(text string) error {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return errors.New("want a generation as 'xlock inspect --json' tells it")
	}
	g.value = &n
	return nil
}

func (g *generationFlag) String() string { return "" }
func (g *generationFlag) Type() string   { return "N" }

func newReclaimCommand() *cobra.Command {
	var opts reclaimOptions
	cmd := &cobra.Command{
		Use:   "reclaim [--dry-run] [--force] [--if-generation N] [--json] LOCK...",
		Short: "Free a lock whose holder is proven gone",
		Long: `Reclaim frees each LOCK whose holder is proven gone, and leaves one alone that is
held or may be held. It is seldom needed: 'xlock run' takes such a lock by
itself.

With --force your word stands against the holder: the lock is free, though its
command may still run, beside the next one. Nobody is signalled. The old holder
learns of it at its end. Give --if-generation too, with the number that
'xlock inspect' shows, so that no other hold than the one you looked at is broken.

EXAMPLES
  xlock reclaim /run/lock/deploy.lock
  xlock reclaim --dry-run /run/lock/*.lock   say what would be done
  xlock reclaim --force --if-generation 7 /run/lock/deploy.lock

EXIT STATUS
  0   every lock is free now (with --dry-run: would be)
  64  wrong usage
  71  the result could not be printed
  73  a lock file could not be opened or written, or is no lock file
  75  a lock is held or may be held, or has another generation; it was left as
      it is`,
		DisableFlagsInUseLine: true,
		Args:                  cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			return runReclaim(os.Stdout, opts, args)
		},
	}
	cmd.Flags().BoolVar(&opts.dryRun, "dry-run", false, "judge all the same, change nothing, and say what would be done")
	cmd.Flags().BoolVar(&opts.force, "force", false, "break the lock of a holder that lives or may live")
	cmd.Flags().BoolVar(&opts.json, "json", false, "print one JSON object per lock")
	cmd.Flags().Var(&opts.generation, "if-generation", "leave the lock alone if its generation is another")
	return cmd
}

func runReclaim(w io.Writer, opts reclaimOptions, paths []string) error {
	if len(paths) == 0 || slices.Contains(paths, "") {
		return usageError{"no lock file given; usage: xlock reclaim LOCK..."}
	}
	var failure error
	signals := make(chan os.Signal, 1)
	if opts.force { // a lock file is replaced by several calls
		catchEnds(signals)
		defer signal.Stop(signals)
	}
	for _, path := range paths {
		done, err := lock.Reclaim(path, lock.ReclaimOptions{
			DryRun:     opts.dryRun,
			Force:      opts.force,
			Generation: opts.generation.value,
		})
		if err != nil {
			say(os.Stderr, describe(err))
			failure = statusError(reclaimStatus(err))
			err = tellRefused(w, err, opts)
		} else {
			err = tellReclaimed(w, done, opts)
		}
		if err != nil {
			return err
		}
		select {
		case sig := <-signals:
			return signalError{sig.(unix.Signal)}
		default:
		}
	}
	return failure
}

func tellReclaimed(w io.Writer, done *lock.Reclaimed, opts reclaimOptions) error {
	text := reclaimed(done, opts.dryRun)
	if !opts.json {
		return tell(w, text)
	}
	return writeJSON(w, reclaimJSON{
		Lock:       done.Path,
		holderJSON: jsonHolder(done.Holder()),
		Action:     done.Action,
		Forced:     done.Forced,
		DryRun:     opts.dryRun,
		Message:    text,
	})
}

// tellRefused tells a program which lock was left alone, and for whom.
func tellRefused(w io.Writer, err error, opts reclaimOptions) error {
	holder, ok := keptBy(err)
	if !ok || !opts.json {
		return nil
	}
	return writeJSON(w, reclaimJSON{
		Lock:       holder.Path,
		holderJSON: jsonHolder(holder),
		Action:     "refused",
		DryRun:     opts.dryRun,
		Message:    describe(err),
	})
}

// keptBy is the holder for whose sake a lock was not reclaimed.
func keptBy(err error) (holder lock.Holder, ok bool) {
	var held *lock.HeldError
	var deadlock *lock.DeadlockError
	var generation *lock.GenerationError
	switch {
	case errors.As(err, &held):
		return held.Holder, true
	case errors.As(err, &deadlock):
		return deadlock.Holder, true
	case errors.As(err, &generation):
		return generation.Holder, true
	}
	return lock.Holder{}, false
}

// reclaimStatus: to reclaim, a lock that this very process holds is a held one.
func reclaimStatus(err error) int {
	if errors.As(err, new(*lock.DeadlockError)) {
		return statusBusy
	}
	return statusOf(err)
}
