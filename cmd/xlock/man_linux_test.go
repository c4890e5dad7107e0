package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"xlock/internal/testenv"
)

// TestManual holds the manual pages against the commands' help. A command that
// takes no flag of its own has its place in xlock(1).
func TestManual(t *testing.T) {
	var want []string
	for _, command := range documented() {
		if !hasPage(command) {
			continue
		}
		want = append(want, pagePath(command))
		t.Run(command.Name(), func(t *testing.T) {
			page := readPage(t, command)
			sameList(t, "flags", page.flags(), flagNames(command))
			sameList(t, "statuses", page.statuses(), helpStatuses(command))
			for _, other := range page.references() {
				if _, err := os.Stat(filepath.Join(testenv.Root(), "man", other)); err != nil {
					t.Error(err)
				}
			}
			if page.dates() != 1 {
				t.Error("the page has no date of the form that mdoc(7) wants")
			}
		})
	}
	got, err := filepath.Glob(filepath.Join(testenv.Root(), "man", "*"))
	check(t, err)
	sameList(t, "pages", got, want)
	sameList(t, "commands in xlock(1)", commandsInPage(t), commandNames())
}

// TestManualWords holds the words that programs read, and their explanations, against
// the code: reasons, identities, warnings, and the names in JSON.
func TestManualWords(t *testing.T) {
	root := newRootCommand()
	inspect, run := readPage(t, subcommand(t, root, "inspect")), readPage(t, subcommand(t, root, "run"))
	json, statusFD := readDocument(t, "inspect-json.md"), readDocument(t, "status-fd.md")
	for _, test := range []struct {
		section  string
		page     page
		want     []string
		document string
	}{
		{"REASONS", inspect, constants(t, "Reason", "internal/lock"), json + statusFD},
		{"IDENTITIES", inspect, constants(t, "Word", "internal/lock", "internal/identity"), readDocument(t, "design.md")},
		{"WARNINGS", inspect, constants(t, "WarningCode", "internal/lock"), json},
		{"JSON", inspect, jsonNames(reflect.TypeFor[reportJSON]()), json},
		{"EVENTS", run, eventNames(t), statusFD},
	} {
		sameList(t, test.section, test.page.words(test.section), test.want)
		for _, word := range test.want {
			if !strings.Contains(test.document, "`"+word+"`") {
				t.Errorf("no document explains `%s`, of %s", word, test.section)
			}
		}
	}
	for _, name := range jsonNames(reflect.TypeFor[eventJSON]()) {
		if !slices.Contains(run.variables("EVENTS"), name) || !strings.Contains(statusFD, "`"+name+"`") {
			t.Errorf("xlock-run(1) or status-fd.md does not explain %s", name)
		}
	}
}

func readDocument(t *testing.T, name string) string {
	text, err := os.ReadFile(filepath.Join(testenv.Root(), "docs", name))
	check(t, err)
	return string(text)
}

func subcommand(t *testing.T, root *cobra.Command, name string) *cobra.Command {
	command, _, err := root.Find([]string{name})
	check(t, err)
	return command
}

// constants are the values of the string constants of a type in these folders.
func constants(t *testing.T, typeName string, folders ...string) []string {
	var values []string
	pattern := regexp.MustCompile(`(?m)^\s+\w+ +(?:\w+\.)?` + typeName + ` += "(.+)"`)
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(testenv.Root(), folder, "*.go"))
		check(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			check(t, err)
			for _, match := range pattern.FindAllStringSubmatch(string(text), -1) {
				values = append(values, match[1])
			}
		}
	}
	return values
}

// jsonNames are the names of the members of a struct's object.
func jsonNames(of reflect.Type) []string {
	var names []string
	for _, field := range reflect.VisibleFields(of) {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// eventNames are the words that events.go writes.
func eventNames(t *testing.T) []string {
	text, err := os.ReadFile(filepath.Join(testenv.Root(), "cmd", "xlock", "events.go"))
	check(t, err)
	var names []string
	for _, match := range regexp.MustCompile(`Event(?:: |, .* = )"(\w+)"`).FindAllStringSubmatch(string(text), -1) {
		names = append(names, match[1])
	}
	return names
}

func hasPage(command *cobra.Command) bool { return command.Name() != "version" }

func pagePath(command *cobra.Command) string {
	name := strings.ReplaceAll(command.CommandPath(), " ", "-")
	return filepath.Join(testenv.Root(), "man", name+".1")
}

func sameList(t *testing.T, what string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: the manual has\n%q\nbut there are\n%q", what, got, want)
	}
}

// page is the source of a manual page, in the language of mdoc(7).
type page string

func readPage(t *testing.T, command *cobra.Command) page {
	text, err := os.ReadFile(pagePath(command))
	if err != nil {
		t.Fatalf("%v: every command that takes flags has a page", err)
	}
	return page(text)
}

func (p page) section(title string) string {
	_, rest, _ := strings.Cut(string(p), "\n.Sh "+title+"\n")
	text, _, _ := strings.Cut(rest, "\n.Sh ")
	return text
}

// items are the heads of a section's list.
func (p page) items(title string) []string {
	var items []string
	for line := range strings.Lines(p.section(title)) {
		if item, ok := strings.CutPrefix(line, ".It "); ok {
			items = append(items, strings.TrimSpace(item))
		}
	}
	return items
}

func (p page) flags() []string {
	var names []string
	for _, item := range p.items("OPTIONS") {
		for _, match := range regexp.MustCompile(`Fl (\S+)`).FindAllStringSubmatch(item, -1) {
			names = append(names, "-"+match[1])
		}
	}
	return names
}

func (p page) statuses() []string { return p.items("EXIT STATUS") }

// words are the heads of a list of words that programs read.
func (p page) words(title string) []string {
	words := p.items(title)
	for i := range words {
		words[i] = strings.TrimPrefix(words[i], "Cm ")
	}
	return words
}

// variables are what a section marks so.
func (p page) variables(title string) []string {
	var names []string
	for line := range strings.Lines(p.section(title)) {
		if list, ok := strings.CutPrefix(line, ".Va "); ok {
			names = append(names, strings.Fields(list)...)
		}
	}
	return names
}

// references are the files of xlock's own pages that the page names.
func (p page) references() []string {
	var files []string
	for _, match := range regexp.MustCompile(`(?m)^\.Xr (xlock\S*) (\d)`).FindAllStringSubmatch(string(p), -1) {
		files = append(files, match[1]+"."+match[2])
	}
	return files
}

func (p page) dates() int {
	return len(regexp.MustCompile(`(?m)^\.Dd [A-Z][a-z]+ \d{1,2}, \d{4}$`).FindAllString(string(p), -1))
}

// examples are the commands of a page, as a person reads them.
func (p page) examples() []string {
	var commands []string
	unescape := strings.NewReplacer(`\(dq`, `"`, `\(aq`, `'`, `\-`, `-`, `\e`, `\`)
	for line := range strings.Lines(p.section("EXAMPLES")) {
		if command, ok := strings.CutPrefix(line, ".Dl $ "); ok {
			commands = append(commands, unescape.Replace(strings.TrimSpace(command)))
		}
	}
	return commands
}

// TestHelpStatuses holds the helps' statuses against those of the code.
func TestHelpStatuses(t *testing.T) {
	bySignal := strconv.Itoa(statusBySignal)
	own := slices.DeleteFunc(numbers(t, "status", "exit.go"), func(status string) bool { return status == bySignal })
	sameList(t, "run", helpStatuses(subcommand(t, newRootCommand(), "run")), own)
	sameList(t, "flock", helpStatuses(subcommand(t, newRootCommand(), "flock")), numbers(t, "flock", "flock_options.go"))
	for _, name := range []string{"inspect", "reclaim"} {
		for _, status := range helpStatuses(subcommand(t, newRootCommand(), name)) {
			if status != "0" && status != "1" && !slices.Contains(own, status) {
				t.Errorf("xlock has no status %s, of %s", status, name)
			}
		}
	}
}

// numbers are the values of the integer constants of a file whose names begin so.
func numbers(t *testing.T, prefix, file string) []string {
	text, err := os.ReadFile(filepath.Join(testenv.Root(), "cmd", "xlock", file))
	check(t, err)
	var values []string
	for _, match := range regexp.MustCompile(`(?m)^\t`+prefix+`[A-Z]\w+ += (\d+)`).FindAllStringSubmatch(string(text), -1) {
		values = append(values, match[1])
	}
	slices.Sort(values)
	return slices.Compact(values)
}

func helpStatuses(command *cobra.Command) []string {
	_, text, _ := strings.Cut(command.Long, "\nEXIT STATUS\n")
	var statuses []string
	for _, match := range regexp.MustCompile(`(?m)^  (\d+) `).FindAllStringSubmatch(text, -1) {
		statuses = append(statuses, match[1])
	}
	return statuses
}

func commandsInPage(t *testing.T) []string {
	var names []string
	for _, item := range readPage(t, newRootCommand()).items("DESCRIPTION") {
		if name, ok := strings.CutPrefix(item, "Cm "); ok {
			names = append(names, name)
		}
	}
	return names
}

func commandNames() []string {
	names := []string{"help"}
	for _, command := range newRootCommand().Commands() {
		names = append(names, command.Name())
	}
	return names
}

// TestManualIsWellFormed has mandoc(1) say what is wrong with the pages, down to
// matters of style. It looks for the pages that they refer to among those that
// are installed.
func TestManualIsWellFormed(t *testing.T) {
	testenv.Need(t, "mandoc")
	pages, err := filepath.Glob(filepath.Join(testenv.Root(), "man", "*.1"))
	check(t, err)
	output, err := exec.CommandContext(t.Context(), "mandoc", append([]string{"-T", "lint"}, pages...)...).CombinedOutput()
	notInstalled := regexp.MustCompile(`(?m)^mandoc: (outdated mandoc.db lacks|.*STYLE: referenced manual not found: Xr) .*\n`)
	if rest := notInstalled.ReplaceAllString(string(output), ""); rest != "" {
		t.Errorf("%v\n%s", err, rest)
	}
}

// TestManualExamples runs every example, each beside what it names.
func TestManualExamples(t *testing.T) {
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	t.Setenv("PATH", filepath.Dir(linkXlock(t))+string(filepath.ListSeparator)+os.Getenv("PATH"))
	for _, command := range documented() {
		if !hasPage(command) {
			continue
		}
		examples := readPage(t, command).examples()
		if len(examples) == 0 {
			t.Errorf("xlock %s: the page has no example", command.Name())
		}
		for _, example := range examples {
			t.Run(example, func(t *testing.T) { runExample(t, example) })
		}
	}
}

func runExample(t *testing.T, example string) {
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "exec 2>&1; "+example)
	cmd.Dir = exampleDir(t)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	output, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	lines := bufio.NewReader(output)
	first, _ := lines.ReadString('\n')
	endless := strings.Contains(example, " --watch ")
	if endless {
		check(t, unix.Kill(-cmd.Process.Pid, unix.SIGINT))
	}
	rest, _ := io.ReadAll(lines)
	if err := cmd.Wait(); err != nil && !(endless && first != "") {
		t.Errorf("%v\n%s%s", err, first, rest)
	}
}

// exampleDir has the programs, locks and folders that examples name.
func exampleDir(t *testing.T) string {
	dir := t.TempDir()
	check(t, os.Mkdir(filepath.Join(dir, "locks"), 0o777))
	check(t, os.Mkdir(filepath.Join(dir, "src"), 0o777))
	for _, program := range []string{"deploy", "backup", "report", "server"} {
		check(t, os.WriteFile(filepath.Join(dir, program), []byte("#!/bin/sh\n"), 0o777))
	}
	for _, path := range []string{"deploy.lock", "locks/build.lock"} {
		cmd := exec.CommandContext(t.Context(), "xlock", "run", path, "true")
		cmd.Dir = dir
		check(t, cmd.Run())
	}
	return dir
}
