package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"xlock/internal/testenv"
)

// TestFlockDifferential has shell scripts call flock, once the system's flock(1)
// and once ours, each in a directory of its own. The exit status, all output and
// what is left in the directory must be the same.
//
// A script may call $REAL, which is the system's in both cases, and finds in $AS a
// command that runs another as an ordinary user. "exec 9<>l; $REAL 9" makes the
// shell hold l, and "queued l" waits until somebody waits for it in the kernel.
func TestFlockDifferential(t *testing.T) {
	flocks := newFlocks(t)
	for _, script := range flockScripts() {
		t.Run(script, func(t *testing.T) {
			theirs, ours := flocks.run(t, flocks.theirs, script), flocks.run(t, flocks.ours, script)
			if ours != theirs {
				t.Errorf("flock(1):\n%s\nours:\n%s", theirs, ours)
			}
		})
	}
}

// flockDifference is a deliberate difference from flock(1). The document
// docs/flock.md says the same. A script shows it, where flock(1) 2.38 can show its
// side: ours is what it must print here, and flock(1) prints something else.
type flockDifference struct{ what, why, script, ours string }

func flockDifferences() []flockDifference {
	return []flockDifference{
		{
			"an empty file that is locked exclusively gets the record, and so does one that has it; whatever else there is stays untouched",
			"`xlock inspect` can say who holds the lock; what the command appends to the file, or writes over its beginning, is left as it would be without. It sees the record if it reads the file",
			`flock l true; cut -c 1-9 l; flock m sh -c 'echo mine >>m'; cat m`,
			"{\"xlock\":\nmine\n",
		},
		{
			"an empty file that is locked through a descriptor that can write gets the record as an extended attribute (user.xlock)",
			"who locks 9>PIDFILE writes into it next", "", "",
		},
		{
			"with `-n` or `-w` the opening of a FIFO does not wait for its writer",
			"else a FIFO in the place of the lock file keeps who does not wait", "", "",
		},
		{
			"behind a symbolic link no record is written",
			"anybody can make a link to an empty file of somebody else's", "", "",
		},
		{
			"a lock that the record says is held is busy, also when flock(2) is free",
			"`xlock run -o` may have been killed, and its command runs on", "", "",
		},
		{
			"who has waited for a file that was replaced meanwhile goes on to lock the new one",
			"a lock on a file that was replaced keeps nobody out", "", "",
		},
		{
			"a reader waits, or with `-n` is refused, while somebody waits to have the lock exclusively",
			"else readers that overlap keep a writer out for ever; one that is stopped (^Z) while it waits keeps readers out until it goes on or ends",
			"", "",
		},
		{
			"while somebody waits, a lock of fcntl(2) on the whole file is busy",
			"the wait is marked by such a lock on a byte far behind the end", "", "",
		},
		{
			"where the record is looked for the time of access may change, and where it is written that of modification",
			"it is read and written", "", "",
		},
		{
			"`ulimit -v` below about 800 MB, and `ulimit -u` below about 12, keep it from starting",
			"the Go runtime asks for as much", "", "",
		},
		{
			"a daemon that the command leaves behind does not keep the lock",
			"the lock ends with the command; with `-F`, or when flock is killed, it stays with the descriptor",
			`mkfifo go; exec 8<>go; flock l sh -c 'read _ <&8 &'; flock -n l echo free; echo $?; echo >&8`,
			"free\n0\n",
		},
		{
			"signals sent to flock reach the command, and flock waits for it",
			"a killed flock(1) leaves the command running, and loses its status",
			`mkfifo go; exec 8<>go
			flock l sh -c 'trap "echo cleaned up; exit 7" TERM; kill -TERM $PPID; read _ <&8'; echo $?; echo >&8`,
			"cleaned up\n7\n",
		},
		{
			"`--verbose` prints at once",
			"flock(1) prints after the command's own output, and nothing with `-F`, where standard output is no terminal",
			`flock --verbose -F l echo command`,
			"flock: getting lock took T seconds\nflock: executing echo\ncommand\n",
		},
		{
			"on a terminal, a busy lock's holder is named, and who waits for more than a second is told for whom",
			"silence leaves people guessing; elsewhere standard error stays empty, as scripts count on that", "", "",
		},
		{
			"a lock file is opened without O_CREAT first",
			"with fs.protected_regular the kernel refuses O_CREAT for other people's files in /tmp", "", "",
		},
		{
			"the decimal point of `-w` is a point in every locale",
			"a script must not depend on its user's language", "", "",
		},
		{
			"`-w` works when the caller blocks SIGALRM",
			"flock(1) waits for ever", "", "",
		},
		{
			"`-w` with more than 1.8e308 seconds is wrong usage, and below 4.9e-324 is 0",
			"numbers have 64 bits here, not 80",
			`flock -w 1e400 l true; echo $?`,
			"flock: invalid timeout value: '1e400': Numerical result out of range\n64\n",
		},
		{
			"no fractions in `--start` and `--length`",
			"flock(1) reckons 1.3K as 1365", "", "",
		},
		{
			"messages begin with \"flock: \", by whatever path it was called",
			"getopt_long(3) says the path in some messages",
			`cd "$(dirname "$(command -v flock)")"; ./flock -Z`,
			"flock: invalid option -- 'Z'\nTry 'flock --help' for more information.\n",
		},
		{
			"what a terminal would act on is escaped in messages",
			"a file's name must not be able to control the terminal",
			`flock "$(printf 'a\033b')/l" true`,
			`flock: cannot open lock file a\x1bb/l: No such file or directory` + "\n",
		},
		{
			"a reader of `--verbose` that is gone does not end flock",
			"the status of the command counts for more",
			`mkfifo p; exec 3<>p 4>p 3<&-; flock --verbose l true >&4; echo $?`,
			"0\n",
		},
		{
			"standard descriptors that are closed are /dev/null for the command",
			"the Go runtime opens it in their place",
			`flock l readlink /proc/self/fd/0 <&-`,
			"/dev/null\n",
		},
		{
			"descriptors 0 to 2 count as closed if they are /dev/null open for reading and writing",
			"they cannot be told from closed ones, and a lock that is not taken must not seem to be",
			`flock 0 <>/dev/null; echo $?`,
			"flock: 0: Bad file descriptor\n65\n",
		},
		{
			"an ignored signal stays so for the command only if it is HUP, INT, TSTP, TTIN, TTOU or CONT",
			"the Go runtime resets the others before it can be hindered",
			`trap '' USR1; flock l sh -c 'kill -USR1 $$'; echo $?`,
			"138\n",
		},
		{
			"it needs 9 free descriptors",
			"the Go runtime takes some, and pipes hold the command back until all is ready",
			`ulimit -n 9; flock l true; echo $?`,
			"flock: xlock needs 9 free descriptors: too many open files; raise the limit with ulimit -n\n71\n",
		},
		{
			"`--help` and `--version` have words of their own",
			"they say what this is",
			`flock --version | sed 's/xlock .*/xlock/'`,
			"flock from xlock\n",
		},
		{
			"`--fd`, of the next util-linux, is here already",
			"a command under a descriptor's lock is not to be had otherwise", "", "",
		},
	}
}

// TestFlockDifferences shows that each difference is one, and what it is.
func TestFlockDifferences(t *testing.T) {
	flocks := newFlocks(t)
	for _, difference := range flockDifferences() {
		if difference.script == "" {
			continue
		}
		t.Run(difference.what, func(t *testing.T) {
			theirs, ours := flocks.run(t, flocks.theirs, difference.script), flocks.run(t, flocks.ours, difference.script)
			if got := ours.stderr + ours.stdout; got != difference.ours {
				t.Errorf("ours prints %q; want %q", got, difference.ours)
			}
			if ours == theirs {
				t.Errorf("no difference:\n%s", ours)
			}
		})
	}
}

// TestFlockDocument: the document has the differences, all of them and no others.
func TestFlockDocument(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(testenv.Root(), "docs", "flock.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines := []string{"| what differs | why |", "| --- | --- |"}
	for _, difference := range flockDifferences() {
		lines = append(lines, "| "+difference.what+" | "+difference.why+" |")
	}
	if want := strings.Join(lines, "\n"); !strings.Contains(string(text), "\n\n"+want+"\n\n") {
		t.Errorf("docs/flock.md does not have this table:\n%s", want)
	}
}

// flocks are directories with one program each, flock.
type flocks struct{ theirs, ours, real string }

func newFlocks(t *testing.T) flocks {
	t.Helper()
	testenv.Need(t, "flock", "setpriv", "root")
	path, err := exec.LookPath("flock")
	if err != nil {
		t.Fatal(err)
	}
	f := flocks{theirs: openTempDir(t), ours: newFlockDir(t), real: path}
	for _, dir := range []string{f.theirs, f.ours} {
		addQueued(t, dir)
	}
	if why := notComparable(path); why != "" {
		testenv.LeaveOut(t, why)
	}
	if err := os.Symlink(path, filepath.Join(f.theirs, "flock")); err != nil {
		t.Fatal(err)
	}
	return f
}

// notComparable: later versions say some things in other words.
func notComparable(path string) string {
	const oldest, newest = 38, 42
	out, _ := exec.Command(path, "--version").Output()
	match := regexp.MustCompile(`util-linux 2\.(\d+)`).FindSubmatch(out)
	if match != nil {
		if minor, _ := strconv.Atoi(string(match[1])); minor >= oldest && minor <= newest {
			return ""
		}
	}
	return fmt.Sprintf("flock(1) is not from util-linux 2.%d to 2.%d", oldest, newest)
}

// addQueued adds the program that waits for a waiter.
func addQueued(t *testing.T, dir string) {
	t.Helper()
	const program = `#!/bin/sh
until grep -q -e "->.*:$(stat -c %i "$1") " /proc/locks; do :; done
`
	if err := os.WriteFile(filepath.Join(dir, "queued"), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
}

// newFlockDir makes a directory with a flock of ours, which every user can run.
func newFlockDir(t *testing.T) string {
	t.Helper()
	dir := openTempDir(t)
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	program, err := os.OpenFile(filepath.Join(dir, "flock"), os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(program, self); err != nil {
		t.Fatal(err)
	}
	if err := program.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// openTempDir is a temporary directory that every user can enter.
func openTempDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// outcomeOf is everything that a script leaves behind.
type outcomeOf struct {
	status               int
	stdout, stderr, tree string
}

func (o outcomeOf) String() string {
	return fmt.Sprintf("status %d\nstdout %q\nstderr %q\n%s", o.status, o.stdout, o.stderr, o.tree)
}

func (f flocks) run(t *testing.T, bin, script string) outcomeOf {
	t.Helper()
	return runWithFlock(t, bin, script, "REAL="+f.real)
}

// runWithFlock runs a script that finds its flock in bin. Output goes to files, since
// a process that a script leaves behind would keep a pipe open.
func runWithFlock(t *testing.T, bin, script string, env ...string) outcomeOf {
	t.Helper()
	const hang = time.Minute
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	scratch := openTempDir(t)
	command := exec.CommandContext(ctx, "sh", "-c", script)
	command.Dir = scratch
	command.Env = append([]string{
		"PATH=" + bin + string(filepath.ListSeparator) + os.Getenv("PATH"),
		"AS=setpriv --reuid 65534 --regid 65534 --clear-groups", "SHELL=/bin/sh", "LC_ALL=C", "GORACE=atexit_sleep_ms=0",
	}, env...)
	output := t.TempDir()
	for name, file := range map[string]*io.Writer{"stdout": &command.Stdout, "stderr": &command.Stderr} {
		f, err := os.Create(filepath.Join(output, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		*file = f
	}
	err := command.Run()
	if ctx.Err() != nil || command.ProcessState == nil {
		t.Fatalf("the script did not end: %v, %v", ctx.Err(), err)
	}
	o := outcomeOf{
		status: command.ProcessState.ExitCode(),
		stdout: settled(t, filepath.Join(output, "stdout")),
		stderr: settled(t, filepath.Join(output, "stderr")),
	}
	o.tree = tree(t, scratch)
	return o
}

func settled(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	took := regexp.MustCompile(`(getting lock took )\d+\.\d{6}( seconds)`)
	return took.ReplaceAllString(string(text), "${1}T${2}")
}

// tree lists what is in a directory: names, modes, and what is in files and links.
func tree(t *testing.T, dir string) string {
	t.Helper()
	isRecord := regexp.MustCompile(`^{"xlock":1,[^\n]*}\n$`)
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var content []byte
		switch name, _ := filepath.Rel(dir, path); {
		case info.Mode().IsRegular():
			content, err = os.ReadFile(path)
			if isRecord.Match(content) {
				content = nil // one of the differences
			}
			fmt.Fprintf(&b, "%s %v %q\n", name, info.Mode(), content)
		case info.Mode().Type() == fs.ModeSymlink:
			var target string
			target, err = os.Readlink(path)
			fmt.Fprintf(&b, "%s %v %s\n", name, info.Mode(), target)
		default:
			fmt.Fprintf(&b, "%s %v\n", name, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}
