// Package supervise runs a command as if nobody stood between it and its
// caller: with the caller's descriptors, directory, process group, terminal
// and limits, passing on the signals that were meant for it.
package supervise

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
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
		err = run(shell, c.shellArgs())
	}
	if err != nil {
		return c.failed(err)
	}
	return nil
}

const shell = "/bin/sh"

func (c *Command) shellArgs() []string {
	return append([]string{shell, c.path}, c.args[1:]...)
}

// failed is the error of a command that could not be executed.
func (c *Command) failed(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		err = errno
	}
	return &fs.PathError{Op: "exec", Path: c.path, Err: err}
}
