package lock_test

import (
	"errors"
	"os"
	"slices"
	"testing"

	"xlock/internal/fdprobe"
	"xlock/internal/flock"
	"xlock/internal/lock"
	"xlock/internal/testenv"
)

// locked is the kernel lock without a record, as flock(1) takes it.
func locked(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	check(t, err)
	t.Cleanup(func() { f.Close() })
	check(t, flock.TryLock(t.Context(), f, flock.Exclusive))
}

func inspect(t *testing.T, path string) *lock.Report {
	t.Helper()
	report, err := lock.Inspect(path)
	check(t, err)
	return report
}

// The kernel lock says held, whatever the record says (R6); and a record that
// names somebody else than the kernel does is told.
func TestInspectOfAKernelLock(t *testing.T) {
	testenv.Need(t, "flock") // stands for Linux, whose /proc shows the holders
	other, _ := process(t)
	tests := []struct {
		name    string
		prepare func(t *testing.T, path string)
		reason  lock.Reason
		warning bool
	}{
		{"no record", func(*testing.T, string) {}, lock.ReasonKernelLock, false},
		{"released", func(t *testing.T, path string) { check(t, acquire(t, path).Release(nil)) }, lock.ReasonKernelLock, false},
		{"abandoned", func(t *testing.T, path string) { forge(t, path, ownedBy(ended(t))) }, lock.ReasonKernelLock, false},
		{"unknown", func(t *testing.T, path string) {
			forge(t, path, func(r *lock.Record) { r.Owner.PIDNamespace = "1" })
		}, lock.ReasonOwner, false},
		{"held by the same", func(t *testing.T, path string) { forge(t, path, func(*lock.Record) {}) }, lock.ReasonOwner, false},
		{"held by another", func(t *testing.T, path string) {
			forge(t, path, ownedBy(other))
		}, lock.ReasonOwner, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := lockPath(t)
			tt.prepare(t, path)
			locked(t, path)
			report := inspect(t, path)
			if report.State != lock.Held || report.Reason != tt.reason {
				t.Errorf("%s, %s; want held, %s", report.State, report.Reason, tt.reason)
			}
			me := fdprobe.Holder{PID: os.Getpid(), Source: fdprobe.FDInfo}
			if !slices.Contains(report.Kernel.Holders, me) {
				t.Errorf("holders %v without %v", report.Kernel.Holders, me)
			}
			got := slices.ContainsFunc(report.Warnings, func(w lock.Warning) bool { return w.Code == lock.WarnOtherHolder })
			if got != tt.warning {
				t.Errorf("warnings %v, want one of another holder: %v", report.Warnings, tt.warning)
			}
		})
	}
}

// Inspect never takes the lock, not for a moment: nobody is refused or delayed.
func TestInspectIsInNobodysWay(t *testing.T) {
	path := lockPath(t)
	check(t, acquire(t, path).Release(nil))
	before := contentOf(t, path)
	f, err := os.OpenFile(path, os.O_RDWR|fdprobe.NotAHold, 0)
	check(t, err)
	defer f.Close()
	stopped := make(chan error)
	go func() {
		var err error
		for err == nil {
			select {
			case stopped <- nil:
				return
			default:
			}
			err = errors.Join(flock.TryLock(t.Context(), f, flock.Exclusive), flock.Unlock(f))
		}
		stopped <- err
	}()
	for range 20 {
		inspect(t, path)
	}
	if err := <-stopped; err != nil {
		t.Errorf("while somebody inspected: %v", err)
	}
	if after := contentOf(t, path); after != before {
		t.Errorf("the file held %q and holds %q", before, after)
	}
}

// While the lock passes back and forth it is held or free, and never seems
// abandoned: the record is read before and after the kernel is asked.
func TestInspectWhileTheLockChangesHands(t *testing.T) {
	path := lockPath(t)
	var peers []*peer
	for range 2 {
		p := startPeer(t, "take-turns", nil, path)
		p.want("running")
		peers = append(peers, p)
	}
	for range 10 {
		if report := inspect(t, path); report.State != lock.Held && report.State != lock.Free {
			t.Fatalf("%+v", report.Judgement)
		}
	}
	for _, p := range peers {
		if said := p.end(); said != "" {
			t.Error(said)
		}
	}
}
