package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"xlock/internal/testenv"
)

// tmux is a real terminal with a screen that can be read.
type tmux struct {
	bench
	socket string
}

// newTmux runs a script in a terminal of 100 columns and 20 rows.
func newTmux(t *testing.T, script string) *tmux {
	t.Helper()
	testenv.Need(t, "tmux")
	s := &tmux{bench: newBench(t)}
	s.socket = s.path("tmux")
	s.run("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "20", "sh", "-c", script)
	t.Cleanup(func() { _ = s.tmux("kill-server").Run() })
	return s
}

func (s *tmux) tmux(args ...string) *exec.Cmd {
	return s.command(append([]string{"tmux", "-S", s.socket}, args...)...)
}

func (s *tmux) run(args ...string) string {
	s.t.Helper()
	output, err := s.tmux(args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("tmux %v: %v: %s", args, err, output)
	}
	return string(output)
}

// shows waits until the screen matches, and returns it.
func (s *tmux) shows(pattern string) string {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	var screen string
	s.await(pattern, func() bool {
		screen = s.run("capture-pane", "-p")
		return re.MatchString(screen)
	})
	return screen
}

// startSleeper runs a command under the lock, and returns once the record names it.
func (b bench) startSleeper() *exec.Cmd {
	b.t.Helper()
	cmd := b.command("xlock", "run", "--label", "night build", "lock", "sleep", "1000")
	b.check(cmd.Start())
	b.holding()
	return cmd
}

// testdata/watch has the screens that were looked at, with what differs from run to
// run put in order; UPDATE_SCRIPTS=1 writes them anew.
func (s *tmux) wantScreen(name, screen string) {
	s.t.Helper()
	path := filepath.Join(testenv.Root(), "testdata", "watch", name)
	got := strings.TrimRight(settle(strings.ReplaceAll(screen, s.dir, "/srv/app")), "\n") + "\n"
	if os.Getenv("UPDATE_SCRIPTS") == "1" {
		s.check(os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	s.check(err)
	if got != string(want) {
		s.t.Errorf("the screen shows\n%s\nwant %s:\n%s", got, name, want)
	}
}

// A terminal shows the lock, follows what becomes of it, and is left as it was.
func TestWatchOnATerminal(t *testing.T) {
	s := newTmux(t, "trap : INT; echo before; PS1=; read x; xlock inspect --watch lock; echo \"ended with $?\"; read x")
	s.check(os.WriteFile(s.path("lock"), nil, 0o600))
	s.shows("before")
	s.run("send-keys", "Enter")
	s.wantScreen("never-held.txt", s.shows("lock: free"))
	holder := s.startSleeper()
	s.wantScreen("held.txt", s.shows("lock: held[^$]*sleep 1000"))
	waiter := s.command("xlock", "run", "-q", "lock", "true")
	s.check(waiter.Start())
	s.shows("waiting: +1. pid")
	s.check(holder.Process.Signal(unix.SIGTERM))
	_ = holder.Wait()
	s.check(waiter.Wait())
	s.wantScreen("released.txt", s.shows("lock: free[^$]*exit status 0"))
	s.run("send-keys", "C-c")
	screen := s.shows("ended with 130")
	if !strings.HasPrefix(screen, "before") || strings.Contains(screen, "lock:") {
		t.Errorf("the screen is left with\n%s", screen)
	}
}

// What has been told is not told again.
func TestWatchTellsAChangeOnce(t *testing.T) {
	b := newBench(t)
	var output strings.Builder
	v := &view{w: &output, locks: []*watchedLock{{path: b.path("lock")}}}
	looks := func() int {
		output.Reset()
		b.check(v.look())
		b.check(v.look())
		return strings.Count(output.String(), "\n")
	}
	if n := looks(); n != 1 {
		t.Errorf("%d lines at first", n)
	}
	b.check(os.WriteFile(b.path("lock"), nil, 0o600))
	if n := looks(); n != 1 {
		t.Errorf("%d lines of one change", n)
	}
}

// On a pipe there is a line per change, and no more.
func TestWatchOnAPipe(t *testing.T) {
	b := newBench(t)
	cmd, output := b.startAlone("xlock", "inspect", "--watch", "lock")
	said := output.expect(`lock: free, there is no such file yet\n`)
	holder := b.startSleeper()
	said += output.expect(`lock: held, the process lives, pid \d+ \(sleep\)\n`)
	b.check(holder.Process.Signal(unix.SIGTERM))
	_ = holder.Wait()
	said += output.expect(`lock: free, its last holder released it\n`)
	other := b.command("flock", "lock", "sleep", "1000")
	b.check(other.Start())
	said += output.expect(`lock: held, flock\(2\) is held by somebody whom its record does not name, pid \d+\n`)
	if n := strings.Count(said, "\n"); n > 5 { // between the file and its record it can be seen without one
		t.Errorf("%d lines for four changes:\n%s", n, said)
	}
	if strings.Contains(said, "\x1b") {
		t.Errorf("control sequences on a pipe: %q", said)
	}
	b.check(cmd.Process.Signal(unix.SIGTERM))
	b.ended(cmd, "SIGTERM")
}

// Colours are for a terminal, and for nobody who does not want them.
func TestColours(t *testing.T) {
	tests := []struct {
		name, command string
		want          string
	}{
		{"a terminal", "xlock inspect lock", "lock: \x1b[1;32mfree\x1b[m, "},
		{"no colour wanted", "NO_COLOR=1 xlock inspect lock", "lock: free, "},
		{"a terminal that has none", "TERM=dumb xlock inspect lock", "lock: free, "},
		{"a pipe", "xlock inspect lock | cat", "lock: free, "},
		{"for programs", "xlock inspect --json lock", `"state":"free"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tty := newTerminal(t)
			tty.start("env", "TERM=xterm", "sh", "-c", tt.command)
			tty.expect(regexp.QuoteMeta(tt.want))
		})
	}
}

// Who stops a watch has the screen as it was, and gets the view back later.
func TestWatchIsStopped(t *testing.T) {
	tty := newTerminal(t)
	cmd := tty.start("env", "TERM=xterm", "xlock", "inspect", "--watch", "lock")
	tty.expect(`\x1b\[\?1049h[^$]*lock: `)
	tty.send(cmd.Process.Pid, unix.SIGTSTP)
	tty.expect(`\x1b\[\?1049l`)
	tty.await("it is stopped", func() bool { return tty.state(cmd.Process.Pid) == "T" })
	tty.send(cmd.Process.Pid, unix.SIGCONT)
	tty.expect(`\x1b\[\?1049h[^$]*lock: `)
	tty.send(cmd.Process.Pid, unix.SIGTERM)
	tty.expect(`\x1b\[\?1049l`)
	tty.ended(cmd, "SIGTERM")
}

// A watch that nobody reads any more ends, also while nothing changes.
func TestWatchIsNotRead(t *testing.T) {
	b := newBench(t)
	out, stdout, err := os.Pipe()
	b.check(err)
	cmd := b.command("xlock", "inspect", "--watch", "lock")
	cmd.Stdout = stdout
	b.check(cmd.Start())
	b.check(stdout.Close())
	_, err = out.Read(make([]byte, 1000))
	b.check(err)
	b.check(out.Close())
	b.ended(cmd, "SIGPIPE")
}
