package supervise_test

import (
	"bufio"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"xlock/internal/supervise"
)

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	return strings.TrimSpace(string(out))
}

// execvp(3) runs with /bin/sh what the kernel refuses as no executable format.
func TestScriptWithoutInterpreterLine(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	check(t, os.WriteFile(script, []byte(`echo "$0 $# $2"; exit 0`), 0o755))
	said := script + " 2 two words"
	tests := []struct{ role, want string }{
		{"exec", said},
		{"run", said + "\nbegan true, code 0"},
	}
	for _, tt := range tests {
		t.Run(tt.role, func(t *testing.T) {
			if got := output(t, again(t, tt.role, nil, script, "one", "two words")); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestStatus(t *testing.T) {
	tests := []struct{ script, want string }{
		{"exit 0", "code 0"},
		{"exit 7", "code 7"},
		{"exit 255", "code 255"},
		{"kill -TERM $$", "signal SIGTERM, code 0"},
		{"kill -KILL $$", "signal SIGKILL, code 0"},
		{"ulimit -c 0; kill -SEGV $$", "signal SIGSEGV, code 0"},
	}
	for _, tt := range tests {
		t.Run(tt.script, func(t *testing.T) {
			want := "began true, " + tt.want
			if got := output(t, again(t, "run", nil, "sh", "-c", tt.script)); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// What the kernel refuses in its own good time is an error of the start, and
// the command has not run.
func TestStartFails(t *testing.T) {
	tests := []struct {
		name    string
		content string
		want    error
	}{
		{"missing interpreter", "#!/nowhere/sh\n", fs.ErrNotExist},
		{"interpreter is a directory", "#!/\n", fs.ErrPermission},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "script")
			check(t, os.WriteFile(path, []byte(tt.content), 0o755))
			command, err := supervise.Find([]string{path})
			check(t, err)
			process, err := command.Start()
			check(t, err)
			_, errRun := process.Run(func() { t.Error("said to have begun") })
			for _, err := range []error{errRun, command.Exec()} {
				var pathErr *fs.PathError
				if !errors.As(err, &pathErr) || pathErr.Path != path || !errors.Is(err, tt.want) {
					t.Errorf("%#v, want %v of %s", err, tt.want, path)
				}
			}
		})
	}
}

// A signal sent to the supervisor alone is for the command to act on. Neither
// dies of it here: the command says which it was and exits.
func TestSignalsReachTheCommand(t *testing.T) {
	for _, sig := range []syscall.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1, unix.SIGUSR2,
	} {
		name := unix.SignalName(sig)
		t.Run(name, func(t *testing.T) {
			cmd := again(t, "run", nil, self(t))
			cmd.Env = append(cmd.Env, "XLOCK_TEST_COMMAND=report")
			// A session without a terminal: else INT and QUIT would be taken
			// for the terminal's when the tests run in the foreground.
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			stdout, err := cmd.StdoutPipe()
			check(t, err)
			check(t, cmd.Start())
			lines := bufio.NewScanner(stdout)
			var got []string
			for lines.Scan() {
				got = append(got, lines.Text())
				if lines.Text() == "ready" {
					check(t, cmd.Process.Signal(sig))
				}
			}
			check(t, cmd.Wait())
			want := "ready " + name + " began true, code 3"
			if got := strings.Join(got, " "); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

func TestDieBy(t *testing.T) {
	for _, sig := range []syscall.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGTERM, unix.SIGKILL, unix.SIGPIPE, unix.SIGUSR1,
		unix.SIGQUIT, unix.SIGABRT, unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGXFSZ,
	} {
		t.Run(unix.SignalName(sig), func(t *testing.T) {
			cmd := again(t, "die", nil, strconv.Itoa(int(sig)))
			cmd.Dir = t.TempDir()
			cmd.Stderr = nil
			said, _ := cmd.CombinedOutput()
			ws := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if !ws.Signaled() || ws.Signal() != sig || ws.CoreDump() {
				t.Errorf("%v, core %v", cmd.ProcessState, ws.CoreDump())
			}
			if len(said) > 0 {
				t.Errorf("it said: %.200s", said)
			}
			if left, err := os.ReadDir(cmd.Dir); len(left) > 0 || err != nil {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}
