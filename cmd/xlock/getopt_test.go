package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func newTestGetopt(args []string) *getopt {
	return &getopt{args: args, letters: "abv:", long: []longOption{
		{"alpha", 'a', false},
		{"beta", 'b', false},
		{"bet", 'b', false},
		{"value", 'v', true},
		{"valid", 'i', false},
		{"word", 'v', true},
	}}
}

// readOptions writes options as key=value, and the operands behind a bar.
func readOptions(args []string) string {
	line := newTestGetopt(args)
	var read []string
	for {
		key, value, err := line.next()
		switch {
		case err != nil:
			return strings.Join(append(read, err.Error()), " ")
		case key == noOption:
			return strings.Join(append(append(read, "|"), line.args...), " ")
		}
		read = append(read, fmt.Sprintf("%c=%s", key, value))
	}
}

func TestGetopt(t *testing.T) {
	tests := []struct{ args, want string }{
		{"", "|"},
		{"x -a", "| x -a"},
		{"- -a", "| - -a"},
		{"-a x -b", "a= | x -b"},
		{"-a -- -b", "a= | -b"},
		{"-ab x", "a= b= | x"},
		{"-abv1 x", "a= b= v=1 | x"},
		{"-v 1 x", "v=1 | x"},
		{"-v -a x", "v=-a | x"},
		{"-v -- x", "v=-- | x"},
		{"-v=1 x", "v==1 | x"},
		{"-a-b", "a= invalid option -- '-'"},
		{"-ac", "a= invalid option -- 'c'"},
		{"-:", "invalid option -- ':'"},
		{"-\xff", "invalid option -- '\xff'"},
		{"-av", "a= option requires an argument -- 'v'"},
		{"--alpha x", "a= | x"},
		{"--a x", "a= | x"},
		{"--bet x", "b= | x"},
		{"--be x", "b= | x"},
		{"--betax", "unrecognized option '--betax'"},
		{"--value 1 x", "v=1 | x"},
		{"--value=1 x", "v=1 | x"},
		{"--value= x", "v= | x"},
		{"--valu=1=2 x", "v=1=2 | x"},
		{"--value", "option '--value' requires an argument"},
		{"--w", "option '--word' requires an argument"},
		{"--alpha=1", "option '--alpha' doesn't allow an argument"},
		{"--al=1", "option '--alpha' doesn't allow an argument"},
		{"--v=1", "option '--v=1' is ambiguous; possibilities: '--value' '--valid'"},
		{"--=1", "option '--=1' is ambiguous; possibilities: '--alpha' '--beta' '--bet' '--value' '--valid' '--word'"},
		{"--unknown=1", "unrecognized option '--unknown=1'"},
		{"---alpha", "unrecognized option '---alpha'"},
		{"--Alpha", "unrecognized option '--Alpha'"},
	}
	for _, test := range tests {
		t.Run(test.args, func(t *testing.T) {
			if got := readOptions(strings.Fields(test.args)); got != test.want {
				t.Errorf("%q: %s; want %s", test.args, got, test.want)
			}
		})
	}
}

// FuzzGetopt: what is read ends, and the operands are the end of the command line.
func FuzzGetopt(f *testing.F) {
	for _, line := range []string{"", "-ab -v 1 x", "--val=1 -- -a", "--v", "-v"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		args := strings.Split(text, " ")
		line := newTestGetopt(args)
		for range len(text) + 1 {
			key, _, err := line.next()
			if err != nil {
				return
			}
			if key == noOption {
				if !slices.Equal(line.args, args[len(args)-len(line.args):]) {
					t.Errorf("%q leaves %q", args, line.args)
				}
				return
			}
		}
		t.Errorf("%q has no end", args)
	})
}
