package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// A command that dies by a signal that dumps core takes xlock along by the same
// signal, but the core is the command's alone.
func TestNoCoreOfItsOwn(t *testing.T) {
	for _, name := range []string{"SEGV", "QUIT", "ABRT", "KILL", "TERM"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			check(t, os.Mkdir(s.path("inner"), 0o777))
			c := s.command("sh", "-c", `ulimit -c unlimited; exec "$0" run lock sh -c 'cd inner; kill -`+name+` $$'`, s.xlock)
			_ = c.Run()
			ws := c.ProcessState.Sys().(syscall.WaitStatus)
			if want := unix.SignalNum("SIG" + name); ws.Signal() != want || ws.CoreDump() {
				t.Errorf("ended with %v", c.ProcessState)
			}
			if cores := s.cores("."); len(cores) > 0 {
				t.Errorf("left %v", cores)
			}
			if dumps(name) && plainPattern(t) && len(s.cores("inner")) == 0 {
				t.Error("the command's own core is missing: this test sees nothing")
			}
		})
	}
}

func dumps(name string) bool { return name == "SEGV" || name == "QUIT" || name == "ABRT" }

func (s *stage) cores(dir string) []string {
	found, err := filepath.Glob(filepath.Join(s.dir, dir, "core*"))
	check(s.T, err)
	return found
}

// plainPattern reports whether cores are files in the working directory (core(5)).
func plainPattern(t *testing.T) bool {
	text, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	check(t, err)
	return strings.TrimSpace(string(text)) == "core"
}
