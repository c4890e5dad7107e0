// Package supervise runs a command as if nobody stood between it and its
// caller: with the caller's descriptors, directory, process group, terminal
// and limits, passing on the signals that were meant for it.
package supervise

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Command is a program to run, found and ready.
type Command struct {
	path string
	args []string
}

// Find looks a command up as execvp(3) does: a name with a slash is a path, any
// other is searched for in PATH, where an empty entry is the working directory.
// It fails with an error that matches [fs.ErrNotExist] when there is none, and
// with one that matches [fs.ErrPermission] when there is one that may not be
// executed.
func Find(args []string) (*Command, error) {
	name := args[0]
	if strings.Contains(name, "/") {
		path, err := exec.LookPath(name)
		return &Command{path, args}, unwrap(name, err)
	}
	const defaultPath = "/bin:/usr/bin" // execvp(3), glibc 2.24 and later
	list, set := os.LookupEnv("PATH")
	if !set {
		list = defaultPath
	}
	failure := error(&fs.PathError{Op: "exec", Path: name, Err: fs.ErrNotExist})
	for dir := range strings.SplitSeq(list, string(filepath.ListSeparator)) {
		if dir == "" {
			dir = "."
		}
		path, err := exec.LookPath(dir + "/" + name)
		if err == nil {
			return &Command{path, args}, nil
		}
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EISDIR) {
			failure = unwrap(dir+"/"+name, err)
		}
	}
	return nil, failure
}

// unwrap takes the errno out of what exec.LookPath says in its own words.
func unwrap(path string, err error) error {
	if err == nil {
		return nil
	}
	var inner *exec.Error
	if errors.As(err, &inner) {
		err = inner.Err
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	if errors.Is(err, exec.ErrNotFound) {
		err = fs.ErrNotExist
	}
	return &fs.PathError{Op: "exec", Path: path, Err: err}
}

// Name is the command's name without its directory.
func (c *Command) Name() string { return filepath.Base(c.path) }

// Exec replaces this program by the command, in the same process. Descriptors
// that are not close-on-exec go along. It returns only if that fails.
func (c *Command) Exec() error {
	return c.orShell(func(path string, args []string) error {
		return syscall.Exec(path, args, os.Environ())
	})
}

// orShell runs a script that has no #! line with /bin/sh, as execvp(3) does.
func (c *Command) orShell(run func(path string, args []string) error) error {
	err := run(c.path, c.args)
	if errors.Is(err, syscall.ENOEXEC) {
		const shell = "/bin/sh"
		err = run(shell, append([]string{shell, c.path}, c.args[1:]...))
	}
	if err != nil {
		return &fs.PathError{Op: "exec", Path: c.path, Err: errnoOf(err)}
	}
	return nil
}

func errnoOf(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// Status is how a command ended: with an exit code, or by a signal.
type Status struct {
	Code   int
	Signal syscall.Signal // 0: it exited
}

// forwarded are the signals that are passed on to the command when they are
// sent to this process alone.
func forwarded() []os.Signal {
	return []os.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2,
	}
}

// Run starts the command, calls started with its process number, and returns
// how it ended. While it runs, signals that ask this process to do something
// are the command's to act on: it may clean up, and is waited for.
func (c *Command) Run(started func(pid int)) (Status, error) {
	signals := make(chan os.Signal, 16)
	for _, sig := range forwarded() {
		// A signal that was ignored when this process started stays ignored
		// for the command as well; Notify would reset that. Only an ignored HUP, INT and TSTP can be
		// seen: the Go runtime has taken over the others before this code runs.
		if !signal.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
	defer signal.Stop(signals)
	var process *os.Process
	err := c.orShell(func(path string, args []string) error {
		var err error
		process, err = os.StartProcess(path, args, &os.ProcAttr{
			Env:   os.Environ(),
			Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		})
		return err
	})
	if err != nil {
		return Status{}, err
	}
	started(process.Pid)
	done := make(chan struct{})
	defer close(done)
	go forward(signals, process, done)
	state, err := process.Wait()
	if err != nil {
		return Status{}, err
	}
	return statusOf(state), nil
}

func forward(signals <-chan os.Signal, process *os.Process, done <-chan struct{}) {
	for {
		select {
		case sig := <-signals:
			if !fromTerminal(sig) {
				_ = process.Signal(sig) // it may have ended already
			}
		case <-done:
			return
		}
	}
}

// fromTerminal guesses whether the terminal sent the signal: then the command,
// which is in our process group, has it already.
func fromTerminal(sig os.Signal) bool {
	if sig != unix.SIGINT && sig != unix.SIGQUIT {
		return false
	}
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	foreground, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && foreground == unix.Getpgrp()
}

func statusOf(state *os.ProcessState) Status {
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return Status{Signal: ws.Signal()}
	}
	return Status{Code: state.ExitCode()}
}
