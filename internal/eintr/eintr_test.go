package eintr_test

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"xlock/internal/eintr"
)

func TestRetry(t *testing.T) {
	wrapped := &fs.PathError{Op: "open", Path: "x", Err: syscall.EINTR}
	tests := []struct {
		name    string
		results []error // of each call; the last is to be returned
	}{
		{"success", []error{nil}},
		{"another error", []error{syscall.EIO}},
		{"interrupted", []error{syscall.EINTR, syscall.EINTR, nil}},
		{"interrupted, wrapped", []error{wrapped, nil}},
		{"interrupted, then another error", []error{syscall.EINTR, syscall.EAGAIN}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			calls := 0
			err := eintr.Retry(func() error {
				calls++
				return tt.results[calls-1]
			})
			if want := tt.results[len(tt.results)-1]; calls != len(tt.results) || !errors.Is(err, want) {
				t.Errorf("%d calls, %v; want %d, %v", calls, err, len(tt.results), want)
			}
		})
	}
}
