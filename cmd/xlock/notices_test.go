package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"xlock/internal/fdprobe"
	"xlock/internal/identity"
	"xlock/internal/lock"
)

// recorder is a screen that remembers what was shown, and when.
type recorder struct {
	terminal bool
	start    time.Time
	lines    []string
}

func (r *recorder) note(kind, text string) {
	r.lines = append(r.lines, fmt.Sprintf("%v %s%s", time.Since(r.start).Round(time.Second), kind, text))
}

func (r *recorder) add(text string) { r.note("", text) }
func (r *recorder) clear()          {}

func (r *recorder) live(text string) bool {
	if r.terminal {
		r.note("live ", text)
	}
	return r.terminal
}

// holderNamed is a holder whose label is its name.
func holderNamed(name string, generation uint64) lock.Holder {
	return lock.Holder{
		Path:       "l",
		Descriptor: -1,
		Judgement:  lock.Judgement{State: lock.Held, Reason: lock.ReasonOwner},
		Record:     &lock.Record{Generation: generation, Label: name, Owner: &identity.Process{PID: 7}},
	}
}

func reportOf(h lock.Holder, waiters ...int) *lock.Report {
	return &lock.Report{Path: "l", Judgement: h.Judgement, Content: lock.Content{Record: h.Record}, Kernel: fdprobe.Holders{Waiters: waiters}}
}

// watch lets a wait of that length be watched, in the time of a test bubble.
// What glance sees at which time is the test's.
func watch(t *testing.T, terminal bool, length time.Duration, glance func(time.Duration) (*lock.Report, error)) []string {
	t.Helper()
	var lines []string
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		r := &recorder{terminal: terminal, start: start}
		n := newNotices("l", r, nil)
		n.glance = func() (*lock.Report, error) { return glance(time.Since(start)) }
		n.waitFor(holderNamed("first", 1))
		<-time.After(length)
		n.stop()
		lines = r.lines
	})
	return lines
}

func same(h lock.Holder) func(time.Duration) (*lock.Report, error) {
	return func(time.Duration) (*lock.Report, error) { return reportOf(h), nil }
}

// times are the first words.
func times(lines []string) string {
	var words []string
	for _, line := range lines {
		word, _, _ := strings.Cut(line, " ")
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestNoticesInALog(t *testing.T) {
	first := holderNamed("first", 1)
	tests := []struct {
		length time.Duration
		want   string
	}{
		{900 * time.Millisecond, ""},
		{1500 * time.Millisecond, "1s"},
		{2 * time.Minute, "1s 10s 20s 42s 1m30s"},
		{40 * time.Minute, "1s 10s 20s 42s 1m30s 3m13s 6m41s 11m41s 16m41s 21m41s 26m41s 31m41s 36m41s"},
	}
	for _, tt := range tests {
		if got := times(watch(t, false, tt.length, same(first))); got != tt.want {
			t.Errorf("after %v: %s; want %s", tt.length, got, tt.want)
		}
	}
}

func TestNoticesOnATerminal(t *testing.T) {
	got := times(watch(t, true, 5*time.Second+time.Millisecond, same(holderNamed("first", 1))))
	if want := "1s 2s 3s 4s 5s"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

// A new holder is said, once, and at the next look.
func TestNoticesOfANewHolder(t *testing.T) {
	for _, terminal := range []bool{false, true} {
		lines := watch(t, terminal, 9*time.Second, func(at time.Duration) (*lock.Report, error) {
			if at < 4*time.Second {
				return reportOf(holderNamed("first", 1)), nil
			}
			return reportOf(holderNamed("second", 2)), nil
		})
		i := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "second") })
		if i < 1 || !strings.HasPrefix(lines[i], "4s ") || strings.Count(strings.Join(lines, "\n"), "now ") != 1 ||
			!strings.Contains(lines[i], "now l is held by") || !strings.Contains(lines[0], "first") {
			t.Errorf("terminal %v: %q", terminal, lines)
		}
	}
}

// Whoever held the lock before the first notice is nobody's concern.
func TestNoticesBeginWithTheHolderOfTheMoment(t *testing.T) {
	lines := watch(t, false, 2*time.Second, same(holderNamed("second", 2)))
	if len(lines) != 1 || !strings.Contains(lines[0], "second") || strings.Contains(lines[0], "now ") {
		t.Errorf("%q", lines)
	}
}

// In the moment between two holders the record says free. Only if that lasts is
// it somebody without a record.
func TestNoticesBetweenTwoHolders(t *testing.T) {
	nobody := holderNamed("first", 1)
	nobody.State, nobody.Reason = lock.Free, lock.ReasonReleased
	short := watch(t, false, 1500*time.Millisecond, func(at time.Duration) (*lock.Report, error) {
		if at == time.Second {
			return reportOf(nobody), nil
		}
		return reportOf(holderNamed("second", 2)), nil
	})
	if len(short) != 1 || !strings.Contains(short[0], "second") {
		t.Errorf("for a moment: %q", short)
	}
	long := watch(t, false, 1500*time.Millisecond, same(nobody))
	if len(long) != 1 || !strings.Contains(long[0], "whom its record does not name") {
		t.Errorf("for long: %q", long)
	}
}

func TestNoticesSurviveAFileThatCannotBeRead(t *testing.T) {
	lines := watch(t, false, time.Minute, func(at time.Duration) (*lock.Report, error) {
		if at < 10*time.Second {
			return nil, errors.New("not now")
		}
		return reportOf(holderNamed("first", 1)), nil
	})
	if len(lines) == 0 {
		t.Error("nothing was said")
	}
}

func TestAhead(t *testing.T) {
	tests := []struct {
		waiters []int
		want    int
		place   string
	}{
		{nil, -1, ""},
		{[]int{5, 6}, -1, ""},
		{[]int{7}, 0, ", next in line"},
		{[]int{5, 7, 6}, 1, ", 1 ahead"},
		{[]int{5, 6, 5, 7, 8}, 2, ", 2 ahead"},
	}
	for _, tt := range tests {
		if got := ahead(tt.waiters, 7); got != tt.want || place(got) != tt.place {
			t.Errorf("%v: %d%s; want %d%s", tt.waiters, got, place(got), tt.want, tt.place)
		}
	}
}

func TestCut(t *testing.T) {
	tests := []struct {
		text    string
		columns int
		want    string
	}{
		{"abc", 3, "abc"},
		{"abc", 2, "ab"},
		{"", 0, ""},
		{"abc", 0, ""},
		{"abc", -1, ""},
		{"日本語", 5, "日本"},
		{"e\u0301e\u0301", 1, "e\u0301"},
	}
	for _, tt := range tests {
		if got := cut(tt.text, tt.columns); got != tt.want {
			t.Errorf("cut(%q, %d) = %q; want %q", tt.text, tt.columns, got, tt.want)
		}
	}
}
