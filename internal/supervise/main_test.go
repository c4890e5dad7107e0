package supervise_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"xlock/internal/supervise"
)

// roles are what a second process of this test binary can be: the environment
// variable XLOCK_TEST_ROLE names one, and its result is the exit status.
var roles = map[string]func() int{
	"run":         roleRun,
	"exec":        roleExec,
	"report":      roleReport,
	"die":         roleDie,
	"interrupted": roleInterrupted,
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
	line := append(append(prefix, self(t)), args...)
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	cmd.Env = append(os.Environ(), "XLOCK_TEST_ROLE="+role, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = t.Output()
	return cmd
}

func self(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	check(t, err)
	return exe
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// roleRun supervises the command of its arguments, and tells its number and how
// it ended. The command's own role comes from XLOCK_TEST_COMMAND.
func roleRun() int {
	os.Setenv("XLOCK_TEST_ROLE", os.Getenv("XLOCK_TEST_COMMAND"))
	command, err := supervise.Find(os.Args[1:])
	if err != nil {
		return roleFailed(err)
	}
	process, err := command.Start()
	if err != nil {
		return roleFailed(err)
	}
	began := false
	status, err := process.Run(func() { began = true })
	if err != nil {
		return roleFailed(err)
	}
	fmt.Printf("began %t, %s\n", began, describe(status))
	return 0
}

// describe says how a command ended.
func describe(s supervise.Status) string {
	if s.Signal != 0 {
		return fmt.Sprintf("signal %s, code %d", unix.SignalName(s.Signal), s.Code)
	}
	return fmt.Sprintf("code %d", s.Code)
}

// roleExec replaces itself by the command of its arguments. Where that fails it
// exits as a shell does, and as env(1) does.
func roleExec() int {
	os.Unsetenv("XLOCK_TEST_ROLE")
	command, err := supervise.Find(os.Args[1:])
	if err == nil {
		err = command.Exec()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return 127
	}
	return 126
}

// roleReport tells that it is ready, and then the first signal it gets.
func roleReport() int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2)
	fmt.Println("ready")
	fmt.Println(unix.SignalName((<-signals).(syscall.Signal)))
	return 3
}

// roleDie ends by the signal of its number, where a core would be written if
// anything allowed it.
func roleDie() int {
	sig, err := strconv.Atoi(os.Args[1])
	if err != nil {
		return roleFailed(err)
	}
	var limit unix.Rlimit
	_ = unix.Getrlimit(unix.RLIMIT_CORE, &limit)
	limit.Cur = limit.Max
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &limit)
	supervise.DieBy(syscall.Signal(sig))
	return 0
}

func roleFailed(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
