package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"text/tabwriter"

	"golang.org/x/sys/unix"

	"xlock/internal/lock"
	"xlock/internal/testenv"
)

const screenLock = "deploy.lock"

// screens are the blocks of docs/screens.md: what happens before, what is typed
// into the terminal, and what is to be seen at last.
var screens = []struct {
	name    string
	before  func(b bench)
	typed   []string
	pattern string
}{
	{"waiting", bench.deploys, []string{"xlock run deploy.lock ./deploy"}, `waiting [2-9]s`},
	{"waiting-in-a-log", bench.deploys, []string{"xlock run deploy.lock ./deploy 2>&1 | cat"}, `waiting 1s`},
	{"busy", bench.deploys, []string{"xlock run -n deploy.lock ./deploy", "xlock run -w 0.1 deploy.lock ./deploy"}, `gave up`},
	{"held", bench.deploys, []string{"xlock inspect deploy.lock"}, `next: `},
	{"free", bench.deployed, []string{"xlock inspect deploy.lock"}, `exit status 3`},
	{"abandoned", bench.deploysNoMore, []string{"xlock inspect deploy.lock"}, `next: `},
	{"command-runs", bench.deploysAlone, []string{"xlock inspect deploy.lock"}, `next: `},
	{"unknown", bench.deploysElsewhere, []string{"xlock inspect deploy.lock"}, `next: `},
	{"shared", bench.reads, []string{"xlock inspect deploy.lock"}, `next: `},
	{"directory", bench.deploys, []string{"xlock run build.lock true", "xlock inspect ."}, `free`},
	{"watch", bench.deploys, []string{"xlock inspect --watch deploy.lock"}, `\^C ends this`},
	{"watch-in-a-log", bench.deploys, []string{"xlock inspect --watch deploy.lock | cat"}, `held`},
}

// TestScreens compares what a terminal shows with docs/screens.md;
// UPDATE_SCRIPTS=1 writes it there.
func TestScreens(t *testing.T) {
	document := filepath.Join(testenv.Root(), "docs", "screens.md")
	text, err := os.ReadFile(document)
	check(t, err)
	shown := string(text)
	for _, screen := range screens {
		t.Run(screen.name, func(t *testing.T) {
			testenv.Need(t, "tmux")
			b := newBench(t)
			b.program("deploy", "#!/bin/sh\necho >begun; exec sleep 1000\n")
			screen.before(b)
			got := b.screen(screen.typed, screen.pattern)
			block := regexp.MustCompile("(?s)```text " + regexp.QuoteMeta(screen.name) + "\n(.*?)```")
			want := block.FindStringSubmatch(shown)
			if want == nil || got != want[1] {
				t.Errorf("%s: docs/screens.md shows\n%s\nbut it is\n%s", screen.name, want, got)
			}
			shown = block.ReplaceAllLiteralString(shown, "```text "+screen.name+"\n"+got+"```")
		})
	}
	if os.Getenv("UPDATE_SCRIPTS") == "1" {
		check(t, os.WriteFile(document, []byte(shown), 0o644))
	}
}

// screen types commands into a terminal, and returns what it shows.
func (b bench) screen(commands []string, pattern string) string {
	b.t.Helper()
	s := &tmux{bench: b, socket: b.path("tmux")}
	var script strings.Builder
	for _, command := range commands {
		script.WriteString("echo '$ " + command + "'\n" + command + "\n")
	}
	s.run("-f", "/dev/null", "new-session", "-d", "-x", "180", "-y", "30", "sh", "-c", script.String()+"read _\n")
	b.t.Cleanup(func() { _ = s.tmux("kill-server").Run() })
	seen := settle(strings.ReplaceAll(s.shows(pattern), b.dir, "/srv/app"))
	return strings.TrimRight(settleScreen(seen), "\n") + "\n"
}

// settleScreen takes out what differs from run to run and does not in console
// blocks. Whether a dead orphan is still a zombie is up to the init.
func settleScreen(seen string) string {
	if host, err := os.Hostname(); err == nil {
		seen = strings.ReplaceAll(seen, "host name is "+host, "host name is web1")
	}
	for _, settled := range [][2]string{
		{`waiting \d+s`, "waiting 3s"},
		{`(pid 1), \d+`, "$1, 2"},
		{`(?m)^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d `, "2026-01-01 00:00:00 "},
		{`(?m)^ +zombie, .*\n`, ""},
		{`(\(deploy\)  +)\d+s`, "${1}0s"},
	} {
		seen = regexp.MustCompile(settled[0]).ReplaceAllString(seen, settled[1])
	}
	return alignTable(seen)
}

// alignTable: the width of a table's column goes with that of the PIDs.
func alignTable(seen string) string {
	if !strings.Contains(seen, "LOCK  ") {
		return seen
	}
	var aligned strings.Builder
	w := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, regexp.MustCompile(` {2,}`).ReplaceAllString(seen, "\t"))
	_ = w.Flush()
	return aligned.String()
}

func (b bench) startDeploy(args ...string) *exec.Cmd {
	b.t.Helper()
	cmd := b.command(append(args, screenLock, "./deploy")...)
	b.check(cmd.Start())
	return cmd
}

func (b bench) deployLock() *lock.Report {
	report, err := lock.Inspect(b.path(screenLock))
	b.check(err)
	return report
}

// deployPID waits until the record names the command, and the command runs.
func (b bench) deployPID() (pid int) {
	b.t.Helper()
	b.await("a command under the lock", func() bool {
		record := b.deployLock().Content.Record
		if record == nil || record.Command == nil {
			return false
		}
		pid = record.Command.PID
		_, err := os.Stat(b.path("begun"))
		return pid != 0 && err == nil
	})
	return pid
}

func (b bench) deploys() {
	b.startDeploy("xlock", "run", "--label", "nightly")
	b.deployPID()
}

func (b bench) deployed() {
	b.program("deploy", "#!/bin/sh\nexit 3\n")
	_ = b.startDeploy("xlock", "run", "--label", "nightly").Wait()
}

func (b bench) deploysAlone() {
	wrapper := b.startDeploy("xlock", "run", "--label", "nightly")
	b.deployPID()
	b.check(wrapper.Process.Kill())
	_ = wrapper.Wait()
}

func (b bench) deploysNoMore() {
	wrapper := b.startDeploy("xlock", "run", "--label", "nightly")
	pid := b.deployPID()
	b.check(wrapper.Process.Kill())
	_ = wrapper.Wait()
	b.check(unix.Kill(pid, unix.SIGKILL))
	b.await("the end of the command", func() bool { return gone(pid) })
}

func (b bench) deploysElsewhere() {
	testenv.Need(b.t, "root", "unshare")
	container := b.startDeploy("unshare", "--fork", "--kill-child", "--pid", "--mount-proc",
		"xlock", "run", "--label", "nightly")
	b.deployPID()
	b.check(container.Process.Kill())
	_ = container.Wait()
	b.await("the end of the container", func() bool { return len(b.deployLock().Kernel.Holders) == 0 })
}

func (b bench) reads() {
	b.startDeploy("xlock", "run", "-s")
	b.await("a reader", func() bool { return b.deployLock().Reason == lock.ReasonShared })
}
