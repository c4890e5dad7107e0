package main

import (
	"path/filepath"
	"strings"
	"testing"

	"xlock/internal/lock"
)

// A notice is printed some time after the wait began, when the lock may have
// changed hands.
func TestHolderNow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	before := lock.Holder{Path: path, Record: &lock.Record{Label: "first"}}
	l, err := lock.Acquire(t.Context(), path, lock.Options{Mode: lock.Descriptor, Label: "second"})
	if err != nil {
		t.Fatal(err)
	}
	now, ok := holderNow(before)
	if text := waiting(now); !ok || !strings.Contains(text, "second") || strings.Contains(text, "first") {
		t.Errorf("%v, %s", ok, text)
	}
	if err := l.Release(nil); err != nil {
		t.Fatal(err)
	}
	if now, ok := holderNow(before); ok {
		t.Errorf("nobody holds it: %s", waiting(now))
	}
}
