package lock_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"xlock/internal/fdprobe"
	"xlock/internal/flock"
	"xlock/internal/identity"
	"xlock/internal/lock"
	"xlock/internal/testenv"
)

// peer is a second process: this test binary in a role. It lives until its
// standard input ends.
type peer struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin *os.File
	lines *bufio.Reader
}

func startPeer(t *testing.T, role string, prefix []string, args ...string) *peer {
	t.Helper()
	exe, err := os.Executable()
	check(t, err)
	line := slices.Concat(prefix, []string{exe}, args)
	// Pipes of our own: those of exec.Cmd are closed when the process has been
	// waited for, and its children may live on.
	stdin, input, err := os.Pipe()
	check(t, err)
	output, stdout, err := os.Pipe()
	check(t, err)
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	cmd.Env = append(os.Environ(), "XLOCK_TEST_ROLE="+role, "GORACE=atexit_sleep_ms=0")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, t.Output()
	check(t, cmd.Start())
	stdin.Close()
	stdout.Close()
	p := &peer{t, cmd, input, bufio.NewReader(output)}
	t.Cleanup(func() { p.end() })
	return p
}

// want reads the peer's next line.
func (p *peer) want(want string) {
	p.t.Helper()
	line, err := p.lines.ReadString('\n')
	if err != nil || strings.TrimSpace(line) != want {
		p.t.Fatalf("the other process said %q, %v; want %q", line, err, want)
	}
}

// end lets the peer finish and gives what it still said.
func (p *peer) end() string {
	p.stdin.Close()
	rest, _ := io.ReadAll(p.lines)
	_ = p.cmd.Wait()
	return strings.TrimSpace(string(rest))
}

func (p *peer) kill() {
	p.t.Helper()
	check(p.t, p.cmd.Process.Kill())
	_ = p.cmd.Wait()
}

func (p *peer) pid() int { return p.cmd.Process.Pid }

// roleAcquire takes the lock at its first argument and keeps it until its input
// ends. Its second is how: nowait, wait, or limited, with a limit that never
// comes.
func roleAcquire() int {
	opts := lock.Options{
		Mode:    lock.Process,
		NoWait:  os.Args[2] == "nowait",
		Limited: os.Args[2] == "limited",
		Waiting: func(h lock.Holder) { fmt.Println("waiting", h.Reason) },
	}
	l, err := lock.Acquire(context.Background(), os.Args[1], opts)
	if err != nil {
		fmt.Println(outcomeOf(err))
		return 0
	}
	fmt.Println("generation", l.Generation())
	_, _ = io.Copy(io.Discard, os.Stdin)
	fmt.Println("released", outcomeOf(l.Release(nil)))
	return 0
}

// roleWrapper holds the lock at its first argument for a command that does not
// inherit the descriptor, and that lives until its input ends.
func roleWrapper() int {
	opts := lock.Options{Mode: lock.Fork, Command: "cat", NoWait: true}
	l, err := lock.Acquire(context.Background(), os.Args[1], opts)
	if err != nil {
		fmt.Println(outcomeOf(err))
		return 1
	}
	cmd := exec.Command("cat")
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
	if err := errors.Join(cmd.Start(), l.Started(cmd.Process.Pid)); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("running")
	_ = cmd.Wait()
	return 0
}

// roleTakeTurns takes and gives back the lock at its first argument until its
// input ends, and complains when anything goes wrong or somebody else is inside.
// It says that the wait has a limit, as the holder can be its parent.
func roleTakeTurns() int {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	fmt.Println("running")
	for {
		select {
		case <-ended:
			return 0
		default:
		}
		l, err := lock.Acquire(context.Background(), os.Args[1], lock.Options{Mode: lock.Process, Limited: true})
		if err == nil {
			err = errors.Join(visit(os.Args[1]+".inside"), l.Release(nil))
		}
		if err != nil {
			fmt.Println(err)
			return 1
		}
	}
}

// visit fails if somebody else is inside.
func visit(marker string) error {
	f, err := os.OpenFile(marker, os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(marker))
}

// outcomeOf names the kind of an error.
func outcomeOf(err error) string {
	var held *lock.HeldError
	var deadlock *lock.DeadlockError
	switch {
	case err == nil:
		return "well"
	case errors.As(err, &held):
		return fmt.Sprintf("busy: %s", held.Reason)
	case errors.As(err, &deadlock):
		return fmt.Sprintf("deadlock: %s", deadlock.Reason)
	case errors.Is(err, lock.ErrNotLockFile):
		return "no lock file"
	case errors.Is(err, lock.ErrLost):
		return "lost"
	case errors.Is(err, syscall.EFBIG):
		return "too big"
	}
	return err.Error()
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantOutcome(t *testing.T, err error, want string) {
	t.Helper()
	if got := outcomeOf(err); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func lockPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "lock")
}

func contentOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	check(t, err)
	return string(text)
}

// acquire takes a free lock.
func acquire(t *testing.T, path string) *lock.Lock {
	t.Helper()
	l, err := lock.Acquire(t.Context(), path, lock.Options{Mode: lock.Process, NoWait: true})
	check(t, err)
	t.Cleanup(func() { _ = l.Release(nil) }) // fails if the test released it
	return l
}

type acquired struct {
	lock *lock.Lock
	err  error
}

// start begins to take the lock and returns once that waits.
func start(t *testing.T, path string, opts lock.Options) <-chan acquired {
	t.Helper()
	result, waiting := make(chan acquired, 1), make(chan struct{}, 1)
	opts.Waiting = func(lock.Holder) {
		select {
		case waiting <- struct{}{}:
		default:
		}
	}
	go func() {
		l, err := lock.Acquire(t.Context(), path, opts)
		result <- acquired{l, err}
	}()
	select {
	case <-waiting:
	case got := <-result:
		t.Fatalf("Acquire did not wait: %v", got.err)
	}
	return result
}

// wantAcquired waits for the lock and gives it back.
func wantAcquired(t *testing.T, result <-chan acquired, generation uint64) {
	t.Helper()
	got := <-result
	check(t, got.err)
	if got.lock.Generation() != generation {
		t.Errorf("generation %d, want %d", got.lock.Generation(), generation)
	}
	check(t, got.lock.Release(nil))
}

// awaitQueue returns when the kernel shows as many waiters for the lock.
func awaitQueue(t *testing.T, path string, waiters int) {
	t.Helper()
	for {
		report, err := lock.Inspect(path)
		check(t, err)
		if len(report.Kernel.Waiters) == waiters {
			return
		}
		runtime.Gosched()
	}
}

// forge writes a held record of generation 7 into the file at path, as this
// very process would, and then changed by edit.
func forge(t *testing.T, path string, edit func(*lock.Record)) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC|fdprobe.NotAHold, 0o666)
	check(t, err)
	defer f.Close()
	info, err := f.Stat()
	check(t, err)
	self := identity.Self()
	r := lock.Record{
		Version: 1, State: lock.StateHeld, Generation: 7,
		Owner: &self, Mode: lock.Fork, Inherits: true, Inode: info.Sys().(*syscall.Stat_t).Ino,
	}
	edit(&r)
	check(t, json.NewEncoder(f).Encode(r))
}

func ownedBy(p identity.Process) func(*lock.Record) {
	return func(r *lock.Record) { r.Owner = &p }
}

// runningCommand forges a record whose owner is gone and whose command lives
// until the returned function is called.
func runningCommand(t *testing.T, path string) (end func()) {
	t.Helper()
	command, end := process(t)
	forge(t, path, func(r *lock.Record) {
		r.Owner = new(ended(t))
		r.Command = &lock.Command{PID: command.PID, Start: command.Start, PidfdID: command.PidfdID}
	})
	return end
}

// process is a child that lives until the returned function is called.
func process(t *testing.T) (p identity.Process, end func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "cat")
	stdin, err := cmd.StdinPipe()
	check(t, err)
	check(t, cmd.Start())
	p = identity.Self().Neighbour(cmd.Process.Pid)
	end = func() {
		stdin.Close()
		_ = cmd.Wait()
	}
	t.Cleanup(end)
	return p, end
}

// ended is a process that is no more.
func ended(t *testing.T) identity.Process {
	t.Helper()
	p, end := process(t)
	end()
	return p
}

// race lets goroutines take the lock at the same time. The one that gets it
// holds it until all others have been refused, and gives it back.
func race(t *testing.T, path string, takers int, opts lock.Options) (refusals []error) {
	t.Helper()
	begin, results := make(chan struct{}), make(chan acquired)
	for range takers {
		go func() {
			<-begin
			l, err := lock.Acquire(t.Context(), path, opts)
			results <- acquired{l, err}
		}()
	}
	close(begin)
	var held []*lock.Lock
	for range takers {
		if got := <-results; got.err != nil {
			refusals = append(refusals, got.err)
		} else {
			held = append(held, got.lock)
		}
	}
	if len(held) != 1 {
		t.Errorf("%d of %d hold the lock: %v", len(held), takers, refusals)
	}
	for _, l := range held {
		check(t, l.Release(nil))
	}
	return refusals
}

// Of the goroutines of one process one gets the lock. The others would wait for
// their own process; with NoWait a kernel lock without a record yet may be all
// that they see.
func TestAcquireWithinOneProcess(t *testing.T) {
	// left is what stands in the file beforehand.
	left := map[string]func(*testing.T, string){
		"a new file":               func(*testing.T, string) {},
		"left by an earlier image": func(t *testing.T, path string) { forge(t, path, func(*lock.Record) {}) },
		"left by a dead process":   func(t *testing.T, path string) { forge(t, path, ownedBy(ended(t))) },
	}
	const rounds, takers = 30, 6
	for name, leave := range left {
		t.Run(name, func(t *testing.T) {
			for range rounds {
				path := lockPath(t)
				leave(t, path)
				for _, err := range race(t, path, takers, lock.Options{NoWait: true}) {
					if got := outcomeOf(err); got != "deadlock: owner" && got != "busy: kernel-lock" {
						t.Errorf("refused with NoWait: %s", got)
					}
				}
				leave(t, path)
				for _, err := range race(t, path, takers, lock.Options{}) {
					if got := outcomeOf(err); !strings.HasPrefix(got, "deadlock: ") {
						t.Errorf("refused: %s", got)
					}
				}
			}
		})
	}
}

// Two images race for what an earlier one left: never are both refused.
func TestAcquireByTwoOfANewImage(t *testing.T) {
	const rounds = 200
	path := lockPath(t)
	for range rounds {
		forge(t, path, func(*lock.Record) {})
		for _, err := range race(t, path, 2, lock.Options{NoWait: true}) {
			wantOutcome(t, err, "deadlock: owner")
		}
	}
}

func TestAcquireWhatThisProcessHolds(t *testing.T) {
	path := lockPath(t)
	acquire(t, path)
	before := contentOf(t, path)
	for name, opts := range map[string]lock.Options{
		"no wait": {NoWait: true}, "wait": {}, "limited wait": {Limited: true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := lock.Acquire(t.Context(), path, opts)
			var deadlock *lock.DeadlockError
			if !errors.As(err, &deadlock) || !deadlock.Self || deadlock.Identity != lock.DescriptorOpen {
				t.Errorf("Acquire = %v, want a deadlock with this very process", err)
			}
		})
	}
	if after := contentOf(t, path); after != before {
		t.Errorf("the record was %s and is %s", before, after)
	}
}

// While several of this process wait for somebody else, each takes the kernel
// lock now and then to look. That is no deadlock to the others. Once one holds
// it, the others may be refused.
func TestSeveralOfOneProcessWaitForAnother(t *testing.T) {
	const rounds, takers = 10, 6
	for range rounds {
		path := lockPath(t)
		end := runningCommand(t, path)
		ended, waiting := make(chan error, takers), make(chan struct{})
		for range takers {
			first := sync.OnceFunc(func() { waiting <- struct{}{} })
			go func() {
				l, err := lock.Acquire(t.Context(), path, lock.Options{Waiting: func(h lock.Holder) {
					if h.Reason == lock.ReasonCommandRunning {
						first()
					}
				}})
				if err == nil {
					err = l.Release(nil)
				}
				ended <- err
			}()
		}
		for range takers {
			select {
			case <-waiting:
			case err := <-ended:
				t.Fatalf("refused while another process holds the lock: %v", err)
			}
		}
		end()
		wins := 0
		for range takers {
			if got := outcomeOf(<-ended); got == "well" {
				wins++
			} else if !strings.HasPrefix(got, "deadlock: ") {
				t.Error(got)
			}
		}
		if wins == 0 {
			t.Error("nobody got the lock")
		}
	}
}

func TestAcquireWaitsForTheHolder(t *testing.T) {
	path := lockPath(t)
	l := acquire(t, path)
	p := startPeer(t, "acquire", nil, path, "limited")
	p.want("waiting owner")
	awaitQueue(t, path, 1)
	check(t, l.Release(nil))
	p.want("generation 2")
	if got := p.end(); got != "released well" {
		t.Error(got)
	}
}

func TestAcquireFromAKilledHolder(t *testing.T) {
	path := lockPath(t)
	p := startPeer(t, "acquire", nil, path, "nowait")
	p.want("generation 1")
	result := start(t, path, lock.Options{})
	p.kill()
	wantAcquired(t, result, 2)
}

// The ancestor that holds the lock may be waiting for us.
func TestAcquireWhatAnAncestorHolds(t *testing.T) {
	tests := []struct{ how, want string }{
		{"wait", "deadlock: owner"},
		{"nowait", "busy: owner"},
		{"limited", "waiting owner"},
	}
	path := lockPath(t)
	acquire(t, path)
	for _, tt := range tests {
		t.Run(tt.how, func(t *testing.T) {
			p := startPeer(t, "acquire", nil, path, tt.how)
			p.want(tt.want)
			p.kill()
		})
	}
}

func TestAcquireGivesUp(t *testing.T) {
	tests := []struct {
		name string
		hold func(t *testing.T, path string) (end func())
		want string
	}{
		{"a queue", func(t *testing.T, path string) func() {
			p := startPeer(t, "acquire", nil, path, "nowait")
			p.want("generation 1")
			return func() { p.end() }
		}, "busy: owner"},
		{"a running command", runningCommand, "busy: command-running"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := lockPath(t)
			end := tt.hold(t, path)
			before := contentOf(t, path)
			for range 5 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				_, err := lock.Acquire(ctx, path, lock.Options{Limited: true})
				cancel()
				wantOutcome(t, err, tt.want)
				var held *lock.HeldError
				if errors.As(err, &held) && (!held.TimedOut || held.Blocker == nil || held.Record == nil) {
					t.Errorf("%+v does not say who held the lock when the time was up", held)
				}
			}
			if after := contentOf(t, path); after != before {
				t.Errorf("the record was %s and is %s", before, after)
			}
			// What the kernel grants to those that gave up goes back.
			end()
			l, err := lock.Acquire(t.Context(), path, lock.Options{})
			check(t, err)
			check(t, l.Release(nil))
		})
	}
}

// A killed wrapper's command holds the lock, though the kernel does not know.
func TestAcquireWaitsForTheCommandOfAKilledWrapper(t *testing.T) {
	path := lockPath(t)
	p := startPeer(t, "wrapper", nil, path)
	p.want("running")
	p.kill()
	_, err := lock.Acquire(t.Context(), path, lock.Options{NoWait: true})
	wantOutcome(t, err, "busy: command-running")
	result := start(t, path, lock.Options{})
	p.stdin.Close() // ends the command
	wantAcquired(t, result, 2)
}

// Whoever waits for a living record lets go of the kernel lock, so that the
// owner's next image never waits for somebody who waits for it.
func TestWaiterGivesTheKernelLockBack(t *testing.T) {
	path := lockPath(t)
	end := runningCommand(t, path)
	result := start(t, path, lock.Options{})
	f, err := os.OpenFile(path, os.O_RDWR|fdprobe.NotAHold, 0)
	check(t, err)
	defer f.Close()
	check(t, flock.TryLock(t.Context(), f, flock.Exclusive))
	check(t, flock.Unlock(f))
	end()
	wantAcquired(t, result, 8)
}

// The owner of a lock held by its own process (mode exec) has ended without a
// release, as nobody was left to write one.
func TestAcquireFromAnEndedProcess(t *testing.T) {
	path := lockPath(t)
	forge(t, path, func(r *lock.Record) { r.Mode, r.Owner = lock.Exec, new(ended(t)) })
	report, err := lock.Inspect(path)
	check(t, err)
	if report.State != lock.Free || report.Reason != lock.ReasonEnded {
		t.Errorf("%s, %s; want free, ended", report.State, report.Reason)
	}
	if got := acquire(t, path).Generation(); got != 8 {
		t.Errorf("generation %d, want 8", got)
	}
}

// A descriptor that this process inherited can hold the kernel lock: nobody but
// we could end that.
func TestAcquireBehindADescriptorOfOurOwn(t *testing.T) {
	path := lockPath(t)
	f, err := os.Create(path)
	check(t, err)
	defer f.Close()
	check(t, flock.TryLock(t.Context(), f, flock.Exclusive))
	_, err = lock.Acquire(t.Context(), path, lock.Options{})
	var deadlock *lock.DeadlockError
	if !errors.As(err, &deadlock) || deadlock.Descriptor != int(f.Fd()) {
		t.Errorf("Acquire = %v, want a deadlock with descriptor %d", err, f.Fd())
	}
	_, err = lock.Acquire(t.Context(), path, lock.Options{NoWait: true})
	wantOutcome(t, err, "busy: kernel-lock")
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err = lock.Acquire(ctx, path, lock.Options{Limited: true})
	wantOutcome(t, err, "busy: kernel-lock")
}

func TestReleaseOfALostLock(t *testing.T) {
	const foreign = "somebody's notes\n"
	tests := []struct {
		name string
		lose func(t *testing.T, path string)
	}{
		{"deleted", func(t *testing.T, path string) { check(t, os.Remove(path)) }},
		{"deleted, and taken anew", func(t *testing.T, path string) {
			check(t, os.Remove(path))
			newcomer := acquire(t, path)
			t.Cleanup(func() { check(t, newcomer.Release(nil)) })
		}},
		{"replaced", func(t *testing.T, path string) {
			check(t, os.WriteFile(path+".new", []byte(foreign), 0o600))
			check(t, os.Rename(path+".new", path))
		}},
		{"replaced by a copy of itself", func(t *testing.T, path string) {
			check(t, os.WriteFile(path+".new", []byte(contentOf(t, path)), 0o600))
			check(t, os.Rename(path+".new", path))
		}},
		{"overwritten", func(t *testing.T, path string) { check(t, os.WriteFile(path, []byte(foreign), 0o600)) }},
		{"taken by force", func(t *testing.T, path string) { forge(t, path, ownedBy(ended(t))) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := lockPath(t)
			l := acquire(t, path)
			check(t, os.Link(path, path+".old"))
			tt.lose(t, path)
			before, errBefore := os.ReadFile(path)
			wantOutcome(t, l.Release(nil), "lost")
			after, errAfter := os.ReadFile(path)
			if string(after) != string(before) || (errBefore == nil) != (errAfter == nil) {
				t.Errorf("the file held %q, %v, and holds %q, %v", before, errBefore, after, errAfter)
			}
			old, err := os.Open(path + ".old")
			check(t, err)
			defer old.Close()
			if err := flock.TryLock(t.Context(), old, flock.Exclusive); err != nil {
				t.Errorf("the kernel lock was not given back: %v", err)
			}
		})
	}
}

// The shell's 9>LOCK empties the file of whoever holds the lock, which the kernel
// keeps all the same: the record is written again.
func TestReleaseOfAnEmptiedLock(t *testing.T) {
	path := lockPath(t)
	acquire(t, path).Release(nil)
	l := acquire(t, path)
	check(t, os.Truncate(path, 0))
	check(t, l.Release(nil))
	if r := inspect(t, path).Content.Record; r == nil || r.State != lock.StateFree || r.Generation != 2 {
		t.Errorf("the record says %+v, want a release of generation 2", r)
	}
}

// What the command of a killed holder has appended is kept too.
func TestTakeALockThatWasAppendedTo(t *testing.T) {
	path := lockPath(t)
	check(t, acquire(t, path).Release(nil))
	want := contentOf(t, path) + "notes\n"
	check(t, os.WriteFile(path, []byte(want), 0o600))
	if _, err := lock.Acquire(t.Context(), path, lock.Options{Mode: lock.Process}); !errors.Is(err, lock.ErrNotLockFile) {
		t.Errorf("a taker got %v", err)
	}
	if got := contentOf(t, path); got != want {
		t.Errorf("the file holds %q, want %q", got, want)
	}
}

// What a command appends to its lock file is kept, and makes it a file of its own.
func TestReleaseOfALockThatWasAppendedTo(t *testing.T) {
	for _, size := range []int{1, 100, 5000, 100_000} {
		path := lockPath(t)
		l := acquire(t, path)
		want := strings.Repeat("notes\n", size)
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		check(t, err)
		_, err = f.WriteString(want)
		check(t, errors.Join(err, f.Close()))
		wantOutcome(t, l.Release(nil), "lost")
		if got := contentOf(t, path); got != want {
			t.Errorf("of %d bytes %d were kept", len(want), len(got))
		}
		if _, err := lock.Acquire(t.Context(), path, lock.Options{Mode: lock.Process, NoWait: true}); !errors.Is(err, lock.ErrNotLockFile) {
			t.Errorf("another taker got %v", err)
		}
	}
}

// Somebody who may write to the file can make it very long, of holes.
func TestReleaseOfALockThatWasMadeHuge(t *testing.T) {
	const huge = 1 << 28
	path := lockPath(t)
	l := acquire(t, path)
	want := contentOf(t, path) + "x"
	check(t, os.WriteFile(path, []byte(want), 0o600))
	check(t, os.Truncate(path, huge))
	wantOutcome(t, l.Release(nil), "lost")
	info, err := os.Stat(path)
	check(t, err)
	if blocks := info.Sys().(*syscall.Stat_t).Blocks; info.Size() != huge || blocks > 64 {
		t.Errorf("the file has %d bytes and %d blocks", info.Size(), blocks)
	}
}

// Somebody who may write to the file can cut it while it is copied.
func TestReleaseWhileTheFileShrinks(t *testing.T) {
	path := lockPath(t)
	l := acquire(t, path)
	f, err := os.OpenFile(path, os.O_APPEND|os.O_RDWR, 0)
	check(t, err)
	t.Cleanup(func() { f.Close() })
	_, err = f.WriteString(strings.Repeat("notes\n", 1_000_000))
	check(t, err)
	cut := make(chan error)
	go func() {
		first := make([]byte, 1)
		var err error
		for err == nil && first[0] != 'n' { // until the copying has begun
			_, err = f.ReadAt(first, 0)
		}
		cut <- errors.Join(err, f.Truncate(1))
	}()
	wantOutcome(t, l.Release(nil), "lost")
	check(t, <-cut)
}

// A waiter for a file that is gone is granted a lock that keeps nobody out.
func TestWaiterFollowsTheFile(t *testing.T) {
	path := lockPath(t)
	l := acquire(t, path)
	p := startPeer(t, "acquire", nil, path, "limited")
	p.want("waiting owner")
	awaitQueue(t, path, 1)
	check(t, os.Remove(path))
	newcomer := acquire(t, path)
	wantOutcome(t, l.Release(nil), "lost")
	p.want("waiting owner") // for the newcomer now
	check(t, os.Remove(path))
	wantOutcome(t, newcomer.Release(nil), "lost")
	p.want("generation 1") // of a file of its own
	report, err := lock.Inspect(path)
	check(t, err)
	if report.State != lock.Held || report.Blocker == nil || report.Blocker.PID != p.pid() {
		t.Errorf("%+v, want held by %d", report.Judgement, p.pid())
	}
}

func TestForeignContentDuringTheWait(t *testing.T) {
	const foreign = "somebody's notes\n"
	t.Run("in the queue", func(t *testing.T) {
		path := lockPath(t)
		l := acquire(t, path)
		p := startPeer(t, "acquire", nil, path, "limited")
		p.want("waiting owner")
		awaitQueue(t, path, 1)
		check(t, os.WriteFile(path, []byte(foreign), 0o600))
		wantOutcome(t, l.Release(nil), "lost")
		p.want("no lock file")
		if got := contentOf(t, path); got != foreign {
			t.Errorf("the file holds %q", got)
		}
	})
	t.Run("for a running command", func(t *testing.T) {
		path := lockPath(t)
		runningCommand(t, path)
		result := start(t, path, lock.Options{})
		check(t, os.WriteFile(path, []byte(foreign), 0o600))
		wantOutcome(t, (<-result).err, "no lock file")
		if got := contentOf(t, path); got != foreign {
			t.Errorf("the file holds %q", got)
		}
	})
}

func TestGenerationGrows(t *testing.T) {
	path := lockPath(t)
	for want := uint64(1); want <= 3; want++ {
		l := acquire(t, path)
		if got := l.Generation(); got != want {
			t.Errorf("generation %d, want %d", got, want)
		}
		check(t, l.Release(nil))
	}
}

// A disk that fills up, or a limit, cuts the record off half-way.
func TestAcquireWithoutRoomForTheRecord(t *testing.T) {
	testenv.Need(t, "prlimit")
	for _, before := range []string{"", `{"xlock":1,"state":"free","generation":7}` + "\n"} {
		path := lockPath(t)
		check(t, os.WriteFile(path, []byte(before), 0o600))
		p := startPeer(t, "acquire", []string{"prlimit", "--fsize=100"}, path, "nowait")
		p.want("too big")
		if after := contentOf(t, path); after != before {
			t.Errorf("the file held %q and holds %q", before, after)
		}
	}
}

// A wrapper leaves nothing in the file before its command has a process, also
// if it gives the lock back; but keeps everybody out.
func TestNothingIsWrittenBeforeTheCommand(t *testing.T) {
	path := lockPath(t)
	opts := lock.Options{Mode: lock.Fork, Command: "cat", NoWait: true}
	check(t, acquire(t, path).Release(nil))
	before := contentOf(t, path)
	l, err := lock.Acquire(t.Context(), path, opts)
	check(t, err)
	_, err = lock.Acquire(t.Context(), path, opts)
	wantOutcome(t, err, "busy: kernel-lock")
	if got := contentOf(t, path); got != before {
		t.Errorf("before the command: %s", got)
	}
	check(t, l.Release(nil))
	if got := contentOf(t, path); got != before {
		t.Errorf("after the release: %s", got)
	}
	l, err = lock.Acquire(t.Context(), path, opts)
	check(t, err)
	check(t, l.Started(os.Getpid()))
	if got := contentOf(t, path); !strings.Contains(got, fmt.Sprintf(`"pid":%d`, os.Getpid())) || !strings.Contains(got, `"name":"cat"`) {
		t.Errorf("with the command: %s", got)
	}
	check(t, l.Release(nil))
}
