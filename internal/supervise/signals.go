package supervise

import (
	"os"
	"os/signal"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// relayed are the signals that are passed on to the command: all that can be
// caught, and tell the process something that is meant for the command. Not
// among them are
//
//	KILL, STOP                 cannot be caught
//	CHLD                       tells of the command itself
//	SEGV BUS FPE ILL TRAP SYS  a fault of this program, which must not look
//	STKFLT EMT                 like one of the command's
//	PIPE                       a message of this program that nobody reads
//	URG, PROF                  the Go runtime's, for preemption and profiles
//	32 to 34 on Linux          the C library's, nptl(7)
func relayed() []syscall.Signal {
	return slices.Concat(terminationSignals(), jobControlSignals(), []syscall.Signal{
		unix.SIGABRT, unix.SIGALRM, unix.SIGVTALRM, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGXCPU, unix.SIGXFSZ, unix.SIGIO,
	}, relayedHere())
}

// terminationSignals are what a process is told to end with.
func terminationSignals() []syscall.Signal {
	return []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM}
}

// jobControlSignals are the others that the kernel sends for a terminal.
func jobControlSignals() []syscall.Signal {
	return []syscall.Signal{unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGWINCH, unix.SIGCONT}
}

// groupWide reports whether the kernel, if it sends the signal, sends it to a
// whole process group.
func groupWide(sig syscall.Signal) bool {
	return slices.Contains(terminationSignals(), sig) || slices.Contains(jobControlSignals(), sig)
}

// notify catches those of the signals that are not ignored. What is ignored, by
// nohup(1) or for the background jobs of a shell without job control, stays so,
// also for the command; signal.Notify would reset it.
//
// The Go runtime itself resets what was ignored, before any code of ours runs,
// but for HUP, INT, TSTP, TTIN, TTOU and CONT (initsig in runtime/signal_unix.go, 1.26).
func notify(ch chan<- os.Signal, sigs []syscall.Signal) {
	for _, sig := range sigs {
		if !ignored(sig) {
			signal.Notify(ch, sig)
		}
	}
}

// arrival is a signal that has come, from the kernel or from a process.
type arrival struct {
	signal   syscall.Signal
	byKernel bool
	at       uint32 // a place in the order
}

// catchSignals catches the signals to relay, until this process ends: one that
// comes between the end of the command and ours must not keep us from giving
// back the lock. What can be read from the channel is for arrivals.
func catchSignals() <-chan os.Signal {
	ch := make(chan os.Signal, 16)
	catch(ch, slices.DeleteFunc(relayed(), ignored))
	return ch
}

// toldToEnd returns a signal that has told this process to end, or 0.
func toldToEnd() syscall.Signal {
	for _, sig := range terminationSignals() {
		if arrived(sig) != 0 {
			return sig
		}
	}
	return 0
}

// relay passes signals on until done.
func (p *Process) relay(done <-chan struct{}) {
	defer unblock(relayed()...)()
	for {
		select {
		case sig := <-p.signals:
			p.passAll(sig.(syscall.Signal))
		case <-done:
			return
		}
	}
}

// passAll passes on what has come. The lock is held so that nothing of it is
// left to be passed on when stopToo has stopped this process and returns.
func (p *Process) passAll(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := arrivals(sig)
	for _, a := range list {
		if slices.Contains(stopSignals(), a.signal) {
			p.lastStop = a.at
		}
	}
	for _, a := range list {
		if a.signal != unix.SIGCONT || !p.isStale(a) {
			p.pass(a)
		}
	}
}

// isStale reports whether a SIGCONT is over: it has continued us, and stopToo the
// command; or a stop signal has come after it, which discards one that is pending
// (signal(7)). The caller holds the lock.
func (p *Process) isStale(cont arrival) bool {
	resumed := p.resumed
	p.resumed = false
	return resumed || cont.at < p.lastStop
}

// pass passes a signal on, unless the command has it already. A process that
// sends to the whole group cannot be told from one that means only us; then the
// command gets it twice. The caller holds the lock.
func (p *Process) pass(a arrival) {
	if !a.byKernel || !notOurs(a.signal) {
		p.signal(a.signal)
	}
}

// notOurs reports whether a signal from the kernel is not meant for what we stand
// for. What comes from the terminal goes to its whole foreground process group,
// and a command that has left that group would not get it without us either.
// Only a terminal that hangs up tells the leader of the session alone, and
// continues it (tty_signal_session_leader in tty_jobctrl.c, Linux 6.18). A limit
// that we exceed (setrlimit(2)) is not the command's affair.
func notOurs(sig syscall.Signal) bool {
	switch sig {
	case unix.SIGXCPU, unix.SIGXFSZ:
		return true
	case unix.SIGHUP, unix.SIGCONT:
		session, err := unix.Getsid(0)
		return err != nil || session != unix.Getpid()
	}
	return groupWide(sig)
}
