package lock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"xlock/internal/identity"
)

// The states of a record.
const (
	StateHeld = "held"
	StateFree = "free"
)

const (
	// formatVersion is the value of the field "xlock".
	formatVersion = 1
	// mostBytes is the longest record, with its newline. A pwrite(2) of one
	// page at offset 0 is not torn by a kill (measured on ext4 and tmpfs,
	// Linux 6.18).
	mostBytes = 4096
	// MostLabelBytes is the longest label.
	MostLabelBytes = 1024
)

// Record is the one line of JSON in a lock file. Its field names are part of
// xlock's interface. What is not known is left out.
type Record struct {
	Version    int               `json:"xlock"`
	State      string            `json:"state"`
	Generation uint64            `json:"generation"`
	Owner      *identity.Process `json:"owner,omitempty"`
	Command    *Command          `json:"command,omitempty"`
	Mode       Mode              `json:"mode,omitempty"`
	Inherits   bool              `json:"inherits"` // the command got the descriptor too
	Inode      uint64            `json:"inode,omitempty"`
	Host       string            `json:"host,omitempty"`
	User       string            `json:"user,omitempty"`
	UID        *int              `json:"uid,omitempty"`
	Label      string            `json:"label,omitempty"`
	Acquired   *time.Time        `json:"acquired,omitempty"`
	Released   *time.Time        `json:"released,omitempty"`
	Outcome    *Outcome          `json:"outcome,omitempty"`
	Broken     *Break            `json:"broken,omitempty"` // the last hold that was broken
}

// Command is the process that runs under the lock. It shares the owner's
// machine, boot and namespaces. Without a PID it is the owner's own process.
// The file outlives the command and others may read it, so only the name is
// kept, not the arguments.
type Command struct {
	PID     int    `json:"pid,omitempty"`
	Start   string `json:"start,omitempty"`
	PidfdID string `json:"pidfd_id,omitempty"`
	Name    string `json:"name,omitempty"`
}

// Outcome is how a command ended: its exit status, or the name of the signal
// that ended it.
type Outcome struct {
	Exit   *int   `json:"exit,omitempty"`
	Signal string `json:"signal,omitempty"`
}

// commandProcess identifies the command, and is nil where it is the owner's
// process or not recorded.
func (r *Record) commandProcess() *identity.Process {
	if r.Owner == nil || r.Command == nil || r.Command.PID == 0 {
		return nil
	}
	p := *r.Owner
	p.PID, p.Start, p.PidfdID = r.Command.PID, r.Command.Start, r.Command.PidfdID
	return &p
}

// sameHold reports whether two records are of one acquisition.
func (r *Record) sameHold(other *Record) bool {
	return r.State == other.State && r.Generation == other.Generation &&
		r.Owner != nil && other.Owner != nil && *r.Owner == *other.Owner
}

// Kind says what a lock file holds.
type Kind string

const (
	// Empty: nothing, as after its creation.
	Empty Kind = "empty"
	// Valid: a whole record.
	Valid Kind = "record"
	// Unreadable: a record that cannot be understood: torn, filled with NULs
	// by a crash, longer than a record can be, or of a later version of
	// xlock. The kernel lock alone decides.
	Unreadable Kind = "unreadable"
	// Foreign: something else. Nobody's file is ever overwritten.
	Foreign Kind = "foreign"
)

// Content is what stands in a lock file.
type Content struct {
	Kind   Kind
	Record *Record // only when Valid
	Why    string  // only when Unreadable: torn, malformed, nul-filled, too-long, future-version
	Noted  bool    // the file is empty, and the record is a note
	// Appended: something stands behind the record. With the kernel lock, that makes
	// it somebody's own file; without, a record may be written just now.
	Appended bool
}

// magic begins every record. What begins with it, or is cut off within it, is
// ours.
var magic = []byte(`{"xlock":`)

// readContent reads f from its beginning. Without the kernel lock a writer can
// be at work, and the text can be half of one record and half of the next: two
// reads in a row that agree are taken for a whole one. That is enough for a
// message and for a refusal; what is taken is judged under the lock.
func readContent(f *os.File) (Content, error) {
	const mostReads = 10
	var last []byte
	for range mostReads {
		text := make([]byte, mostBytes+1)
		n, err := f.ReadAt(text, 0)
		if err != nil && !errors.Is(err, io.EOF) {
			return Content{}, err
		}
		if last != nil && bytes.Equal(last, text[:n]) {
			break
		}
		last = text[:n]
	}
	return parse(last), nil
}

// parse takes the first mostBytes+1 bytes of a file, or all that it has.
func parse(text []byte) Content {
	const byteOrderMark = "\xef\xbb\xbf" // left by an editor
	trimmed := bytes.TrimPrefix(text, []byte(byteOrderMark))
	switch {
	case len(text) == 0:
		return Content{Kind: Empty}
	case len(text) <= mostBytes && len(bytes.Trim(text, "\x00")) == 0:
		return Content{Kind: Unreadable, Why: "nul-filled"}
	case len(trimmed) < len(magic) && bytes.HasPrefix(magic, trimmed):
		return Content{Kind: Unreadable, Why: "torn"}
	case !bytes.HasPrefix(trimmed, magic):
		return Content{Kind: Foreign}
	}
	line, rest, ended := bytes.Cut(trimmed, []byte("\n"))
	switch {
	case !ended && len(text) > mostBytes:
		return Content{Kind: Unreadable, Why: "too-long"}
	case !ended:
		return Content{Kind: Unreadable, Why: "torn"}
	}
	content := parseLine(line)
	content.Appended = len(bytes.Trim(rest, " \r\n\x00")) > 0
	return content
}

func parseLine(line []byte) Content {
	var r Record
	if err := json.Unmarshal(line, &r); err == nil && r.complete() {
		return Content{Kind: Valid, Record: &r}
	}
	var version struct {
		Version int `json:"xlock"`
	}
	if json.Unmarshal(line, &version) == nil && version.Version > formatVersion {
		return Content{Kind: Unreadable, Why: "future-version"}
	}
	return Content{Kind: Unreadable, Why: "malformed"}
}

func (r *Record) complete() bool {
	switch r.State {
	case StateFree:
		return r.Version == formatVersion
	case StateHeld:
		return r.Version == formatVersion && r.Owner != nil
	}
	return false
}

// encode gives the record's line, newline included. What another record has left in it
// can be as long as a whole one, as anybody can have written that: it gives way.
func (r Record) encode() ([]byte, error) {
	line, err := r.line()
	if len(line) > mostBytes && r.State == StateFree {
		r = Record{Version: r.Version, State: r.State, Generation: r.Generation, Released: r.Released, Outcome: r.Outcome, Broken: r.Broken}
		line, err = r.line()
	}
	if len(line) > mostBytes {
		r.Broken = nil
		line, err = r.line()
	}
	if len(line) > mostBytes {
		err = fmt.Errorf("the record would take %d bytes, more than %d", len(line), mostBytes)
	}
	return line, err
}

// line is for people in its names: what cannot be printed in them, which JSON would
// write six times as long, becomes a question mark.
func (r Record) line() ([]byte, error) {
	r.Host, r.User = printable(r.Host), printable(r.User)
	if r.Command != nil {
		command := *r.Command
		command.Name = printable(command.Name)
		r.Command = &command
	}
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	err := enc.Encode(r)
	return line.Bytes(), err
}

// writeTo puts the record at the beginning of f, in place, with one pwrite(2) that
// makes the rest of a longer one blank, and then cuts that off. The caller holds the
// kernel lock. A write that fails half-way (a full disk, a quota) puts back what stood
// there, so that the generation is not lost with it.
//
// There is no fsync(2): a record means nothing after the next boot.
func (r *Record) writeTo(f *os.File) error {
	line, err := r.encode()
	if err != nil {
		return err
	}
	before := make([]byte, mostBytes)
	n, err := f.ReadAt(before, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := withinLimit(max(n, len(line))); err != nil {
		return &fs.PathError{Op: "write", Path: f.Name(), Err: err}
	}
	// How much was written is not known after an error: os.File.WriteAt leaves
	// out what pwrite(2) wrote before it failed (Go 1.26).
	rest := bytes.Repeat([]byte("\n"), max(n-len(line), 0))
	_, err = f.WriteAt(append(line, rest...), 0)
	if err == nil {
		err = f.Truncate(int64(len(line)))
	}
	if err != nil {
		restore(f, before[:n], len(line))
	}
	return err
}

// withinLimit fails as a write of so many bytes at the beginning of a file fails beyond
// the limit on the size of files, but for the signal that it raises, which would end
// this process where nobody catches it (setrlimit(2)).
func withinLimit(size int) error {
	var limit unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit)
	if err == nil && uint64(limit.Cur) < uint64(size) {
		return unix.EFBIG
	}
	return nil
}

// restore is best effort: should it fail as well, the record is torn, which
// everybody treats as none. What of the written bytes cannot be cut off becomes blank,
// as something behind a record would make the file somebody's own.
func restore(f *os.File, before []byte, written int) {
	text := before
	if len(before) < mostBytes && f.Truncate(int64(len(before))) != nil {
		text = append(text, make([]byte, max(written-len(before), 0))...)
	}
	_, _ = f.WriteAt(text, 0)
}

func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if notPrintable(r) {
			return '?'
		}
		return r
	}, name)
}

// cleanLabel reports whether a label can stand in a record and in a message.
func cleanLabel(label string) error {
	switch {
	case len(label) > MostLabelBytes:
		return fmt.Errorf("has %d bytes, more than %d", len(label), MostLabelBytes)
	case slices.ContainsFunc([]rune(label), notPrintable):
		return errors.New("holds characters that cannot be printed")
	}
	return nil
}
