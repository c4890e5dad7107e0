package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long: `Version prints which xlock this is.

EXAMPLES
  xlock version

EXIT STATUS
  0   it was printed
  64  wrong usage
  71  it could not be printed`,
		DisableFlagsInUseLine: true,
		Args:                  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return tell(os.Stdout, version())
		},
	}
}

// release is the version of a release; scripts/release has the linker set it.
var release string

// version is the release, or what the Go command stamped into the binary: a tag,
// or a pseudo-version with the commit.
func version() string {
	version := release
	if version == "" {
		version = "(unknown)"
		if info, ok := debug.ReadBuildInfo(); ok {
			version = info.Main.Version
		}
	}
	return fmt.Sprintf("xlock %s %s/%s %s", version, runtime.GOOS, runtime.GOARCH, runtime.Version())
}
