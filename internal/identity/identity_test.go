// Processes are tested with real ones: agents, which are this test binary run
// once more. An agent answers requests on its stdin, one reply for each, and
// ends with it; no test needs to wait for a time.
package identity_test

import (
	"encoding/json"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"xlock/internal/identity"
)

const agentEnv = "XLOCK_IDENTITY_AGENT"

// The main goroutine keeps the main thread, so that an agent can end just that
// one, and no test runs on it.
func init() { runtime.LockOSThread() }

func TestMain(m *testing.M) {
	if os.Getenv(agentEnv) == "" {
		os.Exit(m.Run())
	}
	serve()
	os.Exit(0)
}

type request struct {
	Op      string
	Process identity.Process
	Local   bool // nobody else can have written the record
	PID     int
}

type reply struct {
	Process identity.Process
	Finding identity.Finding
	Yes     bool
}

// ops is what an agent does on request. Systems add their own.
var ops = map[string]func(request) reply{
	"self":     func(request) reply { return reply{Process: identity.Self()} },
	"of":       func(r request) reply { return reply{Process: identity.Self().Neighbour(r.PID)} },
	"judge":    func(r request) reply { return reply{Finding: identity.Self().Judge(r.Process, r.Local)} },
	"ancestor": func(r request) reply { return reply{Yes: identity.IsAncestor(r.PID)} },
	"exec": func(request) reply {
		path, err := os.Executable()
		if err == nil {
			err = syscall.Exec(path, os.Args, append(os.Environ(), greetEnv+"=1"))
		}
		panic(err)
	},
	"spawn": func(request) reply {
		var err error
		if child, err = launch(os.Stderr); err != nil {
			panic(err)
		}
		return child.ask(request{Op: "self"})
	},
	"reap": func(request) reply {
		_ = child.cmd.Process.Kill()
		_ = child.wait()
		return reply{}
	},
}

// greetEnv has an agent speak first, in answer to the request to exec.
const greetEnv = "XLOCK_IDENTITY_GREET"

// child is the agent that this agent has spawned.
var child *agent

func serve() {
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	if os.Getenv(greetEnv) != "" {
		_ = out.Encode(reply{})
		os.Unsetenv(greetEnv)
	}
	for {
		var r request
		if in.Decode(&r) != nil {
			return
		}
		_ = out.Encode(ops[r.Op](r))
	}
}

// agent is the client's end of one.
type agent struct {
	cmd    *exec.Cmd
	fail   func(error)  // does not return
	wait   func() error // of the first call, for all
	killed bool
	in     io.Closer
	enc    *json.Encoder
	dec    *json.Decoder
}

// launch starts an agent. Place is the beginning of its command line, say
// "unshare --pid".
func launch(stderr io.Writer, place ...string) (*agent, error) {
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	line := append(slices.Clone(place), path)
	cmd := exec.Command(line[0], line[1:]...)
	// The race detector would hold up each exit for a second.
	cmd.Env = append(os.Environ(), agentEnv+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	a := &agent{
		cmd: cmd, wait: sync.OnceValue(cmd.Wait), fail: func(err error) { panic(err) },
		in: in, enc: json.NewEncoder(in), dec: json.NewDecoder(out),
	}
	return a, cmd.Start()
}

// start launches an agent for the duration of the test.
func start(t *testing.T, place ...string) *agent {
	t.Helper()
	a, err := launch(t.Output(), place...)
	if err != nil {
		t.Fatal(err)
	}
	a.fail = func(err error) { t.Fatalf("%v: agent: %v", a.cmd, err) }
	t.Cleanup(func() {
		a.in.Close()
		if err := a.wait(); err != nil && !a.killed {
			t.Errorf("agent: %v", err)
		}
	})
	return a
}

func (a *agent) ask(r request) reply {
	var answer reply
	if err := a.enc.Encode(r); err != nil {
		a.fail(err)
	}
	if err := a.dec.Decode(&answer); err != nil {
		a.fail(err)
	}
	return answer
}

func (a *agent) self() identity.Process { return a.ask(request{Op: "self"}).Process }

// kill ends the agent, and leaves it to be waited for.
func (a *agent) kill(t *testing.T) {
	t.Helper()
	a.killed = true
	if err := a.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
}

// The owners of the tables.

func living(t *testing.T) identity.Process { return start(t).self() }

// reaped has ended, and its parent has waited for it.
func reaped(t *testing.T) identity.Process {
	a := start(t)
	p := a.self()
	a.kill(t)
	_ = a.wait()
	return p
}

func TestJudgeRealProcesses(t *testing.T) {
	matched := identity.Finding{Liveness: identity.Alive, Identity: identity.Matched}
	gone := identity.Finding{Liveness: identity.Gone, Identity: identity.ProcessGone}
	for name, test := range map[string]struct {
		process identity.Process
		want    identity.Finding
	}{
		"itself":  {identity.Self(), matched},
		"another": {living(t), matched},
		"ended":   {reaped(t), gone},
	} {
		if got := identity.Self().Judge(test.process, true); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

// TestOfIsSelf: the record of a command is written by its parent, and is read
// by the command itself.
func TestOfIsSelf(t *testing.T) {
	a := start(t)
	self := a.self()
	if of := identity.Self().Neighbour(self.PID); of != self || self.PID != a.cmd.Process.Pid {
		t.Errorf("from without: %+v\nfrom within:  %+v", of, self)
	}
	if mine := identity.Self(); self.Boot != mine.Boot || self.Start == "" || self.PID == mine.PID {
		t.Errorf("agent: %+v\ntest:  %+v", self, mine)
	}
}

// TestSelfOutlastsExec: an identity names the process, not the program.
func TestSelfOutlastsExec(t *testing.T) {
	a := start(t)
	before := a.self()
	a.ask(request{Op: "exec"})
	if after := a.self(); after != before {
		t.Errorf("before execve: %+v\nafter: %+v", before, after)
	}
}

func TestIsAncestor(t *testing.T) {
	// The command behind "$@" keeps the shell from replacing itself.
	a := start(t, "sh", "-c", `"$@"; exit`, "sh")
	for _, test := range []struct {
		name string
		pid  int
		want bool
	}{
		{"parent", a.cmd.Process.Pid, true},
		{"grandparent", os.Getpid(), true},
		{"itself", a.self().PID, false},
		{"another child of the grandparent", living(t).PID, false},
		{"ended", reaped(t).PID, false},
		{"nobody", 0, false},
		{"a process group", -1, false},
		{"out of range", math.MaxInt32, false},
	} {
		if got := a.ask(request{Op: "ancestor", PID: test.pid}).Yes; got != test.want {
			t.Errorf("%s: got %v", test.name, got)
		}
	}
	if identity.IsAncestor(a.self().PID) {
		t.Error("a child is taken for an ancestor")
	}
}

// TestAwaitEnd: whoever has waited finds the process gone, though nobody has
// waited for it in the sense of wait(2).
func TestAwaitEnd(t *testing.T) {
	a := start(t)
	p := a.self()
	waiting, found := make(chan bool), make(chan identity.Finding)
	go func() {
		close(waiting)
		identity.AwaitEnd(p, time.Hour)
		found <- identity.Self().Judge(p, true)
	}()
	<-waiting
	a.kill(t)
	if got := <-found; got.Liveness != identity.Gone {
		t.Errorf("got %v", got)
	}
}

// TestAwaitEndReturns hangs where the wait has no reason left, or no limit.
func TestAwaitEndReturns(t *testing.T) {
	for name, test := range map[string]struct {
		process identity.Process
		limit   time.Duration
	}{
		"a living process": {identity.Self(), time.Millisecond},
		"no time at all":   {identity.Self(), 0},
		"time is over":     {identity.Self(), -time.Hour},
		"it has ended":     {reaped(t), time.Hour},
	} {
		t.Run(name, func(t *testing.T) { awaitEnd(t, test.process, test.limit) })
	}
}

// awaitEnd turns a wait that does not end into a failure.
func awaitEnd(t *testing.T, p identity.Process, limit time.Duration) {
	t.Helper()
	done := make(chan bool)
	go func() {
		identity.AwaitEnd(p, limit)
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Errorf("still waiting for %v", p)
	}
}
