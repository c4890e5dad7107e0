package main

import (
	"github.com/spf13/cobra"
)

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "xlock",
		Short: "Run commands under a lock that knows who holds it",
		Long: `xlock runs a command while it holds a lock file, tells who holds one, and frees
one whose holder is proven gone. A lock that a process holds is a descriptor
that it holds: xlock and flock(1) exclude each other on the same file.

EXAMPLES
  xlock run /run/lock/deploy.lock ./deploy.sh   run it, waiting for others
  xlock run -n /run/lock/backup.lock backup     run it, or fail if busy
  xlock inspect /run/lock/deploy.lock           who holds it, and since when?
  xlock reclaim /run/lock/deploy.lock           free what a dead holder left

EXIT STATUS
  see the help of each command`,
		Args:              cobra.NoArgs,
		SilenceErrors:     true,
		SilenceUsage:      true,
		DisableAutoGenTag: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		RunE: func(*cobra.Command, []string) error {
			return usageError{"no command given; see 'xlock help'"}
		},
	}
	root.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{err.Error() + "; see '" + c.CommandPath() + " --help'"}
	})
	root.AddCommand(newRunCommand(), newInspectCommand(), newReclaimCommand(), newFlockCommand(), newVersionCommand())
	root.SetHelpCommand(newHelpCommand())
	return root
}
