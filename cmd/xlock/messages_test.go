package main

import (
	"os/exec"
	"testing"
	"unicode"
)

func TestEscape(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"plain", "lock is held by pid 7 (sh)", "lock is held by pid 7 (sh)"},
		{"letters of any script", "schloß 鍵 ключ", "schloß 鍵 ключ"},
		{"quotes and backslash", `it's "so" \n`, `it's "so" \n`},
		{"new line", "a\nxlock: b", `a\nxlock: b`},
		{"tab and return", "a\tb\rc", `a\tb\rc`},
		{"clear the screen", "\x1b[2J", `\x1b[2J`},
		{"set the title", "\x1b]0;x\x07", `\x1b]0;x\a`},
		{"one-byte CSI", "\u009b2J", `\u009b2J`},
		{"NUL and DEL", "\x00\x7f", `\x00\x7f`},
		{"right to left", "a\u202eb", `a\u202eb`},
		{"no UTF-8", "a\xff\xfeb", `a\xff\xfeb`},
		{"cut off", "a\xe9\x8d", `a\xe9\x8d`},
		{"the replacement character itself", "a\ufffdb", "a\ufffdb"},
		{"nothing", "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := escape(test.text); got != test.want {
				t.Errorf("escape(%q) = %q; want %q", test.text, got, test.want)
			}
		})
	}
}

func FuzzEscape(f *testing.F) {
	for _, text := range []string{"", "plain", "\x1b[2J", "\xff\u202e\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range escape(text) {
			if !unicode.IsPrint(r) {
				t.Errorf("escape(%q) leaves %q", text, r)
			}
		}
	})
}

func TestMessageIsOneLine(t *testing.T) {
	if got, want := message("a\nb\r\n"), "xlock: a\\nb\\r\\n"; got != want {
		t.Errorf("message: %q, want %q", got, want)
	}
}

// TestShellQuote has a shell read what was quoted.
func TestShellQuote(t *testing.T) {
	plain := []string{"lock", "/run/lock/a-b_c.1", "a@b:c=d%e+f,g", "schloß"}
	for _, path := range plain {
		if got := shellQuote(path); got != path {
			t.Errorf("shellQuote(%q) = %q; want it as it is", path, got)
		}
	}
	special := []string{
		"", " ", "a b", "it's", "''", `a"b`, `a\b`, "$HOME", "`id`", "a;b", "a&b", "a|b", "a>b", "*", "~", "#a", "!", "a\nb", "(a)",
	}
	for _, path := range append(special, plain...) {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+shellQuote(path)).Output()
		if string(out) != path || err != nil {
			t.Errorf("a shell reads %s as %q, %v; want %q", shellQuote(path), out, err, path)
		}
	}
}
