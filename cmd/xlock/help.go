package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// newHelpCommand is there because cobra's own has no mistake that ends it with
// another status than 0.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print the help of a command",
		Long: `Help prints the help of COMMAND, or of xlock.

EXAMPLES
  xlock help run

EXIT STATUS
  0   it was printed
  64  there is no such command
  71  it could not be printed`,
		DisableFlagsInUseLine: true,
		RunE: func(c *cobra.Command, args []string) error {
			command, rest, err := c.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usageError{fmt.Sprintf("unknown command %q; see 'xlock help'", strings.Join(args, " "))}
			}
			command.InitDefaultHelpFlag()
			return command.Help()
		},
	}
}

// helpOutput is standard output for cobra, which does not tell whether a help
// could be written.
type helpOutput struct{ err error }

func (o *helpOutput) Write(text []byte) (int, error) {
	n, err := os.Stdout.Write(text)
	if err != nil && o.err == nil {
		o.err = outputError{err}
	}
	return n, err
}
