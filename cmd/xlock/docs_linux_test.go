package main

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"xlock/internal/testenv"
)

// TestDocs runs every command that a document shows in a console block, and
// compares what it prints with what the document says. The commands of a block
// run one after the other in one shell; one that ends in "&" holds the lock that
// the next command names, and is waited for until it does.
func TestDocs(t *testing.T) {
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	bin := t.TempDir()
	testBinary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The test binary is xlock when it is called by that name.
	if err := os.Symlink(testBinary, filepath.Join(bin, "xlock")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	blocks := 0
	for _, document := range documents(t) {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range consoleBlocks(string(text)) {
			blocks++
			t.Run(filepath.Base(document), func(t *testing.T) { runBlock(t, block) })
		}
	}
	if blocks == 0 {
		t.Error("no document shows a command")
	}
}

func documents(t *testing.T) []string {
	var all []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(testenv.Root(), pattern))
		check(t, err)
		all = append(all, found...)
	}
	return all
}

func consoleBlocks(text string) []string {
	fence := regexp.MustCompile("(?ms)^```console\n(.*?)^```$")
	var blocks []string
	for _, match := range fence.FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, match[1])
	}
	return blocks
}

func runBlock(t *testing.T, block string) {
	command := exec.Command("sh", "-c", script(block))
	command.Dir = t.TempDir()
	const program = "#!/bin/sh\necho deployed\n" // what the documents call ./deploy
	if err := os.WriteFile(filepath.Join(command.Dir, "deploy"), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	output, err := command.CombinedOutput()
	if err != nil {
		t.Errorf("%v", err)
	}
	if got, want := settle(strings.ReplaceAll(string(output), command.Dir, "/srv/app")), settle(block); got != want {
		t.Errorf("the document says\n%s\nbut it is\n%s", want, got)
	}
}

// script makes a shell script of a block that prints the block again.
func script(block string) string {
	var b strings.Builder
	lock := regexp.MustCompile(`\S+\.lock`)
	for line := range strings.Lines(block) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ ")
		if !ok {
			continue
		}
		b.WriteString("echo '$ " + strings.ReplaceAll(command, "'", `'\''`) + "'\n")
		if strings.HasSuffix(command, "&") {
			b.WriteString(command + "\nholders=\"$holders $!\"\n")
			b.WriteString("until grep -q '\"command\":{\"pid\"' " + lock.FindString(command) + " 2>/dev/null; do :; done\n")
			continue
		}
		b.WriteString("status=0; " + command + " || status=$?\n")
		b.WriteString("[ $status -eq 0 ] || echo \"(status $status)\"\n")
	}
	return b.String() + "[ -z \"$holders\" ] || { kill $holders; wait $holders; } >/dev/null 2>&1 || true\n"
}

// settle takes out of a text what differs from run to run and from machine to
// machine.
func settle(text string) string {
	if u, err := user.Current(); err == nil {
		text = regexp.MustCompile(`\b`+u.Username+`\b`).ReplaceAllString(text, "alice")
	}
	if host, err := os.Hostname(); err == nil {
		text = strings.ReplaceAll(text, " on "+host, " on web1")
	}
	for pattern, settled := range map[string]string{
		`\bpid \d+`:          "pid 1",
		`after [0-9.]+m?s\b`: "after 1ms",
		// Where the tests run in a container, inspect says so.
		`(?m)^  warning: +holders and waiters outside of this PID namespace.*\n`: "",
		`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(\w+ ago\)`:                             "2026-01-01 00:00:00 (0s ago)",
	} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, settled)
	}
	return text
}
