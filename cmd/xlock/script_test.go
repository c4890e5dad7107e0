package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"xlock/internal/testenv"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"xlock": main,
	})
}

// TestScript runs testdata/script, one file per behaviour. Beside the commands
// of testscript there are:
//
//	status N COMMAND...  run it and compare its exit status; 128+S for a signal S
//	signal NAME N        send a signal to the Nth background job, from 0
//	same FILE FILE       compare two files byte for byte
//	[need:TOOL]          the machine has it; in strict mode it must
//
// A script never sleeps to wait for something. It uses FIFOs: 'cat ready' ends
// when a command writes to it, and 'read x <go' keeps one until told.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join(testenv.Root(), "testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") == "1",
		Setup: func(env *testscript.Env) error {
			tools := filepath.Join(testenv.Root(), ".tools", "bin")
			// The race detector would hold up each exit for a second.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("PATH", env.Getenv("PATH")+string(filepath.ListSeparator)+tools)
			return nil
		},
		Condition: condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": cmdStatus,
			"signal": cmdSignal,
			"same":   cmdSame,
		},
	})
}

// condition answers [need:TOOL]. That a tool is missing is an error in strict
// mode, which fails the script.
func condition(cond string) (bool, error) {
	need, ok := strings.CutPrefix(cond, "need:")
	if !ok {
		return false, fmt.Errorf("unknown condition %q", cond)
	}
	why := testenv.Missing(need)
	if why != "" && testenv.Strict() {
		return false, fmt.Errorf("%s, and strict mode leaves no test out", why)
	}
	return why == "", nil
}

func cmdStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := exitCodeOf(ts, ts.Exec(args[1], args[2:]...)); got != want {
		ts.Fatalf("status %d, want %d", got, want)
	}
}

func exitCodeOf(ts *testscript.TestScript, err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		if ws := exit.Sys().(syscall.WaitStatus); ws.Signaled() {
			return 128 + int(ws.Signal())
		}
		return exit.ExitCode()
	}
	ts.Fatalf("%v", err)
	return 0
}

// cmdSignal goes by the order in which the jobs were started, since their
// names are not to be had.
func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: signal NAME N")
	}
	sig := unix.SignalNum("SIG" + args[0])
	n, err := strconv.Atoi(args[1])
	jobs := ts.BackgroundCmds()
	if sig == 0 || err != nil || n < 0 || n >= len(jobs) {
		ts.Fatalf("no such signal or background job: %v", args)
	}
	ts.Check(jobs[n].Process.Signal(sig))
}

func cmdSame(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: same FILE FILE")
	}
	if equal := ts.ReadFile(args[0]) == ts.ReadFile(args[1]); equal == neg {
		ts.Fatalf("%s and %s: equal is %v", args[0], args[1], equal)
	}
}
