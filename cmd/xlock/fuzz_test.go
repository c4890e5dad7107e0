package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"xlock/internal/identity"
	"xlock/internal/lock"
)

// FuzzParseDuration: what is read is no negative time and, written as Go does or in
// seconds, is read as the same.
func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"0", "1.5", "1m30s", "-1", "nan", "inf", "1e400", "9.3e9", "0x1p-2", "1_0", "99999999h", "1h-1m"} {
		f.Add(text, int64(1500), uint32(3))
	}
	f.Fuzz(func(t *testing.T, text string, n int64, seconds uint32) {
		if d, err := parseDuration(text); d < 0 || err != nil && d != 0 {
			t.Errorf("parseDuration(%q) = %v, %v", text, d, err)
		} else if again, errAgain := parseDuration(d.String()); again != d || errAgain != nil {
			t.Errorf("%q is %v, and that is %v, %v", text, d, again, errAgain)
		}
		d := time.Duration(n)
		if got, err := parseDuration(d.String()); (err == nil) != (n >= 0) || err == nil && got != d {
			t.Errorf("%v is read as %v, %v", d, got, err)
		}
		d = time.Duration(seconds) * time.Second
		if got, err := parseDuration(fmt.Sprint(seconds)); got != d || err != nil {
			t.Errorf("%d is read as %v, %v", seconds, got, err)
		}
	})
}

// FuzzParseFlockWait: a number with six decimals is read to the microsecond that it
// names or, as binary fractions are, the one before; nothing is a negative time.
func FuzzParseFlockWait(f *testing.F) {
	for _, text := range []string{"0", " 1.5", "-0", "nan", "-nan", "inf", "0x1p3", "0x", "1e400", "1e-400", "9223372036854775807", "1_0", "1 "} {
		f.Add(text, uint32(7), uint32(999_999))
	}
	f.Fuzz(func(t *testing.T, text string, seconds, micros uint32) {
		if w, err := parseFlockWait(text); w.duration < 0 || w.set != (err == nil) || err != nil && !errors.As(err, new(*flockError)) {
			t.Errorf("parseFlockWait(%q) = %+v, %v", text, w, err)
		}
		micros %= 1_000_000
		d := time.Duration(seconds)*time.Second + time.Duration(micros)*time.Microsecond
		w, err := parseFlockWait(fmt.Sprintf("%d.%06d", seconds, micros))
		if late := d - w.duration; err != nil || w.invalid || late < 0 || late > time.Microsecond {
			t.Errorf("%v is read as %+v, %v", d, w, err)
		}
	})
}

// FuzzParseFlock: a command line is refused with a status, or names one thing to lock,
// and the command as it stands at its end.
func FuzzParseFlock(f *testing.F) {
	for _, line := range []string{"", "-n lock true", "-w 1.5 -E 3 lock -c x", "--fd 9 -c x", "-sxuoF 9", "--st 1K --len 0x10 l a -n", "-h", "-- -n -n"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		args := strings.Split(text, " ")
		o, err := parseFlock(args)
		failure := new(flockError)
		switch shell := len(args) > 1 && isFlockShell(args[len(args)-2]); {
		case err != nil:
			if !errors.As(err, &failure) || failure.status == 0 {
				t.Errorf("%q: %v", args, err)
			}
		case o.show != 0:
		case o.byPath != (o.fd == -1 && len(o.command) > 0) && o.fd >= -1, o.conflict < 0, o.conflict > math.MaxUint8, o.noFork && o.close:
			t.Errorf("%q is %+v", args, o)
		case !shell && !slices.Equal(o.command, args[len(args)-len(o.command):]):
			t.Errorf("%q runs %q", args, o.command)
		}
	})
}

// FuzzCNumbers compares with numbers of any size.
func FuzzCNumbers(f *testing.F) {
	for unit, text := range []string{"", "K", "MiB", "16E", "0x1E", "08", "-1", " +1Kib", "1_0", "0b1"} {
		f.Add(text, uint64(18), unit)
	}
	f.Fuzz(func(t *testing.T, text string, n uint64, unit int) {
		for _, err := range []error{second(parseCSize(text)), second(parseC32(text)), second(parseCFloat(text))} {
			if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ERANGE) {
				t.Errorf("%q: %v", text, err)
			}
		}
		units := []string{"", "K", "M", "G", "T", "P", "E", "Z", "Y"}
		power := int(uint(unit) % uint(len(units)))
		checkCSize(t, fmt.Sprint(n)+units[power], n, 1024, power)
		checkCSize(t, fmt.Sprintf("%#o", n)+units[power], n, 1024, power)
		if power > 0 {
			checkCSize(t, fmt.Sprint(n)+units[power]+"B", n, 1000, power)
			checkCSize(t, fmt.Sprintf(" +%#x", n)+strings.ToLower(units[power])+"ib", n, 1024, power)
		}
		small := int32(n)
		if got, err := parseC32(fmt.Sprintf("\t%+d", small)); got != int(small) || err != nil {
			t.Errorf("%d is read as %d, %v", small, got, err)
		}
		number := math.Float64frombits(n)
		if got, err := parseCFloat(strconv.FormatFloat(number, 'g', -1, 64)); err != nil || got != number && !math.IsNaN(number) {
			t.Errorf("%v is read as %v, %v", number, got, err)
		}
	})
}

func second[T any](_ T, err error) error { return err }

func checkCSize(t *testing.T, text string, n uint64, base, power int) {
	t.Helper()
	want := new(big.Int).Exp(big.NewInt(int64(base)), big.NewInt(int64(power)), nil)
	want.Mul(want, new(big.Int).SetUint64(n))
	got, err := parseCSize(text)
	if want.IsUint64() != (err == nil) || err == nil && got != want.Uint64() || err != nil && !errors.Is(err, unix.ERANGE) {
		t.Errorf("%q is read as %d, %v; want %v", text, got, err, want)
	}
}

// FuzzEventLine: whatever a lock, a label or a message holds, an event is one line
// that can be printed, and that says the same again to who reads it.
func FuzzEventLine(f *testing.F) {
	for _, text := range []string{"", "plain", "a\nb", "\x1b[2J\u009b", "\xff\xfe", "\u2028\u202e\U000e0001", `"\`, "<&>"} {
		f.Add("lock", text, text, text, 3, true)
		f.Add(text, "", "", "web1", -1, false)
	}
	f.Fuzz(func(t *testing.T, path, message, label, host string, number int, set bool) {
		event := eventJSON{
			Event: "busy", Time: time.Unix(int64(int32(number)), 0).UTC(), Lock: path, PID: number, Message: message, TimedOut: set, Lost: set,
			Holder: &holderJSON{State: lock.Held, recordJSON: &recordJSON{
				Owner: &identity.Process{PID: number}, Command: &lock.Command{Name: label}, Host: host, Label: label,
			}},
		}
		if set {
			event.Exit, event.Ahead, event.Signal = &number, &number, host
		}
		line, err := encodeLine(event)
		if err != nil {
			t.Fatal(err)
		}
		checkEventLine(t, line, event)
	})
}

func checkEventLine(t *testing.T, line string, event eventJSON) {
	t.Helper()
	text, ended := strings.CutSuffix(line, "\n")
	if !ended || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("%q is not one line that can be printed", line)
	}
	type reading struct {
		Lock, Message, Signal string
		Time                  time.Time
		PID                   int
		Exit                  *int
		Lost                  bool
		Holder                struct {
			Host, Label string
			Owner       identity.Process
			Command     lock.Command
		}
	}
	utf8 := func(text string) string { return string([]rune(text)) } // JSON has nothing else
	var got, want reading
	want.Lock, want.Message, want.Signal = utf8(event.Lock), utf8(event.Message), utf8(event.Signal)
	want.Time, want.PID, want.Exit, want.Lost = event.Time, event.PID, event.Exit, event.Lost
	want.Holder.Host, want.Holder.Label = utf8(event.Holder.Host), utf8(event.Holder.Label)
	want.Holder.Owner.PID, want.Holder.Command.Name = event.Holder.Owner.PID, utf8(event.Holder.Command.Name)
	if err := json.Unmarshal([]byte(line), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%q is read as %+v, %v, not %+v", line, got, err, want)
	}
}
