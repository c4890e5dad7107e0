package fdprobe_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"xlock/internal/fdprobe"
)

// roles are what a second process of this test binary can be: the environment
// variable XLOCK_TEST_ROLE names one, and its result is the exit status.
var roles = map[string]func() int{
	"probe":      roleProbe,
	"hold":       roleHold,
	"hold-exec":  roleHoldExec,
	"many-files": roleManyFiles,
}

func TestMain(m *testing.M) {
	if role, ok := roles[os.Getenv("XLOCK_TEST_ROLE")]; ok {
		os.Exit(role())
	}
	os.Exit(m.Run())
}

// again makes a command of this test binary in a role, run through the
// programs of the prefix if there is one.
func again(t *testing.T, role string, prefix []string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	line := append(append(prefix, exe), args...)
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	cmd.Env = append(os.Environ(), "XLOCK_TEST_ROLE="+role, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = t.Output()
	return cmd
}

// answersOf runs a role and returns the answers it printed.
func answersOf(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	return strings.TrimSpace(string(out))
}

// roleProbe probes the file named by its first argument.
func roleProbe() int {
	f := roleOpen(fdprobe.NotAHold)
	return roleAnswer(f)
}

// roleHold has a hold on the file while it probes it.
func roleHold() int {
	defer roleOpen(0).Close()
	return roleProbe()
}

// roleHoldExec has a hold, probes, and then replaces itself by a process that
// probes as well. With "inherit" as its second argument the hold is not
// close-on-exec.
func roleHoldExec() int {
	f := roleOpen(fdprobe.NotAHold)
	if err := fdprobe.MarkHold(f); err != nil {
		return roleFailed(err)
	}
	if len(os.Args) > 2 && os.Args[2] == "inherit" {
		if _, err := unix.FcntlInt(f.Fd(), unix.F_SETFD, 0); err != nil {
			return roleFailed(err)
		}
	}
	roleProbe()
	os.Setenv("XLOCK_TEST_ROLE", "probe")
	exe, err := os.Executable()
	if err == nil {
		err = syscall.Exec(exe, os.Args, os.Environ())
	}
	return roleFailed(err)
}

// roleManyFiles probes with nearly 20,000 other descriptors open, first without
// a hold and then with one, the last of the table.
func roleManyFiles() int {
	const most, many = 20_000, 19_900
	limit := unix.Rlimit{Cur: most, Max: most}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return roleFailed(err)
	}
	for range many {
		if _, err := unix.Dup(0); err != nil {
			return roleFailed(err)
		}
	}
	roleProbe()
	return roleHold()
}

func roleOpen(flags int) *os.File {
	f, err := os.OpenFile(os.Args[1], os.O_RDWR|flags, 0)
	if err != nil {
		os.Exit(roleFailed(err))
	}
	return f
}

func roleAnswer(f *os.File) int {
	answer, err := fdprobe.Probe(f)
	fmt.Println(answer, err)
	return 0
}

func roleFailed(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
