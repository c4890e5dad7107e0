package supervise_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"xlock/internal/supervise"
	"xlock/internal/testenv"
)

// program writes a script that says its path below the top directory.
func program(t *testing.T, top, path string, mode os.FileMode) {
	t.Helper()
	full := filepath.Join(top, path)
	check(t, os.MkdirAll(filepath.Dir(full), 0o755))
	check(t, os.WriteFile(full, []byte("#!/bin/sh\necho "+path+"\n"), mode))
}

// findTree changes to a directory with these programs:
//
//	here  the working directory's own
//	a/x   executable         b/x  executable
//	c/x   not executable     d/x  a directory
//	e/x   a dangling link    f    a file where PATH wants a directory
func findTree(t *testing.T) {
	top := t.TempDir()
	program(t, top, "here", 0o755)
	program(t, top, "a/x", 0o755)
	program(t, top, "b/x", 0o755)
	program(t, top, "c/x", 0o644)
	program(t, top, "f", 0o644)
	check(t, os.MkdirAll(filepath.Join(top, "d/x"), 0o755))
	check(t, os.Mkdir(filepath.Join(top, "e"), 0o755))
	check(t, os.Symlink("nowhere", filepath.Join(top, "e/x")))
	t.Chdir(top)
}

// Find must find what execvp(3) would: env(1), which calls it, is asked the
// same.
func TestFind(t *testing.T) {
	testenv.Need(t, "env")
	const unset = "unset"
	tests := []struct {
		name string
		path string
		arg  string
		want string // what the program says; else
		err  error  // what the error must match; nil: anything
	}{
		{"the first on PATH", "a:b", "x", "a/x", nil},
		{"a directory without it", "e:/nowhere:b", "x", "b/x", nil},
		{"PATH begins with an empty entry", ":a", "here", "here", nil},
		{"PATH ends with an empty entry", "a:", "here", "here", nil},
		{"PATH has an empty entry inside", "a::b", "here", "here", nil},
		{"PATH is empty", "", "here", "here", nil},
		{"no empty entry", "a:b", "here", "", fs.ErrNotExist},
		{"not executable before", "c:b", "x", "b/x", nil},
		{"not executable behind", "b:c", "x", "b/x", nil},
		{"not executable alone", "c:e", "x", "", fs.ErrPermission},
		{"a directory before", "d:b", "x", "b/x", nil},
		{"a directory alone", "d", "x", "", nil},
		{"PATH names a file", "f:b", "x", "b/x", nil},
		{"a dangling link", "e", "x", "", fs.ErrNotExist},
		{"missing", "a:b", "y", "", fs.ErrNotExist},
		{"missing, PATH unset", unset, "x", "", fs.ErrNotExist},
		{"a path", "/nowhere", "a/x", "a/x", nil},
		{"a path with a dot", "/nowhere", "./here", "here", nil},
		{"a path that is missing", "a", "a/y", "", fs.ErrNotExist},
		{"a path that is not executable", "a", "c/x", "", fs.ErrPermission},
		{"a path that is a directory", "a", "d/x", "", nil},
		{"a path through a file", "a", "f/x", "", nil},
	}
	env, err := exec.LookPath("env")
	check(t, err)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			findTree(t)
			t.Setenv("PATH", tt.path)
			if tt.path == unset {
				os.Unsetenv("PATH")
			}
			_, err := supervise.Find([]string{tt.arg})
			if tt.want != "" && err != nil || tt.want == "" && err == nil || tt.err != nil && !errors.Is(err, tt.err) {
				t.Errorf("Find = %v, want %v", err, tt.err)
			}
			var pathErr *fs.PathError
			if err != nil && !errors.As(err, &pathErr) {
				t.Errorf("Find = %#v, want a PathError", err)
			}
			ours, theirs := outcome(t, again(t, "exec", nil, tt.arg)), outcome(t, exec.CommandContext(t.Context(), env, tt.arg))
			if ours != theirs || ours.said != said(tt.want) {
				t.Errorf("found %v, want %v; env(1) found %v", ours, tt.want, theirs)
			}
		})
	}
}

type result struct {
	said   string
	status int
}

func said(line string) string {
	if line == "" {
		return ""
	}
	return line + "\n"
}

func outcome(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{string(out), cmd.ProcessState.ExitCode()}
}

func TestName(t *testing.T) {
	findTree(t)
	command, err := supervise.Find([]string{"./a/x", "an argument"})
	check(t, err)
	if got := command.Name(); got != "x" {
		t.Errorf("Name = %q", got)
	}
}
