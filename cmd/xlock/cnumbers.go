package main

import (
	"errors"
	"math"
	"math/bits"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Numbers as the C library reads them, where the decimal point is a point in
// every locale. White space in front is skipped, none is allowed behind. Errors
// are EINVAL or ERANGE.

const cSpace = " \t\n\v\f\r"

// parseC32 is strtol(3) with base 10, for 32 bits.
func parseC32(text string) (int, error) {
	n, err := strconv.ParseInt(strings.TrimLeft(text, cSpace), 10, 32)
	return int(n), cNumberError(err)
}

// parseCFloat is strtold(3). What is too large for 64 bits is out of range.
func parseCFloat(text string) (float64, error) {
	text = strings.ToLower(strings.TrimLeft(text, cSpace))
	if strings.Contains(text, "_") {
		return 0, unix.EINVAL
	}
	digits := strings.TrimLeft(text, "+-")
	if strings.HasPrefix(digits, "0x") && !strings.Contains(digits, "p") {
		text += "p0" // which strconv demands
	}
	if digits == "nan" {
		return math.NaN(), nil // strconv knows none with a sign
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, cNumberError(err)
}

// parseCSize is a number of strtoumax(3) with base 0, and a suffix: K or KiB for
// 1024, KB for 1000, and so on to Y. There are no fractions.
func parseCSize(text string) (uint64, error) {
	form := regexp.MustCompile(`^\+?(0[xX][0-9a-fA-F]+|[0-9]+)(?:([KMGTPEZYkmgtpezy])(i?[Bb])?)?$`)
	parts := form.FindStringSubmatch(strings.TrimLeft(text, cSpace))
	if parts == nil {
		return 0, unix.EINVAL
	}
	n, err := strconv.ParseUint(parts[1], 0, 64)
	if err != nil {
		return 0, cNumberError(err)
	}
	base := uint64(1024)
	if strings.EqualFold(parts[3], "B") {
		base = 1000
	}
	for range strings.Index("KMGTPEZY", strings.ToUpper(parts[2])) + len(parts[2]) {
		var high uint64
		if high, n = bits.Mul64(n, base); high != 0 {
			return 0, unix.ERANGE
		}
	}
	return n, nil
}

func cNumberError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, strconv.ErrRange):
		return unix.ERANGE
	}
	return unix.EINVAL
}
