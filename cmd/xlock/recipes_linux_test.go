package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"xlock/internal/testenv"
)

// TestRecipes runs testdata/recipes, with the commands of [TestScript]. Each
// script finds every block of docs/recipes.md that has a name in a file of that
// name. The folders that the recipes name are below the work directory.
func TestRecipes(t *testing.T) {
	testscript.Run(t, scripts(t, "recipes", setupRecipes))
}

func setupRecipes(t *testing.T, env *testscript.Env) error {
	if err := setup(t, env); err != nil {
		return err
	}
	bin, _, _ := strings.Cut(env.Getenv("PATH"), string(filepath.ListSeparator))
	below := strings.NewReplacer(
		"/run/lock/", env.WorkDir+"/locks/",
		"/locks/", env.WorkDir+"/locks/",
		"/usr/bin/xlock", filepath.Join(bin, "xlock"),
		"/usr/local/bin/", env.WorkDir+"/bin/",
	)
	for name, text := range recipes(t, "docs/recipes.md") {
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		if err := os.WriteFile(filepath.Join(env.WorkDir, name), []byte(below.Replace(text)), mode); err != nil {
			return err
		}
	}
	return os.Mkdir(filepath.Join(env.WorkDir, "locks"), 0o755)
}

// recipes are the texts of a document's blocks that have a name, by that.
func recipes(t *testing.T, document string) map[string]string {
	text, err := os.ReadFile(filepath.Join(testenv.Root(), document))
	check(t, err)
	found := map[string]string{}
	for _, match := range regexp.MustCompile("(?ms)^```\\w+ (\\S+)\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		found[match[1]] = match[2]
	}
	return found
}

// TestRecipesAreTested: a block of a document is run by [TestDocs], as a recipe by
// a script that names it, or shows what [TestScreens] sees. The README's recipes
// are some of those.
func TestRecipesAreTested(t *testing.T) {
	var tested strings.Builder
	files, err := filepath.Glob(filepath.Join(testenv.Root(), "testdata", "recipes", "*.txtar"))
	check(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(t, err)
		tested.Write(text)
	}
	words := regexp.MustCompile(`[^\w./-]+`).Split(tested.String(), -1)
	all := recipes(t, "docs/recipes.md")
	for name, text := range recipes(t, "README.md") {
		if text != all[name] {
			t.Errorf("%s is not the same in README.md and in docs/recipes.md", name)
		}
	}
	for name := range all {
		if !slices.ContainsFunc(words, func(word string) bool { return strings.TrimPrefix(word, "./") == name }) {
			t.Errorf("no script in testdata/recipes uses %s", name)
		}
	}
	for _, document := range documents(t) {
		text, err := os.ReadFile(document)
		check(t, err)
		for _, match := range regexp.MustCompile("(?ms)^```(\\w*)([^\n]*)\n.*?^```$").FindAllStringSubmatch(string(text), -1) {
			name := filepath.Base(document)
			switch {
			case match[1] == "console" || name == "screens.md":
			case match[2] != "" && (name == "recipes.md" || name == "README.md"):
			default:
				t.Errorf("%s: nothing runs the block ```%s%s", name, match[1], match[2])
			}
		}
	}
}
