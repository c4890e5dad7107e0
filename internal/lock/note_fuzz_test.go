package lock

import (
	"reflect"
	"testing"
)

// FuzzNote: a note counts only if it is of a hold that keeps notes, and never makes
// the file somebody's own.
func FuzzNote(f *testing.F) {
	held := heldRecord()
	held.Mode = Descriptor
	f.Add([]byte(textOf(f, held)), "make", uint64(1))
	f.Add([]byte(textOf(f, held)+"x"), "", uint64(0))
	f.Add([]byte(textOf(f, heldRecord())), "a\nb", uint64(7))
	f.Add([]byte("{\"xlock\":"), "\xff", uint64(1<<64-1))
	f.Fuzz(func(t *testing.T, text []byte, name string, generation uint64) {
		empty := Content{Kind: Empty}
		text = text[:min(len(text), mostBytes)]
		got := empty.withNote(text)
		if got != empty && (got.Kind != Valid || !got.Noted || got.Appended || got.Record.Mode != Descriptor || got.Record.State != StateHeld) {
			t.Errorf("%q makes it %+v", text, got)
		}
		r := heldRecord()
		r.Mode, r.Generation, r.Command = Descriptor, generation, &Command{Name: printable(name)}
		line, err := r.encode()
		if err != nil {
			return // too long
		}
		if got := empty.withNote(line); !got.Noted || !reflect.DeepEqual(*got.Record, r) {
			t.Errorf("%s is read as %+v", line, got.Record)
		}
	})
}
