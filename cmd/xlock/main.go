// Command xlock runs commands under a lock that always knows who holds it.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run())
}

// run is main, with the exit status as its result.
func run() int {
	if calledFlock() {
		return exitStatus(flock(os.Args[1:]))
	}
	if err := checkDescriptors(); err != nil {
		return exitStatus(err)
	}
	root, help := newRootCommand(), new(helpOutput)
	root.SetOut(help)
	err := root.ExecuteContext(context.Background())
	if err == nil {
		err = help.err
	}
	return exitStatus(err)
}
