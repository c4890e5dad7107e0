package main

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

func TestParseCSize(t *testing.T) {
	good := map[string]uint64{
		"0": 0, "1": 1, "+1": 1, " 1": 1, "010": 8, "0x10": 16, "0X1F": 31, "0x1E": 30,
		"1K": 1024, "1k": 1024, "1KiB": 1024, "1Kib": 1024, "1KB": 1000, "1kb": 1000,
		"2M": 2 << 20, "2MB": 2e6, "1G": 1 << 30, "1T": 1 << 40, "1P": 1 << 50, "15E": 15 << 60, "18EB": 18e18,
		"0Y": 0, "18446744073709551615": 1<<64 - 1,
	}
	for text, want := range good {
		if got, err := parseCSize(text); got != want || err != nil {
			t.Errorf("parseCSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", " ", "-1", " -1", "K", "B", "1B", "1Ki", "1KiBx", "1x", "1.5", "1.5K", "0x", "08", "1_0", "0b1", "0o7", "1 "} {
		if got, err := parseCSize(text); !errors.Is(err, unix.EINVAL) {
			t.Errorf("parseCSize(%q) = %d, %v; want EINVAL", text, got, err)
		}
	}
	for _, text := range []string{"16E", "19EB", "1Z", "1YB", "18446744073709551616", "99999999999999999999K"} {
		if got, err := parseCSize(text); !errors.Is(err, unix.ERANGE) {
			t.Errorf("parseCSize(%q) = %d, %v; want ERANGE", text, got, err)
		}
	}
}
