package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"xlock/internal/lock"
	"xlock/internal/supervise"
)

func newFlockCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "flock [OPTION...] FILE|DIRECTORY COMMAND [ARG...] | FILE|DIRECTORY -c COMMAND | DESCRIPTOR",
		Short: "Do what flock(1) does, with its command line",
		Long: `Flock has the options, the messages and the exit statuses of flock(1) from
util-linux 2.42, so that it can stand in for it. xlock does the same when it is
called by the name flock, for instance through a link.
` + flockHelp[:len(flockHelp)-1],
		DisableFlagParsing: true,
		RunE:               func(_ *cobra.Command, args []string) error { return flock(args) },
	}
	cmd.SetHelpTemplate("{{.Long}}\n") // which has usage and options
	return cmd
}

// calledFlock reports whether we are called by the name of flock(1).
func calledFlock() bool {
	return len(os.Args) > 0 && filepath.Base(os.Args[0]) == flockName
}

// flock does what flock(1) does with these arguments. Its errors are told already.
func flock(args []string) error {
	// A message that finds standard error closed must not end us before the
	// command, nor in place of its status. What is caught is reset by execve(2).
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	out := new(flockOutput)
	err := runFlock(args, out)
	var failure *flockError
	if errors.As(err, &failure) {
		sayFlock(os.Stderr, failure)
		err = statusError(failure.status)
	}
	if out.err != nil {
		sayFlock(os.Stderr, &flockError{message: "write error: " + cError(out.err)})
		err = statusError(flockFailure)
	}
	return err
}

// flockOutput is standard output. That a line could not be written counts in the
// end, unless nobody is there to read it.
type flockOutput struct{ err error }

func (o *flockOutput) print(text string) {
	if _, err := fmt.Print(text); err != nil && !errors.Is(err, unix.EPIPE) {
		o.err = err
	}
}

func runFlock(args []string, out *flockOutput) error {
	opts, err := parseFlock(args)
	switch {
	case err != nil:
		return err
	case opts.show == 'h':
		out.print(flockHelp)
		return nil
	case opts.show == 'V':
		out.print(flockVersion())
		return nil
	}
	if err := checkDescriptors(); err != nil {
		return &flockError{status: flockSystem, message: err.Error()}
	}
	supervise.DefaultActions()
	l, err := takeFlock(opts, out)
	if err != nil || len(opts.command) == 0 {
		return err
	}
	if opts.verbose {
		out.print(flockLine("executing " + opts.command[0]))
	}
	status, err := l.run()
	if err != nil {
		if !errors.As(err, new(*supervise.WaitError)) {
			l.abandon()
		}
		return flockStartError(opts.command[0], err)
	}
	l.release(status)
	if status.Signal != 0 {
		return statusError(statusBySignal + int(status.Signal))
	}
	return result(status)
}

// takeFlock opens what is to be locked, and locks it.
func takeFlock(opts flockOptions, out *flockOutput) (*flockLock, error) {
	l := &flockLock{opts: opts}
	if err := l.open(); err != nil {
		return nil, err
	}
	start, notices := time.Now(), l.notices()
	err := l.acquire()
	notices.stop()
	var held *lock.HeldError
	switch {
	case errors.As(err, &held):
		return nil, flockBusy(l, held)
	case err != nil:
		return nil, err
	}
	if opts.verbose {
		out.print(flockLine(flockTook(time.Since(start))))
	}
	return l, nil
}

// run returns when the command has ended, and not at all with -F if there is such a
// command.
func (l *flockLock) run() (supervise.Status, error) {
	command, err := findFlockCommand(l.opts.command)
	if err == nil && l.opts.noFork {
		err = command.Exec()
	}
	if err != nil {
		return supervise.Status{}, err
	}
	process, err := command.Start()
	if err != nil {
		return supervise.Status{}, err
	}
	if err := l.started(process.PID()); err != nil {
		process.Cancel()
		return supervise.Status{}, err
	}
	return process.Run(func() {})
}

// findFlockCommand knows which names execvp(3) does not look for.
func findFlockCommand(words []string) (*supervise.Command, error) {
	const longest = 255 // NAME_MAX (limits.h)
	switch name := words[0]; {
	case name == "":
		return nil, unix.ENOENT
	case len(name) > longest && !strings.Contains(name, "/"):
		return nil, unix.ENAMETOOLONG
	}
	return supervise.Find(words)
}

// flockStartError is about a command that did not run, or whose end cannot be
// found out. That we were told to end has no message.
func flockStartError(name string, err error) error {
	var unknown *supervise.WaitError
	switch {
	case errors.As(err, new(*flockError)), errors.As(err, new(*supervise.InterruptedError)):
		return err
	case errors.As(err, &unknown):
		return &flockError{status: flockFailure, message: "waitpid failed: " + cError(err)}
	case errors.As(err, new(*os.SyscallError)):
		return &flockError{status: flockSystem, message: "fork failed: " + cError(err)}
	case errors.Is(err, unix.EISDIR):
		err = unix.EACCES // as execve(2) has it
	}
	status := flockNoCommand
	if errors.Is(err, unix.ENOMEM) {
		status = flockSystem
	}
	return &flockError{status: status, message: "failed to execute " + name + ": " + cError(err)}
}
