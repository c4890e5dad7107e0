//go:build darwin || freebsd

package supervise

import (
	"os"

	"golang.org/x/sys/unix"
)

// gate is none: nothing between fork(2) and execve(2) can be had from os, and
// the process is the command at once.
type gate struct{}

func (gate) close()      {}
func (gate) open() error { return nil }

func (p *Process) start() error {
	return p.command.orShell(func(path string, args []string) error {
		process, err := os.StartProcess(path, args, &os.ProcAttr{
			Env:   os.Environ(),
			Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		})
		if err == nil {
			p.pid = process.Pid
		}
		return err
	})
}

// nextChange waits for a change. There is no waiting without collecting in
// wait4(2), so that a signal may meet the command's number just given up.
func (p *Process) nextChange() (pid int, ws unix.WaitStatus, err error) {
	pid, ws, err = p.reap(0)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noteEnd(pid, ws)
	return pid, ws, err
}
