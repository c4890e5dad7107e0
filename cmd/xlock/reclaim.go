package main

import (
	"errors"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"xlock/internal/lock"
)

func newReclaimCommand() *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "reclaim [--dry-run] LOCK...",
		Short: "Free a lock whose holder is proven gone",
		Long: `Reclaim frees each LOCK whose holder is proven gone, and leaves one alone that is
held or may be held. It is seldom needed: 'xlock run' takes such a lock by
itself.

EXAMPLES
  xlock reclaim /run/lock/deploy.lock
  xlock reclaim --dry-run /run/lock/*.lock   say what would be done

EXIT STATUS
  0   every lock is free now (with --dry-run: would be)
  64  wrong usage
  73  a lock file could not be opened or written, or is no lock file
  75  a lock is held or may be held; it was left as it is`,
		Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			return runReclaim(os.Stdout, dryRun, args)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "judge all the same, change nothing, and say what would be done")
	return cmd
}

func runReclaim(w io.Writer, dryRun bool, paths []string) error {
	if len(paths) == 0 || slices.Contains(paths, "") {
		return usageError{"no lock file given; usage: xlock reclaim LOCK..."}
	}
	var failure error
	for _, path := range paths {
		report, err := lock.Reclaim(path, dryRun)
		if err != nil {
			say(os.Stderr, describe(err))
			failure = statusError(reclaimStatus(err))
			continue
		}
		if err := tell(w, reclaimed(report, dryRun)); err != nil {
			return err
		}
	}
	return failure
}

// reclaimStatus: to reclaim, a lock that this very process holds is a held one.
func reclaimStatus(err error) int {
	var deadlock *lock.DeadlockError
	if errors.As(err, &deadlock) {
		return statusBusy
	}
	return statusOf(err)
}
