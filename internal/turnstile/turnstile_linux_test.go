package turnstile_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"xlock/internal/turnstile"
)

// open opens the file; each call gives an open file description of its own.
func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	check(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantClosed(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, turnstile.ErrClosed) {
		t.Errorf("got %v, want closed", err)
	}
}

func TestOneKeepsItAndNobodyPasses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	reader, keeper := open(t, path), open(t, path)
	check(t, turnstile.TryPass(reader))
	check(t, turnstile.TryKeep(keeper))
	wantClosed(t, turnstile.TryPass(reader))
	wantClosed(t, turnstile.TryKeep(open(t, path)))
	ended, end := context.WithCancel(t.Context())
	end()
	if err := turnstile.Pass(ended, open(t, path)); !errors.Is(err, context.Canceled) {
		t.Errorf("Pass = %v, want %v", err, context.Canceled)
	}
	check(t, keeper.Close())
	check(t, turnstile.Pass(t.Context(), reader))
	check(t, turnstile.TryKeep(open(t, path))) // who has passed keeps nothing
}

func TestItIsHandedOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, second := open(t, path), open(t, path)
	check(t, turnstile.TryKeep(first))
	kept := make(chan error)
	go func() { kept <- turnstile.Keep(t.Context(), second) }()
	check(t, first.Close())
	check(t, <-kept)
	wantClosed(t, turnstile.TryPass(open(t, path)))
}

// A lock of somebody else's on the whole file is not the turnstile.
func TestOthersAreNotInTheWay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	other := open(t, path)
	check(t, unix.FcntlFlock(other.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}))
	check(t, turnstile.TryPass(open(t, path)))
	check(t, turnstile.Pass(t.Context(), open(t, path)))
}
