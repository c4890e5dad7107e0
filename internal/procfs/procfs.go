// Package procfs reads the texts of Linux's /proc.
//
// Everything here but [ReadFile] is a pure function on a string: it opens nothing
// and knows no process, so that each ugly text a kernel or another process can
// produce is a line in a table of tests. The formats are those of proc(5).
package procfs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrMalformed is wrapped by every error of this package.
var ErrMalformed = errors.New("malformed /proc text")

// Stat is what /proc/PID/stat tells about a process or a thread.
type Stat struct {
	PID   int
	Comm  string // the name of the program, as much as 15 bytes, any bytes
	State byte   // R, S, D, T, t, Z, X ... (proc_pid_stat(5))
	PPID  int    // 0 when the parent is in another PID namespace
	Start string // field 22: clock ticks since boot, as decimal digits
}

// Ended reports whether the thread has ended and only waits to be reaped.
func (s Stat) Ended() bool { return s.State == 'Z' || s.State == 'X' || s.State == 'x' }

// ParseStat parses the text of /proc/PID/stat.
//
// The second field is the name of the program in parentheses, and the name may
// hold blanks, parentheses and newlines itself: only the *last* ')' ends it.
func ParseStat(text string) (Stat, error) {
	opened := strings.IndexByte(text, '(')
	closed := strings.LastIndexByte(text, ')')
	if opened < 0 || closed < opened {
		return Stat{}, malformed("stat has no name in parentheses", text)
	}
	const start = 22 - 3 // the fields behind the name begin with field 3
	fields := strings.Fields(text[closed+1:])
	if len(fields) <= start+1 || len(fields[0]) != 1 {
		return Stat{}, malformed("stat has too few fields", text)
	}
	pid, errPID := strconv.Atoi(strings.TrimSpace(text[:opened]))
	ppid, errPPID := strconv.Atoi(fields[1])
	_, errStart := strconv.ParseUint(fields[start], 10, 64)
	if err := errors.Join(errPID, errPPID, errStart); err != nil {
		return Stat{}, malformed("stat has a field that is no number", text)
	}
	return Stat{
		PID:   pid,
		Comm:  text[opened+1 : closed],
		State: fields[0][0],
		PPID:  ppid,
		Start: fields[start],
	}, nil
}

// Status is what /proc/PID/status tells about a process or a thread.
type Status struct {
	TGID int // the process that the thread belongs to

	// NSPIDs are the numbers of the process in each PID namespace, from the
	// one of the procfs mount inwards to its own (Linux 4.1 and later). A
	// single number says that mount and process share one namespace.
	NSPIDs []int
	UIDs   []int // real, effective, saved and file system
}

// ParseStatus parses the text of /proc/PID/status. Lines that are missing
// leave their field at zero.
func ParseStatus(text string) (Status, error) {
	var s Status
	var err error
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		switch key {
		case "Tgid":
			s.TGID, err = strconv.Atoi(strings.TrimSpace(value))
		case "NSpid":
			s.NSPIDs, err = numbers(value)
		case "Uid":
			s.UIDs, err = numbers(value)
		}
		if err != nil {
			return Status{}, malformed("status has a field that is no number", line)
		}
	}
	return s, nil
}

func numbers(text string) ([]int, error) {
	var list []int
	for field := range strings.FieldsSeq(text) {
		n, err := strconv.Atoi(field)
		if err != nil {
			return nil, err
		}
		list = append(list, n)
	}
	return list, nil
}

// NamespaceID takes the inode out of the target of a /proc/PID/ns link:
// "pid:[4026531836]" gives "4026531836".
func NamespaceID(link string) (string, error) {
	_, rest, ok := strings.Cut(link, ":[")
	id, tail, closed := strings.Cut(rest, "]")
	if !ok || !closed || tail != "" {
		return "", malformed("no namespace link", link)
	}
	if _, err := strconv.ParseUint(id, 10, 64); err != nil {
		return "", malformed("no namespace link", link)
	}
	return id, nil
}

// CommandLine takes the words out of /proc/PID/cmdline. There are none of a kernel
// thread or a zombie.
func CommandLine(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\x00"), "\x00")
}

// ControlGroup is the path in the one hierarchy of version 2, "0::/path" in
// /proc/PID/cgroup (cgroups(7)), and empty for the root.
func ControlGroup(text string) string {
	for line := range strings.Lines(text) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.Trim(path, "/\n")
		}
	}
	return ""
}

func malformed(what, text string) error {
	const most = 80
	if len(text) > most {
		text = text[:most]
	}
	return fmt.Errorf("%w: %s: %q", ErrMalformed, what, text)
}
