package lock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"xlock/internal/fdprobe"
	"xlock/internal/flock"
	"xlock/internal/identity"
)

// How often a busy kernel lock is tried depends on what the record says: the
// somebody who holds it here is gone when the taker looks for the third time.
func TestTakerTriesAgain(t *testing.T) {
	const third = 3
	tests := []struct {
		name   string
		owner  int
		live   identity.Liveness
		answer fdprobe.Answer
		opts   Options
		looks  int // 3: it got the lock
	}{
		{"an earlier image of this process", pidSelf, identity.Alive, fdprobe.Closed, Options{NoWait: true}, third},
		{"an earlier image, with time to wait", pidSelf, identity.Alive, fdprobe.Closed, Options{}, third},
		{"no living owner", pidOwner, identity.Gone, fdprobe.Unknown, Options{NoWait: true}, third},
		{"a living owner", pidOwner, identity.Alive, fdprobe.Unknown, Options{NoWait: true}, 1},
		{"an unknown owner", pidOwner, identity.Unknown, fdprobe.Unknown, Options{NoWait: true}, 1},
		{"this very process", pidSelf, identity.Alive, fdprobe.Open, Options{NoWait: true}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lock")
			busy := busyFile(t, path, tt.owner)
			looks := 0
			s := staged(t, tt.live, identity.Gone)
			s.probe = func() (fdprobe.Answer, error) { return tt.answer, nil }
			judge := s.judge
			s.judge = func(p identity.Process, local bool) identity.Finding {
				if looks++; looks == third {
					busy.Close()
				}
				return judge(p, local)
			}
			taker := &taker{path: path, opts: tt.opts, scene: func(*os.File) (scene, error) { return s, nil }}
			l, err := taker.take(t.Context())
			if got := err == nil; got != (tt.looks == third) || !got && looks != tt.looks {
				t.Errorf("%v after %d looks, want %d", err, looks, tt.looks)
			}
			if err != nil && !errors.As(err, new(*HeldError)) && !errors.As(err, new(*DeadlockError)) {
				t.Error(err)
			}
			if l != nil {
				l.file.Close()
			}
		})
	}
}

// busyFile has the kernel lock on a file with a record of the owner. It is
// marked, as a taker's is.
func busyFile(t *testing.T, path string, owner int) *os.File {
	t.Helper()
	r := stagedRecord(Fork, false)
	r.Owner.PID = owner
	if err := os.WriteFile(path, []byte(textOf(t, r)), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := openToLock(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := flock.TryLock(t.Context(), f, flock.Exclusive); err != nil {
		t.Fatal(err)
	}
	return f
}
