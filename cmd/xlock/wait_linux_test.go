package main

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"xlock/internal/testenv"
)

// The kernel's order is everybody's, whatever they wait with.
func TestWaitersComeInByOrderOfArrival(t *testing.T) {
	testenv.Need(t, "flock")
	t.Parallel()
	s := newStage(t)
	held := s.lock()
	lockers := [][]string{{s.xlock, "run", "-q"}, {"flock"}, {s.xlock, "run", "-q", "-w", "1h", "-o"}}
	var want []string
	var waiters []*exec.Cmd
	for i := range 20 {
		locker := lockers[i%len(lockers)]
		c := s.command(locker[0], append(locker[1:], "lock", "sh", "-c", fmt.Sprintf("echo %d >>log", i))...)
		check(t, c.Start())
		waiters, want = append(waiters, c), append(want, strconv.Itoa(i))
		s.awaitWaiters(i + 1)
	}
	s.flock(held, unix.LOCK_UN)
	for _, c := range waiters {
		if err := c.Wait(); err != nil {
			t.Errorf("%v: %v", c.Args, err)
		}
	}
	if got := s.log(); got != strings.Join(want, " ") {
		t.Errorf("came in as %s", got)
	}
}

// TestWaitsThatRunOut lets many wait for a moment each, while the lock is free
// now and then. Who has said that it was refused never runs its command, and
// nobody leaves anything behind.
func TestWaitsThatRunOut(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	statuses := s.comeAndGo(s.lock(), s.impatient(200, 16))
	if left := s.processes(); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	if r := s.inspect(); len(r.Kernel.Holders)+len(r.Kernel.Waiters) > 0 {
		t.Errorf("in the kernel are left: holders %v, waiters %v", r.Kernel.Holders, r.Kernel.Waiters)
	}
	check(t, s.command(s.xlock, "run", "-n", "lock", "true").Run())
	var want []string
	count := map[int]int{}
	for number, status := range statuses {
		count[status]++
		if status == 0 {
			want = append(want, number)
		}
	}
	t.Logf("how many ended with which status: %v", count)
	if count[0] == 0 || count[statusBusy] == 0 || count[0]+count[statusBusy] != len(statuses) {
		t.Error("not all came in or were refused, or not both happened")
	}
	if ran := strings.Fields(s.log()); !slices.Equal(slices.Sorted(slices.Values(ran)), slices.Sorted(slices.Values(want))) {
		t.Errorf("ran: %v; say that they ran: %v", ran, want)
	}
}

// waited is how a waiter has ended.
type waited struct {
	number string
	status int
}

// impatient runs waiters, so many at a time, each of which writes its number to
// the log if it comes in.
func (s *stage) impatient(all, atATime int) <-chan waited {
	ends, numbers := make(chan waited), make(chan string)
	var group sync.WaitGroup
	for range atATime {
		group.Go(func() {
			for number := range numbers {
				c := s.command(s.xlock, "run", "-q", "-w", "0.01", "lock", "sh", "-c", "echo "+number+" >>log")
				_ = c.Run()
				ends <- waited{number, c.ProcessState.ExitCode()}
			}
		})
	}
	go func() {
		for i := range all {
			numbers <- strconv.Itoa(i)
		}
		close(numbers)
		group.Wait()
		close(ends)
	}()
	return ends
}

// comeAndGo holds the lock until somebody is refused, leaves it until somebody
// has come in, and so on. It returns all statuses.
func (s *stage) comeAndGo(held *os.File, ends <-chan waited) map[string]int {
	statuses := map[string]int{}
	holding := true
	for e := range ends {
		statuses[e.number] = e.status
		switch {
		case holding && e.status == statusBusy:
			s.flock(held, unix.LOCK_UN)
			holding = false
		case !holding && e.status == 0:
			s.flock(held, unix.LOCK_EX)
			holding = true
		}
	}
	s.flock(held, unix.LOCK_UN)
	return statuses
}

// A limit needs no signal and no attention.
func TestWaitEndsOnTime(t *testing.T) {
	testenv.Need(t, "env")
	const limit = 300 * time.Millisecond
	const late = 10 * time.Second // on a machine that is busy with other tests
	tests := map[string][]string{
		"as usual":       {"env"},
		"ALRM blocked":   {"env", "--block-signal=ALRM"},
		"ALRM ignored":   {"env", "--ignore-signal=ALRM"},
		"all blocked":    {"env", "--block-signal"},
		"all as default": {"env", "--default-signal"},
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			held := s.lock()
			waiter := append(tests[name], s.xlock, "run", "-q", "-w", "0.3", "lock", "sh", "-c", "echo late >>log")
			c := s.command(waiter[0], waiter[1:]...)
			start := time.Now()
			_ = c.Run()
			if took := time.Since(start); took < limit || took > late {
				t.Errorf("it took %v", took)
			}
			s.neverRan(c)
			s.flock(held, unix.LOCK_UN)
			check(t, s.command(s.xlock, "run", "-n", "lock", "true").Run())
			s.neverRan(c)
		})
	}
}

// neverRan fails unless the wait has run out and the command has not run.
func (s *stage) neverRan(c *exec.Cmd) {
	s.Helper()
	if status := c.ProcessState.ExitCode(); status != statusBusy || s.log() != "" {
		s.Errorf("ended with %v; log: %s", c.ProcessState, s.log())
	}
}

// A waiter that is stopped within its limit, and one that sleeps through it.
func TestWaitEndsOnTimeThoughStopped(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	held := s.lock()
	within, through := s.waiting("within", "-w", "2"), s.waiting("through", "-w", "0.2")
	s.stop(within)
	s.stop(through)
	check(t, within.Process.Signal(unix.SIGCONT))
	clock := s.waiting("clock", "-w", "0.2") // its limit is later than that of through
	_ = clock.Wait()
	s.neverRan(clock)
	check(t, through.Process.Signal(unix.SIGCONT))
	_ = through.Wait()
	s.neverRan(through)
	_ = within.Wait()
	s.neverRan(within)
	s.flock(held, unix.LOCK_UN)
	check(t, s.command(s.xlock, "run", "-n", "lock", "true").Run())
	s.neverRan(within)
}

// The lock is given back while a waiter is stopped whose limit has passed.
// Whether it comes in then is open, but it tells the truth.
func TestStoppedWaiterTellsTheTruth(t *testing.T) {
	t.Parallel()
	for range 5 {
		s := newStage(t)
		held := s.lock()
		waiter := s.waiting("ran", "-w", "0.05")
		s.stop(waiter)
		clock := s.waiting("clock", "-w", "0.05") // its limit is later
		_ = clock.Wait()
		s.neverRan(clock)
		s.flock(held, unix.LOCK_UN)
		check(t, waiter.Process.Signal(unix.SIGCONT))
		_ = waiter.Wait()
		check(t, s.command(s.xlock, "run", "-n", "lock", "true").Run())
		status, log := waiter.ProcessState.ExitCode(), s.log()
		if !(status == 0 && log == "ran" || status == statusBusy && log == "") {
			t.Errorf("status %d, log %q", status, log)
		}
	}
}

// stop returns when the process is stopped.
func (s *stage) stop(c *exec.Cmd) {
	check(s.T, c.Process.Signal(unix.SIGSTOP))
	err := error(unix.EINTR)
	for err == unix.EINTR {
		err = unix.Waitid(unix.P_PID, c.Process.Pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
	}
	check(s.T, err)
}

// Nobody who waits burns a processor: neither in the kernel's queue, nor while
// only the record keeps the lock.
func TestWaitingCostsNothing(t *testing.T) {
	testenv.Need(t, "flock")
	const most = 300 * time.Millisecond // of three seconds
	tests := []struct {
		name   string
		holder []string
		killed bool
	}{
		{"kernel", []string{"flock"}, false},
		{"record", []string{"xlock", "run", "-o"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			if tt.killed {
				tt.holder[0] = s.xlock
			}
			h := s.holder(tt.holder)
			if tt.killed {
				check(t, h.cmd.Process.Kill())
			}
			waiter := s.waiting("came in")
			before := processorTime(t, waiter)
			h.say("go")
			h.hear("slept")
			if used := processorTime(t, waiter) - before; used > most {
				t.Errorf("used %v", used)
			} else {
				t.Logf("used %v", used)
			}
			h.tell.Close()
			_ = h.cmd.Wait()
			check(t, waiter.Wait())
		})
	}
}

// holder is somebody who has the lock, and sleeps once it is told to.
type holder struct {
	*stage
	cmd   *exec.Cmd
	tell  *os.File
	heard *bufio.Reader
}

func (s *stage) holder(locker []string) holder {
	const script = "echo holding; read _; sleep 3; echo slept; read _"
	h := holder{stage: s, cmd: s.command(locker[0], append(locker[1:], "lock", "sh", "-c", script)...)}
	stdin, tell, err := os.Pipe()
	check(s.T, err)
	stdout, output, err := os.Pipe()
	check(s.T, err)
	s.Cleanup(func() { tell.Close(); stdout.Close() })
	h.cmd.Stdin, h.cmd.Stdout = stdin, output
	check(s.T, h.cmd.Start())
	stdin.Close()
	output.Close()
	h.tell, h.heard = tell, bufio.NewReader(stdout)
	h.hear("holding")
	return h
}

func (h holder) say(word string) {
	_, err := io.WriteString(h.tell, word+"\n")
	check(h.T, err)
}

func (h holder) hear(want string) {
	line, err := h.heard.ReadString('\n')
	if check(h.T, err); line != want+"\n" {
		h.Fatalf("heard %q, want %q", line, want)
	}
}

// waiting starts a waiter whose command writes a word to the log, and returns
// when it has begun to wait.
func (s *stage) waiting(word string, options ...string) *exec.Cmd {
	args := append([]string{"run", "-q", "--status-fd", "3"}, options...)
	c := s.command(s.xlock, append(args, "lock", "sh", "-c", "echo "+word+" >>log")...)
	events, write, err := os.Pipe()
	check(s.T, err)
	s.Cleanup(func() { events.Close() })
	c.ExtraFiles = []*os.File{write}
	check(s.T, c.Start())
	write.Close()
	event, err := bufio.NewReader(events).ReadString('\n')
	if check(s.T, err); !strings.Contains(event, `"waiting"`) {
		s.Fatal(event)
	}
	return c
}

// processorTime is what all threads of a process have used.
func processorTime(t *testing.T, c *exec.Cmd) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
	check(t, err)
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	const utime, stime = 14 - 3, 15 - 3 // proc_pid_stat(5)
	ticks := 0
	for _, i := range []int{utime, stime} {
		n, err := strconv.Atoi(fields[i])
		check(t, err)
		ticks += n
	}
	const tick = time.Second / 100 // sysconf(3), on every architecture of Linux
	return time.Duration(ticks) * tick
}
