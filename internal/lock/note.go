package lock

import (
	"os"

	"golang.org/x/sys/unix"

	"xlock/internal/blocking"
)

// A note is a record beside the file's content, in an extended attribute (xattr(7)).
// A hold of mode [Descriptor] leaves it on an empty file whose descriptor its owner
// can write to: a shell that locks 9>PIDFILE writes its number there next, and would
// write it into the record. Such a hold is judged by the kernel alone, so that a note
// that was not written, or has stayed, misleads nobody for long. Not all file systems
// have notes.
const noteName = "user.xlock"

// readNote adds a note to the content of an empty file.
func readNote(f *os.File, c Content) Content {
	text := make([]byte, mostBytes)
	n := 0
	err := blocking.Now(f, func(fd int) (err error) {
		n, err = unix.Fgetxattr(fd, noteName, text)
		return err
	})
	if err != nil {
		return c
	}
	return c.withNote(text[:n])
}

// withNote is what stands in an empty file that has the text for a note. One with
// something behind it nobody has written who writes notes.
func (c Content) withNote(text []byte) Content {
	if note := parse(text); saysHeld(note) && note.Record.Mode == Descriptor && !note.Appended {
		note.Noted = true
		return note
	}
	return c
}

func (r *Record) writeNote(f *os.File) error {
	line, err := r.encode()
	if err != nil {
		return err
	}
	return blocking.Now(f, func(fd int) error { return unix.Fsetxattr(fd, noteName, line, 0) })
}

// removeNote is best effort: the next record is more than a note.
func removeNote(f *os.File) {
	_ = blocking.Now(f, func(fd int) error { return unix.Fremovexattr(fd, noteName) })
}
