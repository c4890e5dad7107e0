package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"xlock/internal/lock"
	"xlock/internal/testenv"
)

func TestMain(m *testing.M) {
	if calledFlock() {
		main()
	}
	testscript.Main(m, map[string]func(){
		"xlock": main,
	})
}

// TestScript runs testdata/script, one file per behaviour. Beside the commands
// of testscript there are:
//
//	status N COMMAND...           run it and compare how it ended: an exit status, or a
//	                              signal's name like SIGTERM
//	refuse N PATTERN COMMAND...   status, and all output is one line of xlock's on standard
//	                              error that matches
//	signal NAME N                 send a signal to the Nth background job, from 0; after
//	                              KILL the job has ended
//	queued LOCK N [READERS]       wait until N processes wait for the lock in the kernel,
//	                              and as many readers at the turnstile; -1: N in all
//	holding LOCK                  wait until the record names the running command, which
//	                              is written after the command has started
//	snapshot FILE...              remember what each file is, or that there is none
//	unchanged FILE...             fail unless it is still what it was at the snapshot:
//	                              inode, mode, times and bytes
//	same FILE FILE                compare two files byte for byte
//	socket FILE                   make a Unix socket
//	json FILE [FIELD=VALUE...]    each line is an object with these values; those of
//	                              inspect are as docs/inspect.schema.json says
//	events FILE EVENT...          the lines of --status-fd are these events
//	field FILE N FIELD=VALUE...   the Nth line of JSON, from 0, has these values
//	forge FILE FIELD=VALUE...     write other values into a record, in place
//	gone FILE                     wait until the process has ended whose number is in the file
//	[need:TOOL]                   the machine has it; in strict mode it must
//
// A FIELD is a path like owner.pid or holders.0.pid; a VALUE that begins with @
// is the content of a file, and an empty one stands for no such field.
//
// A script never sleeps to wait for something. It uses FIFOs: 'cat ready' ends
// when a command writes to it, and 'read x <go' keeps one until told.
func TestScript(t *testing.T) {
	testscript.Run(t, scripts(t, "script", setup))
}

// TestCases runs testdata/cases, which has the same commands: one script for each
// fault that was reported against another program.
func TestCases(t *testing.T) {
	testscript.Run(t, scripts(t, "cases", setup))
}

// scripts are those of a folder in testdata.
func scripts(t *testing.T, folder string, setup func(*testing.T, *testscript.Env) error) testscript.Params {
	return testscript.Params{
		Dir:                 filepath.Join(testenv.Root(), "testdata", folder),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") == "1",
		Setup:               func(env *testscript.Env) error { return setup(t, env) },
		Condition:           condition,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status":    cmdStatus,
			"refuse":    cmdRefuse,
			"signal":    cmdSignal,
			"queued":    cmdQueued,
			"holding":   cmdHolding,
			"snapshot":  cmdSnapshot,
			"unchanged": cmdUnchanged,
			"same":      cmdSame,
			"socket":    cmdSocket,
			"json":      cmdJSON,
			"forge":     cmdForge,
			"events":    cmdEvents,
			"field":     cmdField,
			"gone":      cmdGone,
		},
	}
}

func setup(t *testing.T, env *testscript.Env) error {
	path := env.Getenv("PATH")
	tools := filepath.Join(testenv.Root(), ".tools", "bin")
	// The race detector would hold up each exit for a second.
	env.Setenv("GORACE", "atexit_sleep_ms=0")
	env.Setenv("PATH", path+string(filepath.ListSeparator)+tools)
	env.Values[snapshotsKey{}] = snapshots{}
	env.Defer(func() { killAll(env.WorkDir) })
	if deadline, ok := t.Deadline(); ok {
		// A hang is to end as the failure of its script, before go test panics.
		hang := time.AfterFunc(time.Until(deadline)*9/10, func() { killAll(env.WorkDir) })
		env.Defer(func() { hang.Stop() })
	}
	// Scripts run xlock as other users too: let them reach it and the work
	// directory.
	bin, _, _ := strings.Cut(path, string(filepath.ListSeparator))
	for _, dir := range []string{filepath.Dir(bin), filepath.Dir(env.WorkDir), env.WorkDir} {
		if err := os.Chmod(dir, 0o755); err != nil {
			return err
		}
	}
	return nil
}

// killAll ends what a script that failed or hangs has left running, which would
// keep waiting for a word from the script. Every process of a script has its work
// directory in the environment.
func killAll(workDir string) {
	mine := []byte("\x00WORK=" + workDir + "\x00")
	for found := true; found; {
		found = false
		files, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, file := range files {
			environ, _ := os.ReadFile(file)
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err == nil && bytes.Contains(append([]byte{0}, environ...), mine) {
				found = true
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
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
		ts.Fatalf("usage: status N|SIGNAL COMMAND...")
	}
	if got := end(ts, ts.Exec(args[1], args[2:]...)); got != args[0] {
		ts.Fatalf("ended with %s, want %s", got, args[0])
	}
}

// end is how a command ended: its exit status, or the name of the signal.
func end(ts *testscript.TestScript, err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return "0"
	case errors.As(err, &exit):
		if ws := exit.Sys().(syscall.WaitStatus); ws.Signaled() {
			return unix.SignalName(ws.Signal())
		}
		return strconv.Itoa(exit.ExitCode())
	}
	ts.Fatalf("%v", err)
	return ""
}

func cmdRefuse(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: refuse N PATTERN COMMAND...")
	}
	pattern, err := regexp.Compile("^xlock: .*(" + args[1] + ").*\n$")
	ts.Check(err)
	cmdStatus(ts, false, append(args[:1:1], args[2:]...))
	if stdout := ts.ReadFile("stdout"); stdout != "" {
		ts.Fatalf("standard output is not empty: %q", stdout)
	}
	if stderr := ts.ReadFile("stderr"); !pattern.MatchString(stderr) {
		ts.Fatalf("standard error is not one line that matches %s: %q", pattern, stderr)
	}
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
	if sig == unix.SIGKILL {
		awaitEnd(ts, jobs[n].Process.Pid)
	}
}

// awaitEnd leaves the reaping to testscript, which may have done it already:
// ECHILD.
func awaitEnd(ts *testscript.TestScript, pid int) {
	err := error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		err = unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
	}
	if !errors.Is(err, unix.ECHILD) {
		ts.Check(err)
	}
}

func cmdQueued(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: queued LOCK N [READERS]")
	}
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	readers := 0
	if len(args) == 3 {
		readers, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	await(ts, args[0], func(r *lock.Report) bool {
		waiters := distinct(r.Kernel.Waiters)
		if readers < 0 {
			return waiters+r.Kernel.Readers == want
		}
		return waiters == want && r.Kernel.Readers == readers
	})
}

// distinct: /proc/locks takes several read(2), and what changes in between can
// make a line appear twice (seen on Linux 6.18).
func distinct(pids []int) int {
	return len(slices.Compact(slices.Sorted(slices.Values(pids))))
}

func cmdHolding(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: holding LOCK")
	}
	await(ts, args[0], func(r *lock.Report) bool {
		record := r.Content.Record
		return record != nil && record.State == lock.StateHeld && record.Command != nil && record.Command.PID != 0
	})
}

// await looks again and again, as nobody tells when another process begins to
// wait in the kernel, or has written its record.
func await(ts *testscript.TestScript, path string, is func(*lock.Report) bool) {
	for {
		report, err := lock.Inspect(ts.MkAbs(path))
		ts.Check(err)
		if is(report) {
			return
		}
		runtime.Gosched()
	}
}

func cmdSame(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: same FILE FILE")
	}
	if equal := ts.ReadFile(args[0]) == ts.ReadFile(args[1]); equal == neg {
		ts.Fatalf("%s and %s: equal is %v", args[0], args[1], equal)
	}
}

func cmdSocket(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: socket FILE")
	}
	listener, err := net.Listen("unix", ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Defer(func() { listener.Close() })
}
