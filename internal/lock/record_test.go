package lock

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"xlock/internal/identity"
)

// fullRecord has every field, and its own text in a lock file.
func fullRecord() Record {
	exit, uid := 3, 1000
	acquired := time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC)
	released := acquired.Add(time.Minute)
	return Record{
		Version: formatVersion, State: StateFree, Generation: 7,
		Owner: &identity.Process{
			Machine: "m", Boot: "b", PIDNamespace: "1", TimeNamespace: "2", PID: 3, Start: "4", PidfdID: "5",
		},
		Command:  &Command{PID: 6, Start: "7", PidfdID: "8", Name: "make"},
		Mode:     Fork,
		Inherits: true, Inode: 9, Host: "h", User: "u", UID: &uid, Label: "<nightly> & \"more\"",
		Acquired: &acquired, Released: &released, Outcome: &Outcome{Exit: &exit},
	}
}

// heldRecord has what a held record must have, and nothing else.
func heldRecord() Record {
	return Record{Version: formatVersion, State: StateHeld, Generation: 1, Owner: &identity.Process{PID: 1}}
}

func textOf(t testing.TB, r Record) string {
	t.Helper()
	line, err := r.encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}

func TestParse(t *testing.T) {
	full := textOf(t, fullRecord())
	nuls := func(n int) string { return strings.Repeat("\x00", n) }
	padded := func(n int) string { return `{"xlock":1,"state":"free","label":"` + strings.Repeat("x", n) }
	const freeLine = `{"xlock":1,"state":"free"}`
	tests := []struct {
		name, text string
		kind       Kind
		why        string
	}{
		{"empty", "", Empty, ""},
		{"record", full, Valid, ""},
		{"held", textOf(t, heldRecord()), Valid, ""},
		{"blanks behind it", full + "\n\n \r\n", Valid, ""},
		{"the rest of a longer record behind it", full + `tail":1}` + "\n", Valid, ""},
		{"NULs behind it", full + nuls(20), Valid, ""},
		{"CRLF", freeLine + "\r\n", Valid, ""},
		{"byte order mark", "\xef\xbb\xbf" + freeLine + "\n", Valid, ""},
		{"blank behind the colon", `{"xlock": 1, "state": "free"}` + "\n", Valid, ""},
		{"field of a later minor version", `{"xlock":1,"state":"free","new":{"a":[1]}}` + "\n", Valid, ""},

		{"one NUL", nuls(1), Unreadable, "nul-filled"},
		{"a page of NULs", nuls(mostBytes), Unreadable, "nul-filled"},
		{"first byte of a record", full[:1], Unreadable, "torn"},
		{"cut off within the magic", `{"xlock"`, Unreadable, "torn"},
		{"cut off behind the magic", `{"xlock":`, Unreadable, "torn"},
		{"half a record", full[:len(full)/2], Unreadable, "torn"},
		{"no newline", strings.TrimSuffix(full, "\n"), Unreadable, "torn"},
		{"half a record, then NULs", full[:40] + nuls(100), Unreadable, "torn"},
		{"byte order mark alone", "\xef\xbb\xbf", Unreadable, "torn"},
		{"longer than a record can be", padded(mostBytes), Unreadable, "too-long"},
		{"later version", `{"xlock":2,"whatever":true}` + "\n", Unreadable, "future-version"},
		{"later version of another shape", `{"xlock":2,"state":["held"],"owner":7}` + "\n", Unreadable, "future-version"},
		{"version 0", `{"xlock":0,"state":"free"}` + "\n", Unreadable, "malformed"},
		{"version is text", `{"xlock":"1","state":"free"}` + "\n", Unreadable, "malformed"},
		{"no JSON", `{"xlock":1,"state":free}` + "\n", Unreadable, "malformed"},
		{"two values", freeLine + freeLine + "\n", Unreadable, "malformed"},
		{"no state", `{"xlock":1}` + "\n", Unreadable, "malformed"},
		{"unknown state", `{"xlock":1,"state":"shared"}` + "\n", Unreadable, "malformed"},
		{"held without an owner", `{"xlock":1,"state":"held"}` + "\n", Unreadable, "malformed"},
		{"negative generation", `{"xlock":1,"state":"free","generation":-1}` + "\n", Unreadable, "malformed"},
		{"generation beyond 64 bits", `{"xlock":1,"state":"free","generation":99999999999999999999}` + "\n", Unreadable, "malformed"},
		{"year beyond RFC 3339", `{"xlock":1,"state":"free","acquired":"99999-01-01T00:00:00Z"}` + "\n", Unreadable, "malformed"},

		{"text", "do not touch\n", Foreign, ""},
		{"script", "#!/bin/sh\nrm -rf /\n", Foreign, ""},
		{"process number", "12345\n", Foreign, ""},
		{"newline", "\n", Foreign, ""},
		{"blank before the record", " " + full, Foreign, ""},
		{"other JSON", `{"lock":1}` + "\n", Foreign, ""},
		{"nearly the magic", `{"xlocks":1}` + "\n", Foreign, ""},
		{"longer than a page of NULs", nuls(mostBytes + 1), Foreign, ""},
		{"NULs, then a record", nuls(100) + full, Foreign, ""},
		{"no UTF-8", "\xff\xfe{\x00", Foreign, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := tt.text[:min(len(tt.text), mostBytes+1)]
			c := parse([]byte(text))
			if c.Kind != tt.kind || c.Why != tt.why || (c.Record != nil) != (tt.kind == Valid) {
				t.Errorf("parse = %v %q (record %v), want %v %q", c.Kind, c.Why, c.Record, tt.kind, tt.why)
			}
		})
	}
}

func TestRecordRoundTrip(t *testing.T) {
	for _, want := range []Record{fullRecord(), heldRecord()} {
		c := parse([]byte(textOf(t, want)))
		if c.Kind != Valid || !reflect.DeepEqual(*c.Record, want) {
			t.Errorf("parse = %+v, want %+v", c.Record, want)
		}
	}
}

// Missing knowledge is a missing field.
func TestEncodeLeavesOutWhatIsUnknown(t *testing.T) {
	const want = `{"xlock":1,"state":"held","generation":1,"owner":{"pid":1},"inherits":false}` + "\n"
	if got := textOf(t, heldRecord()); got != want {
		t.Errorf("encode = %s, want %s", got, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(textOf(f, fullRecord())))
	f.Add([]byte(textOf(f, heldRecord())))
	f.Add([]byte(`{"xlock":2}` + "\n"))
	f.Add([]byte(`{"xl`))
	f.Add([]byte("#!/bin/sh\n"))
	f.Add(make([]byte, 100))
	f.Add([]byte(`{"xlock":1,"state":"free","label":"` + "\xff\u2028" + `","acquired":"2026-01-02T03:04:05+23:59"}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) > mostBytes+1 {
			text = text[:mostBytes+1]
		}
		c := parse(text)
		switch ours := looksOurs(text); {
		case (c.Record != nil) != (c.Kind == Valid) || (c.Why != "") != (c.Kind == Unreadable):
			t.Errorf("%+v", c)
		case (c.Kind == Foreign) == ours:
			t.Errorf("%v, but ours: %v", c.Kind, ours)
		case c.Kind == Valid:
			checkReencoding(t, *c.Record)
		}
	})
}

// looksOurs: nothing, a page of NULs at most, or what begins as a record does.
func looksOurs(text []byte) bool {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	shared := min(len(text), len(magic))
	return bytes.Equal(text[:shared], magic[:shared]) ||
		len(text) <= mostBytes && len(bytes.TrimLeft(text, "\x00")) == 0
}

func checkReencoding(t *testing.T, r Record) {
	line, err := r.encode()
	if err != nil {
		if !strings.Contains(err.Error(), "the record would take") {
			t.Errorf("a record that was read cannot be written: %v", err)
		}
		return
	}
	again := parse(line)
	if again.Kind != Valid {
		t.Fatalf("%v %s from %s", again.Kind, again.Why, line)
	}
	if second := textOf(t, *again.Record); second != string(line) {
		t.Errorf("%s\nbecame\n%s", line, second)
	}
}

// recordFile is an open file that holds a text.
func recordFile(t *testing.T, text string, flag int) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func wantText(t *testing.T, f *os.File, want string) {
	t.Helper()
	got, err := os.ReadFile(f.Name())
	if err != nil || string(got) != want {
		t.Errorf("the file holds %.200q, %v; want %.200q", got, err, want)
	}
}

func TestWriteToReplacesWhatWasThere(t *testing.T) {
	long, short := fullRecord(), heldRecord()
	long.Label = strings.Repeat("x", MostLabelBytes)
	for _, before := range []string{
		"", textOf(t, long), textOf(t, short), textOf(t, short)[:20],
		strings.Repeat("\x00", 3000), "{\"xlock\":1," + strings.Repeat("y", 3*mostBytes),
	} {
		f := recordFile(t, before, os.O_RDWR)
		for _, r := range []Record{long, short, long} {
			if err := r.writeTo(f); err != nil {
				t.Fatal(err)
			}
			wantText(t, f, textOf(t, r))
		}
	}
}

func TestWriteToFailsWithoutATrace(t *testing.T) {
	tooLong := heldRecord()
	tooLong.Host = strings.Repeat("x", mostBytes)
	tests := []struct {
		name   string
		record Record
		flag   int
		want   error // nil: any
	}{
		{"too long", tooLong, os.O_RDWR, nil},
		{"read-only", fullRecord(), os.O_RDONLY, nil},
		{"closed", fullRecord(), -1, fs.ErrClosed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := textOf(t, heldRecord())
			f := recordFile(t, before, max(tt.flag, 0))
			if tt.flag < 0 {
				f.Close()
			}
			if err := tt.record.writeTo(f); err == nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("writeTo = %v, want an error (%v)", err, tt.want)
			}
			wantText(t, f, before)
		})
	}
}

// Whatever a user may ask for must fit: the longest label of the characters
// that JSON doubles, and the longest file name of bytes that it makes six of.
func TestTheLongestRecordFits(t *testing.T) {
	const mostName, mostHost = 255, 64 // NAME_MAX, HOST_NAME_MAX (limits.h(0p))
	r := fullRecord()
	r.State, r.Released, r.Outcome = StateHeld, nil, nil
	r.Generation = 1<<64 - 1
	self := identity.Self()
	r.Owner = &self
	r.Command = &Command{PID: self.PID, Start: self.Start, PidfdID: self.PidfdID, Name: strings.Repeat("\x01", mostName)}
	r.Host = strings.Repeat("h", mostHost)
	r.Label = strings.Repeat(`"`, MostLabelBytes)
	if err := CheckLabel(r.Label); err != nil {
		t.Fatal(err)
	}
	if _, err := r.encode(); err != nil {
		t.Error(err)
	}
}

// A record that fills the file can come from anybody: the next one fits all the same.
func TestWhatOthersWroteGivesWay(t *testing.T) {
	long := strings.Repeat("\xff", mostBytes-400) // three times as long when it is written again
	word := &Break{Generation: 7, PID: 1}
	tests := []struct {
		name   string
		change func(r *Record)
		broken *Break
	}{
		{"a holder's break", func(r *Record) { r.State, r.Broken = StateHeld, &Break{User: long} }, nil},
		{"a release's label", func(r *Record) { r.Label, r.Broken = long, word }, word},
		{"a release's owner", func(r *Record) { r.Owner.Boot, r.Broken = long, word }, word},
		{"a release's break", func(r *Record) { r.Broken = &Break{Host: long} }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := fullRecord()
			tt.change(&r)
			content := parse([]byte(textOf(t, r)))
			if content.Kind != Valid || content.Record.State != r.State || content.Record.Generation != r.Generation {
				t.Fatalf("%+v, want generation %d, %s", content, r.Generation, r.State)
			}
			if got := content.Record.Broken; !reflect.DeepEqual(got, tt.broken) {
				t.Errorf("broken is %+v, want %+v", got, tt.broken)
			}
		})
	}
}

func TestCheckLabel(t *testing.T) {
	tests := []struct {
		name, label string
		ok          bool
	}{
		{"none", "", true},
		{"words", "nightly build of 7 £ 漢", true},
		{"the longest", strings.Repeat("x", MostLabelBytes), true},
		{"too long", strings.Repeat("x", MostLabelBytes+1), false},
		{"newline", "a\nb", false},
		{"escape", "\x1b[2J", false},
		{"C1 control", "\u009b2J", false},
		{"right-to-left override", "a\u202eb", false},
		{"no UTF-8", "a\xffb", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := CheckLabel(tt.label); (err == nil) != tt.ok {
				t.Errorf("CheckLabel = %v", err)
			}
		})
	}
}
