package stress_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Statuses of those who met a lock file that was just being replaced.
const (
	noLockFile    = 73
	flockStale    = 65
	flockNotThere = 66
	killed        = -1
	flockKilled   = 128 + 9 // its command was
)

// contender is a process that wants the lock for its command.
type contender struct {
	*arena
	form
	fate
	number int
	cmd    *exec.Cmd
	input  *os.File // the end of which tells its command to end
	stderr bytes.Buffer

	inside   bool // its command has run
	told     bool // to end
	awaiting bool // that others leave the file that it has lost
	awaited  int  // for so many events
	hit      bool // something was killed
	shaken   bool // the path changed its file in its time
	command  int
	inode    uint64 // of the file that it has locked; 0: not known
	lost     verdict
}

// verdict is whether the holder's file was no longer at the path when it gave
// back the lock.
type verdict string

const (
	lost    verdict = "lost"
	kept    verdict = "kept"
	unclear verdict = "unclear"
)

func (c *contender) String() string { return fmt.Sprintf("contender %d, %v", c.number, c.args) }

func (a *arena) begin() {
	if a.begun++; a.begun%10_000 == 0 {
		a.Log(a)
	}
	random := rand.New(rand.NewPCG(a.seed, uint64(a.begun)))
	c := &contender{arena: a, form: a.forms[random.IntN(len(a.forms))], fate: drawFate(random), number: a.begun, lost: unclear}
	c.shaken = a.chaos != nil && a.chaos.linked
	a.members = append(a.members, c)
	if c.killAt >= 0 {
		a.after(c.killAt, c.kill)
	}
	if c.stopAt >= 0 {
		a.after(c.stopAt, c.stop)
	}
	c.start()
}

func (c *contender) start() {
	stdin, input, err := os.Pipe()
	c.check(err)
	output, stdout, err := os.Pipe()
	c.check(err)
	c.input = input
	word := "alone"
	if c.shared {
		word = "shared"
	}
	program := c.args[0]
	if program == "xlock" {
		program = c.xlock
	}
	c.cmd = c.arena.command(program, slices.Concat(c.args[1:], []string{c.visit, word})...)
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = stdin, stdout, &c.stderr
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.check(c.cmd.Start())
	stdin.Close()
	stdout.Close()
	go c.follow(output)
}

// follow tells what becomes of it. It has ended when its command has too. It is
// reaped at once, or else with its command.
func (c *contender) follow(output *os.File) {
	defer output.Close()
	end := make(chan error, 1)
	wait := func() { end <- c.cmd.Wait() }
	if c.number%2 == 0 {
		go wait()
	}
	lines := bufio.NewReader(output)
	if line, err := lines.ReadString('\n'); err == nil {
		c.events <- func() { c.enter(line) }
	}
	_, _ = io.Copy(io.Discard, lines)
	if c.number%2 != 0 {
		go wait()
	}
	err := <-end
	c.events <- func() { c.ended(err) }
}

// enter takes what its command says when it has begun.
func (c *contender) enter(line string) {
	var finding string
	_, err := fmt.Sscan(line, &c.command, &c.inode, &finding)
	c.check(err)
	c.inside, c.moved = true, c.now
	c.counts.acquired++
	switch {
	case finding == "overlap", finding == "beside" && c.chaos == nil:
		c.counts.overlap++
		c.Errorf("%v came in beside another: %q; inside are %s", c, line, c.insiders())
	case finding == "beside":
		c.counts.beside++
	}
	if c.chaos != nil {
		c.chaos.disturb()
	}
	c.suffer()
	c.after(c.stay, c.leave)
}

// insiders are those whose command has not ended, as far as is known yet.
func (a *arena) insiders() (text string) {
	for _, c := range a.members {
		if c.inside {
			text += fmt.Sprintf("\n\t%v, file %d, told to end: %v, killed: %v", c, c.inode, c.told, c.hit)
		}
	}
	return text
}

// suffer does to it what is its fate inside.
func (c *contender) suffer() {
	if c.stopInside {
		c.stop()
	}
	if c.killWrapper {
		c.kill()
	}
	if c.killCommand {
		c.strike(unix.Kill(c.command, unix.SIGKILL))
	}
	if c.killGroup {
		c.strike(unix.Kill(-c.cmd.Process.Pid, unix.SIGKILL)) // its command is in there
	}
}

// leave lets the command end. That decides whether the lock was lost, unless the path
// changes its file before the wrapper has ended too.
func (c *contender) leave() {
	c.awaiting = c.awaits && c.chaos != nil && c.chaos.movable(c)
	if c.awaiting {
		if c.awaited++; c.awaited > patience {
			c.awaits = false
			c.Errorf("%v has lost file %d, and nobody leaves it for %d", c, c.inode, c.arena.inode())
		}
		c.after(1, c.leave)
		return
	}
	switch c.inode {
	case 0:
	case c.arena.inode():
		c.lost = kept
	default:
		c.lost = lost
	}
	c.tellToEnd()
	if c.killAfter {
		c.kill()
	}
}

func (c *contender) tellToEnd() {
	c.told = true
	c.input.Close()
}

// kill kills the wrapper, wherever it is.
func (c *contender) kill() { c.strike(c.cmd.Process.Kill()) }

func (c *contender) strike(err error) {
	if err == nil {
		c.hit = true
		c.counts.kills++
	}
}

func (c *contender) stop() {
	if c.cmd.Process.Signal(unix.SIGSTOP) != nil {
		return
	}
	c.counts.stops++
	c.after(c.goOn, func() { _ = c.cmd.Process.Signal(unix.SIGCONT) })
}

func (c *contender) ended(err error) {
	c.moved = c.now
	c.members = slices.DeleteFunc(c.members, func(other *contender) bool { return other == c })
	c.input.Close()
	status := statusOf(err)
	if !slices.Contains(c.allowed(), status) {
		c.Errorf("%v ended with %v: %s (inside %v, %+v)", c, err, &c.stderr, c.inside, c.fate)
	}
	if c.inside {
		c.wantReport()
		return
	}
	c.counts.refused++
	if c.stderr.Len() > 0 && !c.shaken {
		c.Errorf("%v says %s", c, &c.stderr)
	}
}

// allowed are the statuses that it may end with.
func (c *contender) allowed() (statuses []int) {
	if c.hit {
		statuses = append(statuses, killed, flockKilled)
	}
	if c.inside {
		return append(statuses, 0)
	}
	if c.may {
		statuses = append(statuses, c.busy)
	}
	if c.shaken && c.busy == runBusy {
		statuses = append(statuses, runBusy, noLockFile)
	}
	if c.shaken && c.busy == flockBusy {
		statuses = append(statuses, flockStale, flockNotThere)
	}
	return statuses
}

// wantReport wants who lost the lock to say so, and nobody else.
func (c *contender) wantReport() {
	report := c.stderr.String()
	reported := strings.Contains(report, "was deleted, replaced or overwritten")
	if !reported && report != "" {
		c.Errorf("%v says %s", c, report)
	}
	if reported {
		c.counts.reported++
	}
	switch {
	case c.lost != lost:
	case c.silent || c.hit:
		c.counts.unreportable++
	default:
		c.counts.lost++
	}
	if !c.silent && !c.hit && c.lost != unclear && reported != (c.lost == lost) {
		c.Errorf("%v: its file is %s, reported: %v (file %d, at the path is %d)", c, c.lost, reported, c.inode, c.arena.inode())
	}
}

func statusOf(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		return -2
	case exit.Sys().(syscall.WaitStatus).Signal() == unix.SIGKILL:
		return killed
	}
	return exit.ExitCode()
}

func inodeOf(info os.FileInfo) uint64 { return info.Sys().(*syscall.Stat_t).Ino }
