package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"xlock/internal/testenv"
)

// xlock outlives what the command does at an interrupt, and the shell is back
// only when both have ended.
func TestInterruptKeyCleanUp(t *testing.T) {
	t.Parallel()
	tty := newTerminal(t)
	testenv.Need(t, "perl")
	letGo := tty.fifo("go")
	tty.program("tidy", `#!/usr/bin/perl
use POSIX ();
$| = 1;
POSIX::sigprocmask(POSIX::SIG_BLOCK(), POSIX::SigSet->new(POSIX::SIGINT()));
$SIG{INT} = sub { print "cleaning\n"; open my $go, '<', 'go'; <$go>; print "cleaned\n"; exit 7 };
print "ready\n";
POSIX::sigsuspend(POSIX::SigSet->new);
`)
	tty.shell()
	tty.typeKeys("xlock run lock ./tidy; echo status $?\n")
	text := tty.expect(`ready`)
	owner, _ := tty.holding()
	tty.typeKeys(keyInterrupt)
	text += tty.expect(`cleaning`)
	letGo()
	text += tty.expect(`cleaned`)
	if strings.Contains(text, "prompt> ") {
		t.Errorf("the shell was back before the command had ended: %q", text)
	}
	tty.expect(`status 7\r\n`)
	tty.expect(`prompt> `)
	if !gone(owner) {
		t.Error("xlock is still there")
	}
	tty.released()
}

// foregroundJob types a command line that runs xlock, and returns the numbers
// once both processes have the terminal.
func (tty *terminal) foregroundJob(line string) (xlock, command int) {
	tty.t.Helper()
	tty.typeKeys(line + "\n")
	xlock, command = tty.holding()
	tty.awaitForeground(xlock)
	return xlock, command
}

func (tty *terminal) awaitForeground(group int) {
	tty.t.Helper()
	tty.await("the job is in the foreground", func() bool { return tty.foreground() == group })
}

// stopped waits until the shell tells that its job has stopped; then both its
// processes have.
func (tty *terminal) stopped(xlock, command int) {
	tty.t.Helper()
	tty.expect(`Stopped`)
	tty.expect(`prompt> `)
	if states := tty.state(xlock) + tty.state(command); states != "TT" {
		tty.t.Errorf("xlock and the command are in state %s, want TT", states)
	}
}

// status asks the shell how its last command ended, and compares.
func (tty *terminal) status(want int) {
	tty.t.Helper()
	tty.typeKeys("echo status $?\n")
	line := tty.expect(`status \d+`)
	if got := line[strings.LastIndex(line, "status"):]; got != fmt.Sprint("status ", want) {
		tty.t.Errorf("the shell says %q, want %d", got, want)
	}
}

// A command that knows nothing of signals: it may even be stopped before it has
// become the command, as the record is written before.
func TestJobControl(t *testing.T) {
	for _, line := range []string{"xlock run lock sleep 1000", "xlock run -o lock cat"} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			tty := newTerminal(t)
			tty.shell()
			xlock, command := tty.foregroundJob(line)
			tty.typeKeys(keySuspend)
			tty.stopped(xlock, command)
			tty.typeKeys("fg\n")
			tty.awaitForeground(xlock)
			tty.typeKeys(keyInterrupt)
			tty.expect(`prompt> `)
			tty.status(128 + int(unix.SIGINT))
			tty.released()
		})
	}
}

// The stop and the continuation of a whole job by the shell come to the command
// from the kernel and from the shell; it gets each once.
func TestJobControlOnce(t *testing.T) {
	t.Parallel()
	tty := newTerminal(t)
	tty.addListener()
	tty.shell()
	xlock, command := tty.foregroundJob("xlock run lock ./tell INT CONT")
	tty.expect(`ready`)
	tty.typeKeys(keySuspend)
	tty.stopped(xlock, command)
	tty.typeKeys("fg\n")
	text := tty.expect(`got CONT`)
	tty.awaitForeground(xlock)
	tty.typeKeys(keyInterrupt)
	text += tty.expect(`got INT`)
	tty.send(xlock, realTimeMax)
	text += tty.expect(`end\r\n`)
	if got := told(text); !slices.Equal(got, []string{"CONT", "INT"}) {
		t.Errorf("the command got %v", got)
	}
	tty.expect(`prompt> `)
	tty.status(3)
	tty.released()
}

// TSTP and CONT for xlock alone, from elsewhere, stop and continue the job.
func TestJobControlFromElsewhere(t *testing.T) {
	t.Parallel()
	tty := newTerminal(t)
	tty.addListener()
	tty.shell()
	xlock, command := tty.foregroundJob("xlock run lock ./tell CONT")
	tty.expect(`ready`)
	tty.send(xlock, unix.SIGTSTP)
	tty.stopped(xlock, command)
	tty.send(xlock, unix.SIGCONT)
	tty.expect(`got CONT`)
	if state := tty.state(xlock); state == "T" {
		t.Error("xlock is still stopped")
	}
	tty.typeKeys("fg\n")
	tty.awaitForeground(xlock)
	tty.typeKeys(keyInterrupt)
	tty.expect(`prompt> `)
	tty.status(128 + int(unix.SIGINT))
	tty.released()
}

// The command was continued, and then xlock is: the command need not be told
// again. A shell does both at once, where the order is the kernel's.
func TestContinuedOnce(t *testing.T) {
	t.Parallel()
	tty := newTerminal(t)
	tty.addListener()
	tty.shell()
	xlock, command := tty.foregroundJob("xlock run lock ./tell CONT WINCH")
	tty.expect(`ready`)
	tty.typeKeys(keySuspend)
	tty.stopped(xlock, command)
	tty.send(command, unix.SIGCONT)
	tty.expect(`got CONT`)
	tty.send(xlock, unix.SIGCONT, unix.SIGWINCH)
	if got := told(tty.expect(`got WINCH`)); len(got) > 1 {
		t.Errorf("the command got %v besides", got)
	}
	tty.send(xlock, realTimeMax)
	if got := told(tty.expect(`end\r\n`)); got != nil {
		t.Errorf("the command got %v besides", got)
	}
}

// A command that cleans up its screen before it stops itself, as editors do.
func TestJobControlOfItsOwn(t *testing.T) {
	for _, how := range []string{"TSTP", "STOP"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			tty := newTerminal(t)
			testenv.Need(t, "perl")
			tty.program("edit", `#!/usr/bin/perl
use POSIX ();
$| = 1;
my $mask = POSIX::SigSet->new(POSIX::SIGTSTP(), POSIX::SIGINT());
POSIX::sigprocmask(POSIX::SIG_BLOCK(), $mask);
$SIG{INT} = sub { print "bye
"; exit 9 };
$SIG{TSTP} = sub {
	print "screen left
";
	local $SIG{TSTP} = 'DEFAULT';
	kill $ARGV[0], $$;
	POSIX::sigprocmask(POSIX::SIG_UNBLOCK(), POSIX::SigSet->new(POSIX::SIGTSTP()));
	POSIX::sigprocmask(POSIX::SIG_BLOCK(), $mask);
	print "screen back
";
};
print "ready
";
POSIX::sigsuspend(POSIX::SigSet->new) while 1;
`)
			tty.shell()
			xlock, command := tty.foregroundJob("xlock run lock ./edit " + how)
			tty.expect(`ready`)
			for range 3 {
				tty.typeKeys(keySuspend)
				tty.expect(`screen left`)
				tty.stopped(xlock, command)
				tty.typeKeys("fg\n")
				tty.expect(`screen back`)
				tty.awaitForeground(xlock)
			}
			tty.typeKeys(keyInterrupt)
			tty.expect(`bye`)
			tty.expect(`prompt> `)
			tty.status(9)
			tty.released()
		})
	}
}

// A command that ignores the suspend key is not stopped, and neither is xlock.
func TestSuspendKeyIgnored(t *testing.T) {
	t.Parallel()
	tty := newTerminal(t)
	tty.addListener()
	tty.shell()
	xlock, command := tty.foregroundJob("xlock run lock ./tell no-TSTP WINCH")
	tty.expect(`ready`)
	tty.typeKeys(keySuspend)
	tty.expect(`\^Z`) // the terminal has done with it
	tty.resize(50)
	tty.expect(`got WINCH`)
	if states := tty.state(xlock) + tty.state(command); strings.Contains(states, "T") {
		t.Errorf("xlock and the command are in state %s", states)
	}
	tty.send(xlock, realTimeMax)
	tty.expect(`end\r\n`)
	tty.expect(`prompt> `)
	tty.status(3)
	tty.released()
}
