package main

import (
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"xlock/internal/testenv"
)

// listener tells each signal that it gets, of those whose names it is given or of
// all that can be caught, and ignores those that have a "no-" before their names.
// With RTMAX it says so and exits with 3.
// It lets signals in only while it does nothing else, and so misses none.
const listener = `#!/usr/bin/perl
use Config;
use POSIX ();
$| = 1;
my @names = @ARGV ? @ARGV : grep { !/^(ZERO|KILL|STOP|NUM32|NUM33)$/ } split ' ', $Config{sig_name};
my $all = POSIX::SigSet->new;
$all->fillset;
POSIX::sigprocmask(POSIX::SIG_BLOCK(), $all);
for (@names) {
	if (/^no-(.*)/) { $SIG{$1} = 'IGNORE' } else { $SIG{$_} = sub { print "got $_[0]\n" } }
}
$SIG{RTMAX} = sub { print "end\n"; exit 3 };
print "ready\n";
POSIX::sigsuspend(POSIX::SigSet->new) while 1;
`

const realTimeMax = syscall.Signal(64)

// addListener makes ./tell.
func (b bench) addListener() {
	b.t.Helper()
	testenv.Need(b.t, "perl")
	b.program("tell", listener)
}

// told is what tell has got, by what it printed.
func told(text string) (names []string) {
	for _, match := range regexp.MustCompile(`got (\w+)`).FindAllStringSubmatch(text, -1) {
		names = append(names, match[1])
	}
	return names
}

// endsListening ends tell by way of xlock, and fails the test if it has told more
// than expect has passed.
func (w *watched) endsListening(xlock *exec.Cmd) {
	w.t.Helper()
	w.endsListeningBy(xlock.Process.Pid, xlock)
}

// endsListeningBy is for an xlock that is the child of the program that the test
// has started.
func (w *watched) endsListeningBy(xlock int, started *exec.Cmd) {
	w.t.Helper()
	w.send(xlock, realTimeMax)
	if got := told(w.expect(`end\r?\n`)); got != nil {
		w.t.Errorf("the command got %v besides", got)
	}
	w.ended(started, "3")
	w.released()
}

// What the terminal sends, the whole foreground process group gets, the command
// among them: xlock must not send it a second time. xlock is stopped until the
// command has told what it got by itself, so that two cannot look like one; but
// not for TSTP, which the SIGCONT would take away from it.
func TestSignalOfTerminalOnce(t *testing.T) {
	key := func(k string) func(*terminal) { return func(tty *terminal) { tty.typeKeys(k) } }
	tests := []struct {
		signal string
		cause  func(*terminal)
		then   syscall.Signal
	}{
		{"INT", key(keyInterrupt), unix.SIGCONT},
		{"QUIT", key(keyQuit), unix.SIGCONT},
		{"TSTP", key(keySuspend), unix.SIGUSR1},
		{"WINCH", func(tty *terminal) { tty.resize(50) }, unix.SIGCONT},
	}
	for _, tt := range tests {
		t.Run(tt.signal, func(t *testing.T) {
			t.Parallel()
			tty := newTerminal(t)
			tty.addListener()
			xlock := tty.start("xlock", "run", "lock", "./tell", tt.signal, perlName(tt.then))
			tty.expect(`ready`)
			if tt.then == unix.SIGCONT {
				tty.hold(xlock.Process.Pid)
			}
			tt.cause(tty)
			tty.expect(`got ` + tt.signal)
			tty.send(xlock.Process.Pid, tt.then)
			if got := told(tty.expect(`got ` + perlName(tt.then))); len(got) > 1 {
				t.Errorf("the command got %v besides", got)
			}
			tty.endsListening(xlock)
		})
	}
}

// What somebody sends to xlock alone must be sent on, also while xlock is in the
// foreground of a terminal that might have sent it.
func TestSignalToForegroundOnce(t *testing.T) {
	for _, sig := range []syscall.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGUSR1,
		unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGWINCH, unix.SIGCONT,
	} {
		name := strings.TrimPrefix(unix.SignalName(sig), "SIG")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tty := newTerminal(t)
			tty.addListener()
			xlock := tty.start("xlock", "run", "lock", "./tell", name)
			tty.expect(`ready`)
			tty.send(xlock.Process.Pid, sig)
			tty.expect(`got ` + name)
			tty.endsListening(xlock)
		})
	}
}

// relayed are the signals that xlock passes on, but for RTMAX.
func relayed() []syscall.Signal {
	list := []syscall.Signal{
		unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGABRT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM,
		unix.SIGTERM, unix.SIGCONT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGXCPU, unix.SIGXFSZ,
		unix.SIGVTALRM, unix.SIGWINCH, unix.SIGIO, unix.SIGPWR,
	}
	for sig := syscall.Signal(35); sig < realTimeMax; sig++ {
		list = append(list, sig)
	}
	return list
}

// perlName is what Perl calls a signal.
func perlName(sig syscall.Signal) string {
	if name := unix.SignalName(sig); name != "" {
		return strings.TrimPrefix(name, "SIG")
	}
	return "NUM" + strconv.Itoa(int(sig))
}

// Each signal that can mean the command reaches it, one after the other.
func TestSignalRelayed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.addListener()
	xlock, out := b.startAlone("xlock", "run", "lock", "./tell")
	out.expect(`ready`)
	out.relaysAll(xlock.Process.Pid)
	out.endsListening(xlock)
}

func (w *watched) relaysAll(xlock int) {
	w.t.Helper()
	for _, sig := range relayed() {
		w.send(xlock, sig)
		if got := told(w.expect(`got ` + perlName(sig) + `\n`)); len(got) > 1 {
			w.t.Errorf("the command got %v, want %s", got, perlName(sig))
		}
	}
}

// None is lost when they come all at once. The stopping ones are not among them,
// as a SIGCONT takes away those that are on their way.
func TestSignalsAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.addListener()
	xlock, out := b.startAlone("xlock", "run", "lock", "./tell")
	out.expect(`ready`)
	b.hold(xlock.Process.Pid)
	var want []string
	for _, sig := range relayed() {
		if sig == unix.SIGTSTP || sig == unix.SIGTTIN || sig == unix.SIGTTOU {
			continue
		}
		b.send(xlock.Process.Pid, sig)
		want = append(want, perlName(sig))
	}
	var got []string
	for range want {
		got = append(got, told(out.expect(`got \w+\n`))...)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the command got %v, want %v", got, want)
	}
	out.endsListening(xlock)
}

// What is about xlock itself does not reach the command, and does not end xlock
// beside it.
func TestSignalNotRelayed(t *testing.T) {
	for _, sig := range []syscall.Signal{unix.SIGPIPE, unix.SIGCHLD, unix.SIGURG, unix.SIGPROF} {
		t.Run(perlName(sig), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.addListener()
			xlock, out := b.startAlone("xlock", "run", "lock", "./tell")
			out.expect(`ready`)
			b.send(xlock.Process.Pid, sig, unix.SIGUSR1)
			if got := told(out.expect(`got USR1`)); len(got) > 1 {
				t.Errorf("the command got %v", got)
			}
			out.endsListening(xlock)
		})
	}
}

// The kernel sends a signal to xlock's process alone, as it does when a timer
// runs out or when a descriptor that was set up so becomes ready (fcntl(2),
// F_SETOWN). Whoever set that up before xlock knows nothing of another process.
func TestSignalByKernel(t *testing.T) {
	for _, sig := range []syscall.Signal{unix.SIGIO, unix.SIGALRM, unix.SIGVTALRM, unix.SIGUSR2, 40} {
		t.Run(perlName(sig), func(t *testing.T) {
			t.Parallel()
			tty := newTerminal(t)
			tty.addListener()
			xlock := tty.start("xlock", "run", "lock", "./tell", perlName(sig))
			tty.expect(`ready`)
			tty.signalByKernel(xlock.Process.Pid, sig)
			tty.expect(`got ` + perlName(sig))
			tty.endsListening(xlock)
		})
	}
}

func (b bench) signalByKernel(pid int, sig syscall.Signal) {
	b.t.Helper()
	var pipe [2]int
	b.check(unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	b.t.Cleanup(func() { unix.Close(pipe[0]); unix.Close(pipe[1]) })
	for _, set := range [][2]int{
		{unix.F_SETOWN, pid},
		{unix.F_SETSIG, int(sig)},
		{unix.F_SETFL, unix.O_ASYNC},
	} {
		_, err := unix.FcntlInt(uintptr(pipe[0]), set[0], set[1])
		b.check(err)
	}
	_, err := unix.Write(pipe[1], []byte("x"))
	b.check(err)
}

// An alarm that was set before xlock is still set in it (execve(2)). It must not
// go off before the command has begun, which takes a small part of its time.
func TestSignalOfAlarm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.addListener()
	xlock, out := b.startAlone("perl", "-e", "alarm 5; exec @ARGV", "xlock", "run", "lock", "./tell", "ALRM")
	out.expect(`got ALRM`)
	out.endsListening(xlock)
}

// A command that has left the foreground of the terminal does not get what that
// sends to it, with xlock as without. What is sent to xlock alone it gets.
func TestSignalOfTerminalToOtherGroup(t *testing.T) {
	for name, leave := range map[string]string{
		"group":   "setpgrp 0, 0; exec @ARGV",
		"session": "use POSIX (); POSIX::setsid(); exec @ARGV",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tty := newTerminal(t)
			tty.addListener()
			xlock := tty.start("xlock", "run", "lock", "perl", "-e", leave, "./tell")
			tty.expect(`ready`)
			tty.typeKeys(keyInterrupt)
			tty.expect(`\^C`) // the terminal has done with it
			tty.typeKeys(keyQuit)
			tty.expect(`\^\\`)
			tty.resize(50)
			for _, sig := range []syscall.Signal{unix.SIGUSR1, unix.SIGINT} {
				tty.send(xlock.Process.Pid, sig)
				if got := told(tty.expect(`got ` + perlName(sig))); len(got) > 1 {
					t.Errorf("the command got %v", got)
				}
			}
			tty.endsListening(xlock)
		})
	}
}

// What was blocked when xlock started is blocked when the command starts, and the
// command may let it in. What comes for it then must reach it.
func TestSignalBlockedAtStart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.addListener()
	const blockAll = "use POSIX; $all = POSIX::SigSet->new; $all->fillset; sigprocmask(SIG_BLOCK, $all); exec @ARGV"
	xlock, out := b.startAlone("perl", "-e", blockAll, "xlock", "run", "lock", "./tell")
	out.expect(`ready`)
	out.relaysAll(xlock.Process.Pid)
	out.endsListening(xlock)
}
