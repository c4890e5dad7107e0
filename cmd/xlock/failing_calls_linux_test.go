//go:build amd64

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"xlock/internal/lock"
	"xlock/internal/testenv"
)

// The ways in which a call that fails can end a run. Each row of
// docs/failures.md names one of them.
const (
	refuses  = "an error, status 73; the command does not run"
	lacks    = "an error, status 71; the command does not run"
	warns    = "the command's status, and a warning"
	passes   = "the command's status; nothing is said"
	cannot   = "an error, status 126; the command does not run"
	leaves   = "an error, status 71; the command keeps the lock while it runs"
	unbroken = "an error, status 73; the lock is as it was"
	lacksToo = "an error, status 71; the lock is as it was"
	done     = "status 0"
	likeThat = "flock(1)'s error and status, and the command does not run; or the command's status"
)

// failure is a kind of call, and what becomes of a run in which one fails.
type failure struct {
	does    string // in words
	call    string // system call; empty: any
	line    string // what strace(1) shows of it; empty: any
	after   bool   // the command has begun, or the files are exchanged
	outcome string
}

// failures of a run. Those that concern the lock file are told by the file that
// strace shows, and by whether they come before the command or after.
var failures = []failure{
	{"look for the command", "newfstatat", `/sh"`, false, cannot},
	{"look whether the lock file is a regular file", "newfstatat", "", false, refuses},
	{"open or create the lock file", "openat", "", false, refuses},
	{"look at the open lock file", "fstat", "", false, refuses},
	{"ask for its file system", "fstatfs", "", false, passes},
	{"read the record", "pread64", "", false, refuses},
	{"take the lock", "flock", "", false, refuses},
	{"look at the turnstile, with -s", "fcntl", "F_OFD_GETLK", false, refuses},
	{"mark the descriptor, hand it on", "fcntl", "", false, lacks},
	{"write the record", "pwrite64", "", false, refuses},
	{"cut it to length", "ftruncate", "", false, refuses},
	{"look at the lock file, for the release", "fstat", "", true, warns},
	{"look at its path, for the release", "newfstatat", "", true, warns},
	{"read the record, for the release", "pread64", "", true, warns},
	{"write the record of the release", "pwrite64", "", true, warns},
	{"cut that to length", "ftruncate", "", true, warns},
	{"have the lock still, for the release", "flock", "LOCK_EX", true, warns},
	{"unlock", "flock", "LOCK_UN", true, warns},
}

// failuresOfProcess are those of the calls that make the command's process.
var failuresOfProcess = []failure{
	{"make the pipes of the gate", "pipe2", "", false, lacks},
	{"make the process", "clone", "SIGCHLD", false, lacks},
	{"make a thread", "clone", "CLONE_THREAD", false, passes},
	{"execute the command", "execve", "", false, cannot},
	{"wait for the command", "waitid", "", true, leaves},
	{"collect how it ended", "wait4", "", true, leaves},
}

// failuresOfReclaim are those of a reclaim of what a dead holder left.
var failuresOfReclaim = []failure{
	{"look whether the lock file is a regular file", "newfstatat", "", false, unbroken},
	{"open the lock file", "openat", "", false, unbroken},
	{"look at the open lock file", "fstat", "", false, unbroken},
	{"ask for its file system", "fstatfs", "", false, done},
	{"read the record", "pread64", "", false, unbroken},
	{"take the lock", "flock", "LOCK_EX", false, unbroken},
	{"write the record", "pwrite64", "", false, unbroken},
	{"cut it to length", "ftruncate", "", false, unbroken},
	{"unlock", "flock", "LOCK_UN", false, done},
}

// failuresOfForce are those of a forced reclaim from a living holder, of the calls
// that make the new file and put it into the place of the old one.
var failuresOfForce = []failure{
	{"lock the new file, or try the old one", "flock", "LOCK_EX", false, unbroken},
	{"give it the old one's mode", "fchmod", "", false, unbroken},
	{"write its record", "pwrite64", "", false, unbroken},
	{"cut that to length", "ftruncate", "", false, unbroken},
	{"lock out other breakers", "fcntl", "F_OFD_SETLK", false, unbroken},
	{"exchange the files", "renameat2", "", false, unbroken},
	{"write the same record into the old file", "pwrite64", "", true, done},
	{"cut that to length, too", "ftruncate", "", true, done},
	{"remove the old file", "unlinkat", "", true, done},
}

// failuresOfFlock are those of the calls on the lock file that xlock flock makes.
var failuresOfFlock = []failure{{"any call on the lock file", "", "", false, likeThat}}

// errnos are injected into every call on the lock file.
var errnos = []string{
	"ENOSPC", "EDQUOT", "EIO", "EINTR", "ESTALE", "EMFILE", "ENOLCK", "ENOSYS", "EOPNOTSUPP", "EACCES", "EROFS",
}

// lasting are errnos that a call gets again and again.
var lasting = []string{"ENOSPC", "EIO"}

// repeated are calls that are made again after EINTR.
var repeated = []string{"openat", "newfstatat", "fstat", "pread64", "pwrite64", "ftruncate", "flock", "fcntl", "fchmod", "fstatfs", "unlinkat", "renameat2", "waitid", "wait4"}

// outcomeOf is what the row says, but for two errnos.
func (f failure) outcomeOf(errno string) string {
	switch {
	case f.outcome == likeThat:
		return f.outcome
	case errno == "EINTR" && slices.Contains(repeated, f.call):
		return f.repeated()
	case errno == "EMFILE" && f.outcome == refuses:
		return lacks
	case errno == "EMFILE" && f.outcome == unbroken:
		return lacksToo
	}
	return f.outcome
}

// repeated is the outcome where the call is made again.
func (f failure) repeated() string {
	if f.outcome == unbroken || f.outcome == done {
		return done
	}
	return passes
}

// TestFailingCalls lets each call on the lock file fail, and those that make the
// command's process, one in each run, with each errno that is named above. The
// outcome is what the row of the call says, and the next one gets in at once.
//
// strace(1) counts the calls of each thread for itself, so that one run can have
// several that fail. It does not carry a call out that it lets fail: close(2) is left
// out, as one that fails closes all the same, and clone(2) with ENOMEM, at which the
// Go runtime dies.
func TestFailingCalls(t *testing.T) {
	testenv.Need(t, "strace")
	xlock := buildXlock(t)
	all := func(string) []string { return errnos }
	few := func(string) []string { return []string{"EIO", "EINTR", "ENOLCK", "EACCES"} }
	some := func(call string) []string {
		return map[string][]string{
			"pipe2": {"EMFILE", "ENFILE"}, "clone": {"EAGAIN"}, "execve": {"EACCES", "EIO", "ENOMEM"},
			"waitid": {"ENOSYS", "EINTR"}, "wait4": {"ECHILD", "EINTR"},
		}[call]
	}
	type variant struct {
		name   string
		errnos func(call string) []string
		run    func(*stage, injection) *ending
	}
	tests := []struct {
		name     string
		rows     []failure
		variants []variant
	}{
		{"run", failures, []variant{
			{"run", all, (*stage).failingRun}, {"-s", few, (*stage).failingReader}, {"-F", all, (*stage).failingExec},
		}},
		{"process", failuresOfProcess, []variant{{"run", some, (*stage).failingProcess}}},
		{"reclaim", failuresOfReclaim, []variant{{"dead", all, (*stage).failingReclaim}}},
		{"force", failuresOfForce, []variant{{"living", all, (*stage).failingForce}}},
		{"flock", failuresOfFlock, []variant{{"run", few, (*stage).failingFlock}}},
	}
	var calls atomic.Int64
	t.Cleanup(func() { t.Logf("%d calls failed", calls.Load()) })
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			seen := &covered{}
			t.Cleanup(func() { calls.Add(seen.all(t, tt.rows)) })
			for _, v := range tt.variants {
				for _, call := range callsOf(tt.rows) {
					t.Run(v.name+" "+call, func(t *testing.T) {
						t.Parallel()
						for _, errno := range v.errnos(call) {
							failEach(t, xlock, injection{call: call, errno: errno}, func(s *stage, i injection) bool {
								return v.run(s, i).judge(t, tt.rows, seen)
							})
						}
					})
				}
			}
		})
	}
}

// failEach lets the first call fail, in another run the second, and so on, until a run
// makes fewer. With an errno that lasts, a further run each lets all later ones fail,
// too.
func failEach(t *testing.T, xlock string, i injection, run func(*stage, injection) bool) {
	for n := 1; ; n++ {
		whens := []string{strconv.Itoa(n)}
		if slices.Contains(lasting, i.errno) {
			whens = append(whens, whens[0]+"+")
		}
		for _, i.when = range whens {
			if !run(&stage{T: t, dir: t.TempDir(), xlock: xlock}, i) {
				return
			}
		}
	}
}

// judge compares the ending with what the rows say of the calls that failed. It
// returns false if none did.
func (e *ending) judge(t *testing.T, rows []failure, seen *covered) bool {
	want := ""
	for _, i := range e.injected {
		f := rowOf(rows, i)
		if f == nil {
			t.Errorf("%s: no row tells of %s", e, i.line)
			return true
		}
		seen.add(*f)
		if outcome := f.outcomeOf(e.errno); want == "" || want == passes || want == done {
			want = outcome
		}
	}
	if got := e.outcome(); want != "" && got != want {
		t.Errorf("%s: %s; want %s: %s", e, got, want, e.stderr)
	}
	return want != ""
}

const failingScript = "echo ran >>log; exit 7"

func (s *stage) failingRun(i injection) *ending    { return s.failing(i, "run") }
func (s *stage) failingReader(i injection) *ending { return s.failing(i, "run", "-s") }
func (s *stage) failingFlock(i injection) *ending  { return s.failing(i, "flock") }

func (s *stage) failing(i injection, args ...string) *ending {
	e := s.inject(i, s.onLock(), append(args, s.path("lock"), shell(s.T), "-c", failingScript)...)
	s.nextGetsIn(e)
	return e
}

func (s *stage) failingExec(i injection) *ending {
	e := s.failing(i, "run", "-F")
	if e.ran { // strace leaves the command alone, and ends with 0
		e.status = 7
	}
	return e
}

// failingProcess waits for the next one, as the command may run on without its
// wrapper.
func (s *stage) failingProcess(i injection) *ending {
	e := s.inject(i, nil, "run", "lock", "sh", "-c", failingScript)
	if output, err := s.quiet("run", "-w", "20", "lock", "true"); err != nil {
		s.Errorf("%s: the next one: %v: %s", e, err, output)
	}
	e.ran = strings.Contains(s.log(), "ran")
	return e
}

func (s *stage) failingReclaim(i injection) *ending {
	s.deadHolder()
	before := s.read("lock")
	e := s.inject(i, s.onLock(), "reclaim", s.path("lock"))
	e.reclaim, e.unchanged = true, s.read("lock") == before
	s.nextGetsIn(e)
	return e
}

// failingForce checks that a reclaim that has failed leaves the holder its lock, and
// no file beside it but one that could not be removed.
func (s *stage) failingForce(i injection) *ending {
	end := s.brokenWrapper()
	before := s.read("lock")
	var where []string
	if i.call == "fcntl" { // which the Go runtime makes often, on other files
		where = s.onLock()
	}
	e := s.inject(i, where, "reclaim", "--force", s.path("lock"))
	beside, err := filepath.Glob(s.path(".lock.*"))
	check(s.T, err)
	e.reclaim, e.unchanged = true, s.read("lock") == before
	if len(beside) > 0 && i.call != "unlinkat" {
		s.Errorf("%s: it has left %v", e, beside)
	}
	if held := s.glance().State == lock.Held; held != e.unchanged {
		s.Errorf("%s: the lock is held: %v", e, held)
	}
	end()
	s.nextGetsIn(e)
	return e
}

// read leaves out NULs at the end, which stay if a file cannot be shortened.
func (s *stage) read(name string) string {
	text, err := os.ReadFile(s.path(name))
	check(s.T, err)
	return strings.TrimRight(string(text), "\x00")
}

// onLock has strace look at the lock file and the shell only. A descriptor of one is
// what it takes for that.
func (s *stage) onLock() []string { return []string{"-P", s.path("lock"), "-P", shell(s.T)} }

// nextGetsIn fails the test if the lock is stuck, or the file is no lock file any
// more.
func (s *stage) nextGetsIn(e *ending) {
	s.Helper()
	if kind := s.inspect().Content.Kind; kind != lock.Empty && kind != lock.Valid && s.read("lock") != "" {
		s.Errorf("%s: the record is %s", e, kind)
	}
	if output, err := s.quiet("run", "-n", "lock", "true"); err != nil {
		s.Errorf("%s: the next one: %v: %s", e, err, output)
	}
}

func (s *stage) quiet(args ...string) (string, error) {
	cmd := s.command(s.xlock, args...)
	cmd.Stderr = nil
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// ending is how a run with a failing call ended.
type ending struct {
	injection
	about    string
	status   int
	stderr   string
	ran      bool
	injected []injected

	reclaim   bool // nothing was to run
	unchanged bool // and the file is as it was
}

// injection is a call to fail: the nth of each thread.
type injection struct {
	call, errno string
	when        string // as strace(1) has it
}

func (e *ending) String() string { return e.about }

// injected is a call that was made to fail.
type injected struct {
	call, line string
	after      bool // the command has begun, or the files are exchanged
}

// inject runs xlock with a failing call.
func (s *stage) inject(i injection, where []string, args ...string) *ending {
	trace := s.path("trace")
	options := slices.Concat([]string{"-f", "-y", "-b", "execve", "-o", trace}, where, []string{
		"-e", "trace=execve,renameat2," + i.call,
		"-e", fmt.Sprintf("inject=%s:error=%s:when=%s", i.call, i.errno, i.when), s.xlock,
	})
	cmd := s.command("strace", append(options, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.Fatal(err)
	}
	text, err := os.ReadFile(trace)
	check(s.T, err)
	e := &ending{
		injection: i,
		about:     fmt.Sprintf("xlock %s with %s of call %s to %s", strings.Join(args[:2], " "), i.errno, i.when, i.call),
		status:    cmd.ProcessState.ExitCode(),
		stderr:    regexp.MustCompile(`(?m)^strace: .*\n`).ReplaceAllString(stderr.String(), ""),
		ran:       strings.Contains(s.log(), "ran"),
	}
	e.read(string(text))
	return e
}

// read takes the injected calls from what strace has written, which shows also when
// the command began, or the files were exchanged.
func (e *ending) read(trace string) {
	begun := false
	begins := regexp.MustCompile(`execve\("[^"]*/sh"|renameat2\(`)
	for line := range strings.Lines(trace) {
		begun = begun || begins.MatchString(line) && !strings.Contains(line, "(INJECTED)")
		if strings.Contains(line, "(INJECTED)") {
			e.injected = append(e.injected, injected{e.call, line, begun})
		}
	}
}

// shell is found by one look.
func shell(t *testing.T) string {
	path, err := exec.LookPath("sh")
	check(t, err)
	return path
}

// rowOf finds the row that tells of a call. The wait for the command is begun before
// it or after.
func rowOf(rows []failure, i injected) *failure {
	for k, f := range rows {
		if f.call == "" || f.call == i.call && (f.after == i.after || f.outcome == leaves) && strings.Contains(i.line, f.line) {
			return &rows[k]
		}
	}
	return nil
}

// outcome says how it ended, in the words of the table.
func (e *ending) outcome() string {
	silent := e.stderr == ""
	warned := regexp.MustCompile(`^xlock: warning: cannot release .*; the next one takes it over\n$`).MatchString(e.stderr)
	failed := regexp.MustCompile(`^(xlock: warning: .*\n)*xlock: [^\n]+\n$`).MatchString(e.stderr) && !warned
	switch {
	case e.reclaim && e.status == 0 && silent && !e.unchanged:
		return done
	case e.reclaim && e.status == 73 && failed && e.unchanged:
		return unbroken
	case e.reclaim && e.status == 71 && failed && e.unchanged:
		return lacksToo
	case e.reclaim:
	case strings.HasPrefix(e.about, "xlock flock") && e.isLikeFlock():
		return likeThat
	case e.ran && e.status == 7 && silent:
		return passes
	case e.ran && e.status == 7 && warned:
		return warns
	case e.ran && e.status == 71 && failed:
		return leaves
	case !e.ran && e.status == 73 && failed:
		return refuses
	case !e.ran && e.status == 71 && failed:
		return lacks
	case !e.ran && e.status == 126 && failed:
		return cannot
	}
	return fmt.Sprintf("status %d, the command ran: %v", e.status, e.ran)
}

// isLikeFlock: 1 is flock(1)'s status for a lock that is busy.
func (e *ending) isLikeFlock() bool {
	failed := !e.ran && e.status > 1 && regexp.MustCompile(`^flock: [^\n]+\n$`).MatchString(e.stderr)
	return failed || e.ran && e.status == 7 && e.stderr == ""
}

// callsOf are the kinds of calls in the rows.
func callsOf(rows []failure) (calls []string) {
	for _, f := range rows {
		if f.call == "" {
			return callsOf(failures)
		}
		if !slices.Contains(calls, f.call) {
			calls = append(calls, f.call)
		}
	}
	return calls
}

// covered are the rows that a test has come to, and how often.
type covered struct{ rows sync.Map }

func (c *covered) add(f failure) {
	n, _ := c.rows.LoadOrStore(f, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
}

// all fails the test if that is not all rows, and returns the number of calls.
func (c *covered) all(t *testing.T, rows []failure) (calls int64) {
	for _, f := range rows {
		n, ok := c.rows.Load(f)
		if !ok {
			t.Errorf("nothing came to: %s", f.does)
			continue
		}
		calls += n.(*atomic.Int64).Load()
	}
	return calls
}

// TestFailingSurroundings lets fail what is no call on the lock file. That of the
// boot's identity that fails once is made again.
func TestFailingSurroundings(t *testing.T) {
	testenv.Need(t, "strace")
	xlock := buildXlock(t)
	const boot, directory = "/proc/sys/kernel/random/boot_id", "."
	tests := []struct {
		path string
		injection
		outcome string
	}{
		{boot, injection{"openat", "ENFILE", "1"}, passes},
		{boot, injection{"openat", "ENFILE", "1+"}, lacks},
		{boot, injection{"openat", "EIO", "1+"}, lacks},
		{"/etc/machine-id", injection{"openat", "EIO", "1+"}, passes},
		{"/proc/self/ns/pid", injection{"readlinkat", "EIO", "1+"}, passes},
		{"/proc/self/ns/time", injection{"readlinkat", "EIO", "1+"}, passes},
		{"/proc/self/stat", injection{"openat", "ENFILE", "1+"}, passes},
		{directory, injection{"newfstatat", "EIO", "1"}, lacks},
		{directory, injection{"newfstatat", "ESTALE", "1"}, lacks},
	}
	for _, tt := range tests {
		for _, option := range []string{"-q", "-F"} {
			s := &stage{T: t, dir: t.TempDir(), xlock: xlock}
			s.deadHolder()
			e := s.inject(tt.injection, []string{"-P", tt.path}, "run", "-n", option, "lock", "sh", "-c", failingScript)
			if option == "-F" && e.ran {
				e.status = 7 // see failingExec
			}
			switch got := e.outcome(); {
			case len(e.injected) == 0:
				t.Errorf("%s (%s): no such call was made", e, tt.path)
			case got != tt.outcome:
				t.Errorf("%s (%s): %s; want %s: %s", e, tt.path, got, tt.outcome, e.stderr)
			case strings.Contains(e.stderr, "lock file"):
				t.Errorf("%s (%s): %s", e, tt.path, e.stderr)
			}
			s.nextGetsIn(e)
		}
	}
}

// docs/failures.md has the rows.
func TestFailuresDocument(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(testenv.Root(), "docs", "failures.md"))
	check(t, err)
	for _, rows := range [][]failure{failures, failuresOfProcess, failuresOfReclaim, failuresOfForce, failuresOfFlock} {
		if want := failureTable(rows); !strings.Contains(string(text), want) {
			t.Errorf("docs/failures.md lacks\n%s", want)
		}
	}
}

func failureTable(rows []failure) string {
	var b strings.Builder
	b.WriteString("| what fails | call | outcome |\n| --- | --- | --- |\n")
	for _, f := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", f.does, cmp.Or(f.call, "any"), f.outcome)
	}
	return b.String()
}
