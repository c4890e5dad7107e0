// Package model checks the model of the protocol with Spin. See README.md.
package model

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"xlock/internal/testenv"
)

const modelFile = "xlock.pml"

// A run is the model with some disturbances, or with a mutation.
type run struct {
	name     string
	switches string
	violates string // the property; empty if all must hold
}

var configurations = []run{
	{name: "calm", switches: "CLOSES DAEMONS UNLOCKS"},
	{name: "kills and images", switches: "KILLS=2 IMAGES=1 CLOSES DAEMONS"},
	{name: "another namespace", switches: "FOREIGN KILLS=2 IMAGES=1 DAEMONS"},
	{name: "a deletion and a kill", switches: "DELETES=1 KILLS=1 CLOSES DAEMONS"},
	{name: "a deletion and an image", switches: "DELETES=1 IMAGES=1 CLOSES"},
	{name: "a force and a kill", switches: "FORCES=1 KILLS=1 CLOSES DAEMONS"},
	{name: "a force and unlocking", switches: "FORCES=1 UNLOCKS CLOSES"},
	{name: "a force and a deletion", switches: "FORCES=1 DELETES=1 MODES=1"},
	{name: "two forces", switches: "FORCES=2 MODES=1"},
}

var mutations = []run{
	{"NO_RECHECK", "DELETES=1", "lostForNothing"},
	{"NO_LAST_LOOK", "DELETES=1", "overlap"},
	{"UNGUARDED", "", "staleToken"},
	{"OWNER_ONLY", "KILLS=1", "overlap"},
	{"LATE_RECORD", "KILLS=1", "overlap"},
	{"SELF_HELD", "IMAGES=1", "refusedForItself"},
	{"KEEPS", "IMAGES=1", "stuck"},
	{"DEAF", "KILLS=1 CLOSES", "stuck"},
	{"STAYS", "FORCES=1 KILLS=1 DAEMONS", "stuck"},
	{"WITNESS", "KILLS=1 FOREIGN", "overlap"},
	{"UNLOCKS_FIRST", "FOREIGN", "lostForNothing"},
	{"BLIND", "FORCES=1 UNLOCKS", "overlap"},
	{"NO_UNLOCK", "DAEMONS", "stuck"},
	{"NO_VERIFY", "FORCES=1", "wrongVictim"},
	{"NEW_UNLOCKED", "FORCES=1", "lostForNothing"},
	{"ANY_HOLD", "FORCES=1 CLOSES", "wrongVictim"},
	{"CROSSWISE", "FORCES=2 MODES=1", "lostForNothing"},
	{"LOOKS_FIRST", "FORCES=1", "wrongVictim"},
	{"NUMBER_ALONE", "FORCES=1 DELETES=1 MODES=1", "wrongVictim"},
	{"NEW_BREAKABLE", "FORCES=2 MODES=1", "lostForNothing"},
	{"NO_RELOCK", "FORCES=1 UNLOCKS", "lostForNothing"},
}

func TestConfigurations(t *testing.T) {
	for _, r := range configurations {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			out := search(t, "-O1", r.switches)
			// Spin says so of each limit that it has met.
			if !strings.Contains(out, "errors: 0\n") || strings.Contains(out, "Search not completed") ||
				strings.Contains(out, "search depth too small") {
				t.Errorf("the search has found an error or is not complete:\n%s", out)
			}
		})
	}
}

func TestMutations(t *testing.T) {
	for _, r := range mutations {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			out := search(t, "-O0", "MUT="+r.name+" "+r.switches)
			if want := "assertion violated  !(" + r.violates + ")"; !strings.Contains(out, want) {
				t.Errorf("not %q:\n%s", want, out)
			}
		})
	}
}

// TestEveryMutationIsTried holds the table against the model.
func TestEveryMutationIsTried(t *testing.T) {
	tried := make(map[string]bool)
	for _, r := range mutations {
		tried[r.name] = true
	}
	inModel := make(map[string]bool)
	for _, use := range regexp.MustCompile(`\bis\(([A-Z_]+)\)`).FindAllStringSubmatch(code(t), -1) {
		inModel[use[1]] = true
		if !tried[use[1]] {
			t.Errorf("no test tries %s", use[1])
		}
	}
	for name := range tried {
		if !inModel[name] {
			t.Errorf("the model has no %s", name)
		}
	}
}

// search looks through all states of the model and returns what Spin reports. Where
// it soon ends, more time goes into the compiler's optimizations than they save.
func search(t *testing.T, optimization, switches string) string {
	t.Helper()
	testenv.Need(t, "spin", "gcc")
	dir := t.TempDir()
	model, err := filepath.Abs(modelFile)
	if err != nil {
		t.Fatal(err)
	}
	var defines []string
	for name := range strings.FieldsSeq(switches) {
		defines = append(defines, "-D"+name)
	}
	command(t, dir, "spin", append(defines, "-a", model)...)
	command(t, dir, "gcc", optimization, "-w", "-DSAFETY", "-DVECTORSZ=512", "-DMEMLIM=1800", "-o", "pan", "pan.c")
	return command(t, dir, filepath.Join(dir, "pan"), "-m10000", "-n")
}

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// TestNamesExist looks for everything that the model's comments name.
func TestNamesExist(t *testing.T) {
	names := regexp.MustCompile(`\b(?:lock|flock|supervise)(?:\.[A-Za-z]+)+`).FindAllString(strings.Join(comments(t), "\n"), -1)
	if len(names) < 40 {
		t.Errorf("the model names no more than %d functions", len(names))
	}
	declared := make(map[string]bool)
	for _, name := range []string{"lock", "flock", "supervise"} {
		declare(t, declared, name)
	}
	for _, name := range names {
		if !declared[name] {
			t.Errorf("there is no %s", name)
		}
	}
}

var comment = regexp.MustCompile(`(?s)/\*.*?\*/`)

func comments(t *testing.T) []string { return comment.FindAllString(text(t), -1) }

func code(t *testing.T) string { return comment.ReplaceAllString(text(t), "") }

func text(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(modelFile)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// declare notes what a package declares, on whatever system.
func declare(t *testing.T, declared map[string]bool, name string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(testenv.Root(), "internal", name, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			for _, n := range namesOf(d) {
				declared[name+"."+n] = true
			}
		}
	}
}

func namesOf(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return []string{receiver(d) + d.Name.Name}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}

func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	typ := d.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	return typ.(*ast.Ident).Name + "."
}
