package main

import (
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	good := map[string]time.Duration{
		"0":      0,
		"0s":     0,
		"1":      time.Second,
		"1.5":    1500 * time.Millisecond,
		".25":    250 * time.Millisecond,
		"1e3":    1000 * time.Second,
		"90s":    90 * time.Second,
		"1m30s":  90 * time.Second,
		"500ms":  500 * time.Millisecond,
		"2h":     2 * time.Hour,
		"1e-12":  0, // no wait, rather than one for ever
		"9.2e9":  9_200_000_000 * time.Second,
		"100000": 100_000 * time.Second,
	}
	for text, want := range good {
		t.Run(text, func(t *testing.T) {
			if got, err := parseDuration(text); got != want || err != nil {
				t.Errorf("parseDuration(%q) = %v, %v; want %v", text, got, err, want)
			}
		})
	}
	bad := []string{
		"", " ", "-1", "-1s", "-0.001", "nan", "NaN", "inf", "+Inf", "-inf", "1e99", "1e400", "9.3e9",
		"5x", "s", "1 s", "1,5", "1m30", "99999999h",
	}
	for _, text := range bad {
		t.Run("bad "+text, func(t *testing.T) {
			if got, err := parseDuration(text); err == nil {
				t.Errorf("parseDuration(%q) = %v; want an error", text, got)
			}
		})
	}
}

func TestExitCode(t *testing.T) {
	for text, want := range map[string]exitCode{"0": 0, "1": 1, "75": 75, "255": 255} {
		var got exitCode
		if err := got.Set(text); got != want || err != nil {
			t.Errorf("Set(%q): %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-1", "256", "600", "x", "1.5", "0x10", " 1"} {
		got := exitCode(statusBusy)
		if err := got.Set(text); got != statusBusy || err == nil {
			t.Errorf("Set(%q): %d, %v; want an error, and the status as it was", text, got, err)
		}
	}
}
