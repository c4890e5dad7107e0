package lock_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"xlock/internal/fdprobe"
	"xlock/internal/flock"
	"xlock/internal/lock"
)

// roleReclaim reclaims the lock at its first argument until its input ends, and
// complains of any answer but "freed", "free" and "held".
func roleReclaim() int {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, os.Stdin)
	}()
	fmt.Println("running")
	for {
		select {
		case <-ended:
			return 0
		default:
		}
		var held *lock.HeldError
		if _, err := lock.Reclaim(os.Args[1], lock.ReclaimOptions{}); err != nil && !errors.As(err, &held) {
			fmt.Println(err)
			return 1
		}
	}
}

func TestReclaim(t *testing.T) {
	tests := []struct {
		name    string
		prepare func(t *testing.T, path string)
		want    lock.State
		refused string
	}{
		{"free", func(t *testing.T, path string) { check(t, acquire(t, path).Release(nil)) }, lock.Free, "well"},
		{"empty", func(t *testing.T, path string) { check(t, os.WriteFile(path, nil, 0o600)) }, lock.Free, "well"},
		{"abandoned", func(t *testing.T, path string) { forge(t, path, ownedBy(ended(t))) }, lock.Abandoned, "well"},
		{"left by an earlier image", func(t *testing.T, path string) {
			forge(t, path, func(*lock.Record) {})
		}, lock.Abandoned, "well"},
		{"left by a container that died", func(t *testing.T, path string) {
			forge(t, path, func(r *lock.Record) { r.Owner.PIDNamespace = "1" })
		}, lock.Abandoned, "well"},
		{"a command without the descriptor may live in a container", func(t *testing.T, path string) {
			forge(t, path, func(r *lock.Record) { r.Owner.PIDNamespace, r.Inherits = "1", false })
		}, "", "busy: owner"},
		{"held by another process", func(t *testing.T, path string) {
			p, _ := process(t)
			forge(t, path, ownedBy(p))
		}, "", "busy: owner"},
		{"held by a command", func(t *testing.T, path string) { runningCommand(t, path) }, "", "busy: command-running"},
		{"held by this process", func(t *testing.T, path string) { acquire(t, path) }, "", "deadlock: owner"},
		{"held by the kernel lock alone", func(t *testing.T, path string) {
			f, err := os.Create(path)
			check(t, err)
			t.Cleanup(func() { f.Close() })
			check(t, flock.TryLock(t.Context(), f, flock.Exclusive))
		}, "", "busy: kernel-lock"},
		{"somebody's file", func(t *testing.T, path string) {
			check(t, os.WriteFile(path, []byte("notes\n"), 0o600))
		}, "", "no lock file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := lockPath(t)
			tt.prepare(t, path)
			before := contentOf(t, path)
			report, err := lock.Reclaim(path, lock.ReclaimOptions{})
			wantOutcome(t, err, tt.refused)
			if err == nil && report.State != tt.want {
				t.Errorf("it was %s, want %s", report.State, tt.want)
			}
			after := contentOf(t, path)
			if tt.want != lock.Abandoned && after != before {
				t.Errorf("the file held %q and holds %q", before, after)
			}
			if tt.want == lock.Abandoned {
				checkReclaimed(t, before, after)
			}
		})
	}
}

// checkReclaimed: the record keeps telling who held the lock.
func checkReclaimed(t *testing.T, before, after string) {
	t.Helper()
	var was, is lock.Record
	check(t, json.Unmarshal([]byte(before), &was))
	check(t, json.Unmarshal([]byte(after), &is))
	if is.State != lock.StateFree || is.Released == nil || is.Generation != was.Generation || *is.Owner != *was.Owner {
		t.Errorf("%s\nbecame\n%s", before, after)
	}
}

func TestReclaimCreatesNothing(t *testing.T) {
	path := lockPath(t)
	report, err := lock.Reclaim(path, lock.ReclaimOptions{})
	check(t, err)
	if report.State != lock.Free || report.Reason != lock.ReasonNoFile {
		t.Errorf("%+v, want free, no file", report.Judgement)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Lstat = %v, want no file", err)
	}
}

// Reclaimers race with takers for an abandoned lock, over and over. Nobody is
// ever inside with somebody else, and no reclaimer frees a lock that has been
// taken since it looked.
func TestReclaimersAndTakers(t *testing.T) {
	const rounds = 100
	path := lockPath(t)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|fdprobe.NotAHold, 0o600)
	check(t, err)
	defer f.Close()
	var peers []*peer
	for _, role := range []string{"reclaim", "reclaim", "take-turns"} {
		p := startPeer(t, role, nil, path)
		p.want("running")
		peers = append(peers, p)
	}
	dead := ended(t)
	for range rounds {
		check(t, flock.Lock(t.Context(), f, flock.Exclusive))
		forge(t, path, ownedBy(dead))
		check(t, flock.Unlock(f))
		l, err := lock.Acquire(t.Context(), path, lock.Options{})
		check(t, err)
		check(t, visit(path+".inside"))
		check(t, l.Release(nil))
	}
	for _, p := range peers {
		if said := p.end(); said != "" {
			t.Error(said)
		}
	}
}
