package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// The exit statuses of flock(1), those of <sysexits.h>.
const (
	flockConflict   = 1 // or what -E says
	flockFailure    = 1
	flockUsage      = 64
	flockNoLock     = 65
	flockNoFile     = 66
	flockNoCommand  = 69
	flockSystem     = 71
	flockCannotMake = 73
)

// flockOptions is a command line of flock(1).
type flockOptions struct {
	show    rune   // 'h' or 'V': print that, and nothing else
	path    string // the file to lock, if byPath
	byPath  bool
	fd      int      // the descriptor to lock, if not byPath
	command []string // empty: lock the descriptor, and end

	shared, unlock bool // neither: an exclusive lock
	noWait         bool
	wait           flockWait
	conflict       int // the status for a busy lock
	close          bool
	noFork         bool
	verbose        bool
	ranges         bool // locks of fcntl(2), F_OFD_SETLK, not of flock(2)
	start, length  int64
}

// how is what flock(2) is to do.
func (o *flockOptions) how() int {
	how := unix.LOCK_EX
	switch {
	case o.unlock:
		how = unix.LOCK_UN
	case o.shared:
		how = unix.LOCK_SH
	}
	if o.noWait {
		how |= unix.LOCK_NB
	}
	return how
}

// flockError ends flock(1) with a status. It may have a message, one about the
// lock's holder, and a line that points to the help.
type flockError struct {
	status  int
	message string
	tryHelp bool
	holder  string
}

func (e *flockError) Error() string { return e.message }

func flockUsageError(message string) error {
	return &flockError{status: flockUsage, message: message}
}

// Keys of options that have no letter.
const (
	flockVerbose rune = iota + 256
	flockFcntl
	flockStart
	flockLength
	flockFD
)

func newFlockGetopt(args []string) *getopt {
	return &getopt{args: args, letters: "sexnoFuw:E:hV?", long: []longOption{
		{"shared", 's', false},
		{"exclusive", 'x', false},
		{"unlock", 'u', false},
		{"nonblocking", 'n', false},
		{"nb", 'n', false},
		{"timeout", 'w', true},
		{"wait", 'w', true},
		{"conflict-exit-code", 'E', true},
		{"close", 'o', false},
		{"no-fork", 'F', false},
		{"verbose", flockVerbose, false},
		{"fcntl", flockFcntl, false},
		{"start", flockStart, true},
		{"length", flockLength, true},
		{"fd", flockFD, true},
		{"help", 'h', false},
		{"version", 'V', false},
	}}
}

// parseFlock reads a command line as flock(1) does. Its errors are *[flockError].
func parseFlock(args []string) (flockOptions, error) {
	opts := flockOptions{conflict: flockConflict, fd: -1}
	if len(args) == 0 {
		return opts, &flockError{status: flockUsage, message: "not enough arguments", tryHelp: true}
	}
	line := newFlockGetopt(args)
	for !opts.atCommand(line) {
		key, value, err := line.next()
		if err != nil {
			return opts, &flockError{status: flockUsage, message: err.Error(), tryHelp: true}
		}
		if key == noOption {
			break
		}
		if err := opts.set(key, value); err != nil || opts.show != 0 {
			return opts, err
		}
	}
	if opts.wait.set && opts.wait.duration == 0 {
		opts.noWait = true
	}
	if opts.noFork && opts.close {
		return opts, flockUsageError("the --no-fork and --close options are incompatible")
	}
	return opts, opts.setOperands(line.args)
}

// atCommand: behind --fd there is no file that would end the options in front of
// a -c.
func (o *flockOptions) atCommand(line *getopt) bool {
	return o.fd >= 0 && line.bundle == "" && len(line.args) > 0 && isFlockShell(line.args[0])
}

func isFlockShell(word string) bool { return word == "-c" || word == "--command" }

func (o *flockOptions) set(key rune, value string) (err error) {
	switch key {
	case 's':
		o.shared, o.unlock = true, false
	case 'x', 'e':
		o.shared, o.unlock = false, false
	case 'u':
		o.shared, o.unlock = false, true
	case 'n':
		o.noWait = true
	case 'w':
		o.wait, err = parseFlockWait(value)
	case 'E':
		o.conflict, err = parseFlockStatus(value)
	case 'o':
		o.close = true
	case 'F':
		o.noFork = true
	case 'h', 'V':
		o.show = key
	case flockVerbose:
		o.verbose = true
	case flockFcntl:
		o.ranges = true
	case flockStart:
		o.ranges = true
		o.start, err = parseFlockSize(value, "invalid as start offset")
	case flockLength:
		o.ranges = true
		o.length, err = parseFlockSize(value, "invalid as length of lock range")
	case flockFD:
		o.fd, err = parseFlockFD(value)
	default: // -?
		err = &flockError{status: flockUsage, tryHelp: true}
	}
	return err
}

// setOperands goes by their number alone: one is a descriptor, more are a file and
// a command. After --fd all are the command.
func (o *flockOptions) setOperands(operands []string) (err error) {
	switch {
	case o.fd >= 0 && len(operands) == 0:
		return flockUsageError("missing command")
	case o.fd >= 0:
		o.command, err = flockCommand(operands)
	case len(operands) == 0:
		return flockUsageError("requires file descriptor, file or directory")
	case len(operands) == 1:
		o.fd, err = parseFlockNumber(operands[0], flockBadFD)
	default:
		o.path, o.byPath = operands[0], true
		o.command, err = flockCommand(operands[1:])
	}
	return err
}

// flockCommand is what to run: words, or a string for the user's shell.
func flockCommand(words []string) ([]string, error) {
	if !isFlockShell(words[0]) {
		return words, nil
	}
	if len(words) != 2 {
		return nil, flockUsageError(words[0] + " requires exactly one command argument")
	}
	shell := os.Getenv("SHELL")
	if shell == "" {
		shell = "/bin/sh"
	}
	return []string{shell, "-c", words[1]}, nil
}
