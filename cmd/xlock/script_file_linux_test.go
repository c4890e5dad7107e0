package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// snapshots are the files of one script as 'snapshot' saw them.
type snapshots map[string]string

func cmdSnapshot(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: snapshot FILE...")
	}
	for _, name := range args {
		snapshotsOf(ts)[name] = snapshot(ts, name)
	}
}

func cmdUnchanged(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: unchanged FILE...")
	}
	for _, name := range args {
		before, ok := snapshotsOf(ts)[name]
		if !ok {
			ts.Fatalf("no snapshot was taken of %s", name)
		}
		if now := snapshot(ts, name); now != before {
			ts.Fatalf("%s has changed:\nbefore: %s\nnow:    %s", name, before, now)
		}
	}
}

func snapshotsOf(ts *testscript.TestScript) snapshots {
	return ts.Value(snapshotsKey{}).(snapshots)
}

// snapshotsKey is where a script keeps its snapshots.
type snapshotsKey struct{}

// snapshot tells everything about a file that reading it does not change. The
// bytes of a FIFO, a device or a directory are not read.
func snapshot(ts *testscript.TestScript, name string) string {
	path := ts.MkAbs(name)
	info, err := os.Lstat(path)
	if os.IsNotExist(err) {
		return "no such file"
	}
	ts.Check(err)
	st := info.Sys().(*syscall.Stat_t)
	text := fmt.Sprintf("inode %d, %v, uid %d, %d bytes, modified %d",
		st.Ino, info.Mode(), st.Uid, st.Size, info.ModTime().UnixNano())
	if info.Mode().IsRegular() {
		bytes, err := os.ReadFile(path)
		ts.Check(err)
		text += fmt.Sprintf(": %q", bytes)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, err := os.Readlink(path)
		ts.Check(err)
		text += " -> " + target
	}
	return text
}

func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: json FILE [FIELD=VALUE...]")
	}
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		object := decode(ts, line)
		if _, inspected := object["holders"]; inspected {
			validate(ts, line)
		}
		compare(ts, object, args[1:])
	}
}

// compare fails unless the object has the values of assignments.
func compare(ts *testscript.TestScript, object map[string]any, assignments []string) {
	for _, arg := range assignments {
		field, want := assignment(ts, arg)
		if got := textOf(lookup(object, field)); got != want {
			ts.Fatalf("%s is %q, want %q, in %v", field, got, want, object)
		}
	}
}

func cmdEvents(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: events FILE EVENT...")
	}
	var names []string
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		names = append(names, textOf(decode(ts, line)["event"]))
	}
	if !slices.Equal(names, args[1:]) {
		ts.Fatalf("events are %v, want %v", names, args[1:])
	}
}

func cmdField(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: field FILE N FIELD=VALUE...")
	}
	lines := slices.Collect(strings.Lines(ts.ReadFile(args[0])))
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	if n >= len(lines) {
		ts.Fatalf("%s has %d lines", args[0], len(lines))
	}
	compare(ts, decode(ts, lines[n]), args[2:])
}

// cmdForge keeps the file's inode, which the record names.
func cmdForge(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: forge FILE FIELD=VALUE...")
	}
	record := decode(ts, ts.ReadFile(args[0]))
	for _, arg := range args[1:] {
		field, value := assignment(ts, arg)
		assign(ts, record, field, value)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), encode(ts, record), 0o666))
}

// encode writes the field that every record begins with first.
func encode(ts *testscript.TestScript, record map[string]any) []byte {
	const first = "xlock"
	rest := maps.Clone(record)
	delete(rest, first)
	text, err := json.Marshal(rest)
	ts.Check(err)
	return fmt.Appendf(nil, "{%q:%v,%s\n", first, record[first], bytes.TrimPrefix(text, []byte("{")))
}

func decode(ts *testscript.TestScript, line string) map[string]any {
	value, err := parseJSON(line)
	ts.Check(err)
	object, ok := value.(map[string]any)
	if !ok {
		ts.Fatalf("no object: %s", line)
	}
	return object
}

// parseJSON takes exactly one value, and keeps numbers as they are written.
func parseJSON(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("more than one value in %q", text)
	}
	return value, nil
}

// assignment splits FIELD=VALUE.
func assignment(ts *testscript.TestScript, arg string) (field, value string) {
	field, value, ok := strings.Cut(arg, "=")
	if !ok {
		ts.Fatalf("no FIELD=VALUE: %s", arg)
	}
	if file, ok := strings.CutPrefix(value, "@"); ok {
		value = strings.TrimSpace(ts.ReadFile(file))
	}
	return field, value
}

// lookup gives nil for a field that is not there.
func lookup(value any, field string) any {
	for name := range strings.SplitSeq(field, ".") {
		switch v := value.(type) {
		case map[string]any:
			value = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

func textOf(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// assign keeps a string a string; what is written as JSON is taken as such.
func assign(ts *testscript.TestScript, record map[string]any, field, value string) {
	names := strings.Split(field, ".")
	last := names[len(names)-1]
	object := record
	if within := names[:len(names)-1]; len(within) > 0 {
		var ok bool
		if object, ok = lookup(record, strings.Join(within, ".")).(map[string]any); !ok {
			ts.Fatalf("the record has no object for %s", field)
		}
	}
	_, isString := object[last].(string)
	parsed, err := parseJSON(value)
	switch {
	case value == "":
		delete(object, last)
	case err == nil && (!isString || strings.HasPrefix(value, `"`)):
		object[last] = parsed
	default:
		object[last] = value
	}
}
