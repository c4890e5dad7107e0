package blocking_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"xlock/internal/blocking"
)

func newFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestCallReturnsTheError(t *testing.T) {
	want := errors.New("what the call says")
	f := newFile(t)
	err := blocking.Call(t.Context(), f, func(int) error { return want }, nil)
	if err != want {
		t.Errorf("Call = %v, want %v", err, want)
	}
	if _, err := f.Stat(); err != nil {
		t.Errorf("after a call that ended in time: %v", err)
	}
}

func TestCallOfAClosedFile(t *testing.T) {
	f := newFile(t)
	f.Close()
	err := blocking.Call(t.Context(), f, func(int) error { t.Error("it is called"); return nil }, nil)
	if err == nil {
		t.Error("Call = nil")
	}
}

// What is granted after the caller has given up is undone, before the file is closed;
// a call that fails then has nothing to undo.
func TestCallGivenUp(t *testing.T) {
	for _, late := range []error{nil, errors.New("late")} {
		f := newFile(t)
		ctx, giveUp := context.WithCancel(t.Context())
		goOn, undone := make(chan struct{}), make(chan struct{})
		call := func(int) error { giveUp(); <-goOn; return late }
		undo := func(int) error {
			if late != nil {
				t.Error("a call that failed was undone")
			}
			close(undone)
			return nil
		}
		if err := blocking.Call(ctx, f, call, undo); !errors.Is(err, context.Canceled) {
			t.Errorf("Call = %v, want %v", err, context.Canceled)
		}
		close(goOn)
		if late == nil {
			<-undone
		}
		untilClosed(t, f)
	}
}

func untilClosed(t *testing.T, f *os.File) {
	t.Helper()
	for {
		if _, err := f.Stat(); errors.Is(err, os.ErrClosed) {
			return
		}
		runtime.Gosched()
	}
}
