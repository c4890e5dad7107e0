package supervise

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"xlock/internal/eintr"
)

// Process is the process of a command, from [Command.Start] to the end of
// [Process.Run] or [Process.Cancel], of which the caller owes it one.
type Process struct {
	command *Command
	pid     int
	gate    gate
	signals <-chan os.Signal // for relay

	mu       sync.Mutex
	ended    bool   // reaped: the pid may be somebody else's now
	lastStop uint32 // the place of the last stop signal, see arrival
	resumed  bool   // the SIGCONT that ended stopBy is still to come in
}

// Status is how a command ended: with an exit code, or by a signal.
type Status struct {
	Code   int
	Signal syscall.Signal // 0: it exited
}

// InterruptedError reports that this process, or the one that was to become the
// command, was told to end before the command began. The command has not run;
// or, elsewhere than on Linux, has been killed.
type InterruptedError struct{ Signal syscall.Signal }

func (e *InterruptedError) Error() string {
	return unix.SignalName(e.Signal) + " before the command began"
}

// errNotBegun: the process has ended before it became the command.
var errNotBegun = errors.New("the command's process has ended before it began")

// WaitError reports that the command runs, or has run, and that how it ends
// cannot be found out.
type WaitError struct{ Err error }

func (e *WaitError) Error() string { return "cannot wait for the command: " + e.Err.Error() }

// Start makes the process that is to become the command, with the descriptors,
// the directory, the limits, the environment and the signal mask that the
// command will have. From then on this process catches the signals that are
// to be passed on.
//
// On Linux the new process waits at a gate, which [Process.Run] opens. It ends
// there if this process dies before. So a caller that writes its number down
// first leaves no moment in which a command runs that nobody knows of.
// Elsewhere it is the command from the start.
//
// A process can run one command at a time.
func (c *Command) Start() (*Process, error) {
	p := &Process{command: c, signals: catchSignals()}
	if err := p.start(); err != nil {
		return nil, err
	}
	return p, nil
}

// PID is the command's process number.
func (p *Process) PID() int { return p.pid }

// Cancel ends the process, instead of [Process.Run].
func (p *Process) Cancel() {
	_ = unix.Kill(p.pid, unix.SIGKILL) // a closed gate would not move one that is stopped
	p.gate.close()
	_, _ = p.wait()
}

// Run lets the process become the command, calls began once it has, on another
// goroutine, and returns how the command ended. While the command runs, signals
// that ask this process to do something are the command's to act on: it may
// clean up, and is waited for. When the terminal stops it, this process stops
// too.
//
// Run fails with an [*InterruptedError] if this process was told to end
// before, with a *[fs.PathError] if the command cannot be executed, and with a
// [*WaitError].
func (p *Process) Run(began func()) (Status, error) {
	if sig := toldToEnd(); sig != 0 {
		p.Cancel()
		return Status{}, &InterruptedError{sig}
	}
	defer letTerminalStopUs()
	done := make(chan struct{})
	defer close(done)
	go p.relay(done)
	// The gate is watched beside the command, as a command that is stopped
	// before its first step must be noticed too.
	start := make(chan error, 1)
	go func() {
		err := p.gate.open()
		if err == nil {
			began()
		}
		start <- err
	}()
	status, err := p.wait()
	if errStart := <-start; errStart != nil {
		return Status{}, p.notStarted(errStart, status)
	}
	return status, err
}

func (p *Process) notStarted(err error, status Status) error {
	var errno syscall.Errno
	switch {
	case err == errNotBegun && status.Signal != 0:
		return &InterruptedError{status.Signal}
	case errors.As(err, new(*os.SyscallError)), !errors.As(err, &errno):
		return err
	}
	return p.command.failed(errno)
}

// wait returns when the command has ended.
func (p *Process) wait() (Status, error) {
	for {
		pid, ws, err := p.nextChange()
		switch {
		case err != nil:
			return Status{}, &WaitError{err}
		case pid != p.pid: // an orphan, see waitTarget; or 0, the change is over
		case ws.Stopped():
			p.stopToo(ws.StopSignal())
		case ws.Signaled():
			return Status{Signal: ws.Signal()}, nil
		case ws.Exited():
			return Status{Code: ws.ExitStatus()}, nil
		}
	}
}

// waitTarget is whose changes are waited for, as wait4(2) has it: the command's, and
// as the init of a PID namespace those of every orphan too, which are reaped so
// (pid_namespaces(7)). Other children may have been left by the program that
// this one replaced, and are none of its business.
func (p *Process) waitTarget() int {
	const everybody = -1
	if unix.Getpid() == 1 {
		return everybody
	}
	return p.pid
}

// reap collects a change. The caller calls noteEnd.
func (p *Process) reap(options int) (pid int, ws unix.WaitStatus, err error) {
	err = eintr.Retry(func() error {
		pid, err = unix.Wait4(p.waitTarget(), &ws, unix.WUNTRACED|options, nil)
		return err
	})
	return pid, ws, err
}

// noteEnd keeps signals from a process number that has been given up. The caller
// holds the lock.
func (p *Process) noteEnd(pid int, ws unix.WaitStatus) {
	p.ended = p.ended || pid == p.pid && (ws.Exited() || ws.Signaled())
}

// signal sends the command a signal, which a set-user-ID program may refuse. The
// caller holds the lock.
func (p *Process) signal(sig syscall.Signal) {
	if !p.ended {
		_ = unix.Kill(p.pid, sig)
	}
}
