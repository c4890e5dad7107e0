package main

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"xlock/internal/testenv"
)

// startContainer starts a program as the init of a PID namespace, as a container
// has it.
func (b bench) startContainer(args ...string) (*exec.Cmd, *watched) {
	b.t.Helper()
	testenv.Need(b.t, "root", "unshare")
	unshare := []string{"unshare", "--fork", "--kill-child", "--pid", "--mount-proc"}
	return b.startAlone(append(unshare, args...)...)
}

// startInit is for a program that does not end by itself. It returns the number
// that it has out here besides.
func (b bench) startInit(args ...string) (container *exec.Cmd, init int, out *watched) {
	b.t.Helper()
	container, out = b.startContainer(args...)
	return container, b.childOf(container.Process.Pid), out
}

func (b bench) childOf(parent int) (child int) {
	b.t.Helper()
	path := fmt.Sprintf("/proc/%d/task/%d/children", parent, parent)
	b.await("there is a child", func() bool {
		text, err := os.ReadFile(path)
		b.check(err)
		child, _ = strconv.Atoi(strings.TrimSpace(string(text)))
		return child != 0
	})
	return child
}

// A signal from outside of the container, as docker stop sends it, is the
// command's to act on.
func TestInitRelays(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.addListener()
	container, init, out := b.startInit("xlock", "run", "lock", "./tell")
	out.expect(`ready`)
	out.relaysAll(init)
	out.endsListeningBy(init, container)
}

// The kernel spares an init what would end any other process by its default
// action. Nothing but a status can tell then.
func TestInitToldToEndWhileWaiting(t *testing.T) {
	for _, sig := range endings() {
		t.Run(perlName(sig), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.addListener()
			holder, held := b.startAlone("xlock", "run", "lock", "./tell")
			held.expect(`ready`)
			before := b.lockFile()
			container, init, said := b.startInit("xlock", "run", "-q", "lock", "touch", "ran")
			b.awaitWaiters(1)
			b.send(init, sig)
			b.ended(container, fmt.Sprint(128+int(sig)))
			if text := said.rest(); text != "" {
				t.Errorf("the waiter said %q", text)
			}
			b.undisturbed(before)
			held.endsListening(holder)
		})
	}
}

// How the command ended is told by a status too.
func TestInitStatus(t *testing.T) {
	for script, want := range map[string]string{
		"exit 0":                     "0",
		"exit 7":                     "7",
		"kill -TERM $$":              "143",
		"kill -KILL $$":              "137",
		"kill -QUIT $$":              "131",
		"ulimit -c 0; kill -SEGV $$": "139",
		"trap 'exit 5' TERM; kill 1; read _ <never": "5",
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.fifo("never")
			container, said := b.startContainer("xlock", "run", "lock", "sh", "-c", script)
			b.ended(container, want)
			if text := said.rest(); text != "" {
				t.Errorf("it said %q", text)
			}
			b.released()
		})
	}
}

// An init inherits every process whose parent has ended, and must reap it
// (pid_namespaces(7)). How such an orphan ends is nothing to the command's status.
func TestInitReapsOrphans(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.check(unix.Mkfifo(b.path("go"), 0o600))
	container, said := b.startContainer("xlock", "run", "lock", "sh", "-c", `
for how in 'exit 5' 'kill -KILL $$' 'kill -STOP $$' 'read x <go; exit 6'; do
	sh -c 'sh -c "$0" & echo $!' "$how"
done >orphans
{ read a; read b; read stopped; read late; } <orphans
until grep -q '^State:.T' /proc/$stopped/status; do :; done
kill -KILL $stopped
echo >go
for pid in $a $b $stopped $late; do
	while [ -e /proc/$pid ]; do :; done
done
set -- /proc/[0-9]*
echo $#
exit 3`)
	b.ended(container, "3")
	if text := said.rest(); text != "2\n" {
		t.Errorf("there are not 2 processes, xlock and the command: %q", text)
	}
	b.released()
}
