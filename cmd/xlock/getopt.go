package main

import (
	"fmt"
	"strings"
)

// getopt reads a command line as getopt_long(3) of the GNU C library does when
// its option string begins with "+": options end at the first operand. Letters
// may share a dash, a value may be attached, and a long name may be cut short
// where that leaves one meaning.
type getopt struct {
	args    []string // what is not read yet: in the end, the operands
	letters string   // a letter that takes a value is followed by a colon
	long    []longOption
	bundle  string // the letters behind the dash that are not read yet
}

// longOption is another name of a letter, or of a key that is no letter.
type longOption struct {
	name  string
	key   rune
	value bool // it takes one
}

const noOption rune = 0

// next returns the next option's key and value, and noOption at the first operand.
// Its errors are in the words of getopt_long(3).
func (g *getopt) next() (key rune, value string, err error) {
	if g.bundle != "" {
		return g.nextLetter()
	}
	if len(g.args) == 0 || len(g.args[0]) < 2 || g.args[0][0] != '-' {
		return noOption, "", nil
	}
	word := g.args[0]
	g.args = g.args[1:]
	if word == "--" {
		return noOption, "", nil
	}
	if text, ok := strings.CutPrefix(word, "--"); ok {
		return g.nextLong(text)
	}
	g.bundle = word[1:]
	return g.nextLetter()
}

func (g *getopt) nextLetter() (key rune, value string, err error) {
	letter := g.bundle[0]
	g.bundle = g.bundle[1:]
	at := strings.IndexByte(g.letters, letter)
	switch {
	case at < 0 || letter == ':':
		return noOption, "", fmt.Errorf("invalid option -- '%s'", string([]byte{letter}))
	case !strings.HasPrefix(g.letters[at+1:], ":"):
		return rune(letter), "", nil
	case g.bundle != "":
		value, g.bundle = g.bundle, ""
		return rune(letter), value, nil
	case len(g.args) == 0:
		return noOption, "", fmt.Errorf("option requires an argument -- '%c'", letter)
	}
	return rune(letter), g.shift(), nil
}

func (g *getopt) nextLong(text string) (key rune, value string, err error) {
	name, value, attached := strings.Cut(text, "=")
	option, err := g.find(name, text)
	switch {
	case err != nil:
		return noOption, "", err
	case attached && !option.value:
		return noOption, "", fmt.Errorf("option '--%s' doesn't allow an argument", option.name)
	case attached || !option.value:
		return option.key, value, nil
	case len(g.args) == 0:
		return noOption, "", fmt.Errorf("option '--%s' requires an argument", option.name)
	}
	return option.key, g.shift(), nil
}

// find goes by the whole name, or else by its beginning.
func (g *getopt) find(name, text string) (*longOption, error) {
	var candidates []*longOption // which mean different things
	for i := range g.long {
		option := &g.long[i]
		if option.name == name {
			return option, nil
		}
		if strings.HasPrefix(option.name, name) && (len(candidates) == 0 || candidates[0].key != option.key) {
			candidates = append(candidates, option)
		}
	}
	switch len(candidates) {
	case 0:
		return nil, fmt.Errorf("unrecognized option '--%s'", text)
	case 1:
		return candidates[0], nil
	}
	return nil, fmt.Errorf("option '--%s' is ambiguous; possibilities:%s", text, quoteNames(candidates))
}

func quoteNames(options []*longOption) string {
	var b strings.Builder
	for _, option := range options {
		b.WriteString(" '--" + option.name + "'")
	}
	return b.String()
}

func (g *getopt) shift() string {
	value := g.args[0]
	g.args = g.args[1:]
	return value
}
