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
	return slices.Concat(endings(), fromTerminals(), []syscall.Signal{
		unix.SIGABRT, unix.SIGALRM, unix.SIGVTALRM, unix.SIGUSR1, unix.SIGUSR2,
		unix.SIGXCPU, unix.SIGXFSZ, unix.SIGIO,
	}, relayedHere())
}

// endings are what a process is told to end with.
func endings() []syscall.Signal {
	return []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM}
}

// fromTerminals are those that a terminal, or the kernel on its behalf, sends
// to a whole process group, besides HUP, INT and QUIT.
func fromTerminals() []syscall.Signal {
	return []syscall.Signal{unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU, unix.SIGWINCH, unix.SIGCONT}
}

// DieWhenTold ends this process by HUP, INT, QUIT or TERM until stop is called,
// with its default action: the runtime prints all stacks for a QUIT, and the
// kernel spares the init of a PID namespace.
func DieWhenTold() (stop func()) {
	told := make(chan os.Signal, 1)
	notify(told, endings())
	go func() {
		if sig, ok := <-told; ok {
			DieBy(sig.(syscall.Signal))
			os.Exit(128 + int(sig.(syscall.Signal)))
		}
	}()
	return func() {
		signal.Stop(told)
		close(told)
	}
}

// notify catches those of the signals that are not ignored. What is ignored, by
// nohup(1) or for the background jobs of a shell without job control, stays so,
// also for the command; signal.Notify would reset it.
//
// The Go runtime itself resets what was ignored, before any code of ours runs,
// but for HUP, INT, TSTP, TTIN and TTOU (initsig in runtime/signal_unix.go, 1.26).
func notify(ch chan<- os.Signal, sigs []syscall.Signal) {
	for _, sig := range sigs {
		if !ignored(sig) {
			signal.Notify(ch, sig)
		}
	}
}

// arrival is a signal that has come, perhaps more than once, from the kernel or
// from a process, or from both.
type arrival struct {
	signal              syscall.Signal
	byKernel, byProcess bool
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
	i := slices.IndexFunc(endings(), arrived)
	if i < 0 {
		return 0
	}
	return endings()[i]
}

// relay passes signals on until done.
func (p *Process) relay(done <-chan struct{}) {
	for {
		select {
		case sig := <-p.signals:
			for _, a := range arrivals(sig.(syscall.Signal)) {
				p.pass(a)
			}
		case <-done:
			return
		}
	}
}

// pass passes a signal on, unless the command has it already. A process that
// sends to the whole group cannot be told from one that means only us; then the
// command gets it twice.
func (p *Process) pass(a arrival) {
	switch {
	case a.signal == unix.SIGCONT && p.stopped.Swap(false): // stopToo tells it
	case a.byProcess, a.byKernel && !p.hasItsOwn(a.signal):
		p.signal(a.signal)
	}
}

// hasItsOwn reports whether the command gets this signal from the kernel when we
// do: what comes from the terminal goes to the whole process group, and a limit
// (setrlimit(2)) that we exceed is not the command's affair.
func (p *Process) hasItsOwn(sig syscall.Signal) bool {
	if sig == unix.SIGXCPU || sig == unix.SIGXFSZ {
		return true
	}
	group, err := unix.Getpgid(p.pid)
	return slices.Contains(slices.Concat(endings(), fromTerminals()), sig) &&
		err == nil && group == unix.Getpgrp()
}
