package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"xlock/internal/testenv"
)

// askers give each shell's answer to TAB at the end of LINE, one match a line.
// In each the program deploy has completions of its own.
var askers = map[string]string{
	"bash": `
. /usr/share/bash-completion/bash_completion
. "$COMPLETIONS/xlock.bash"
complete -W 'staging production' deploy
read -ra COMP_WORDS <<<"$LINE"
[[ $LINE != *' ' ]] || COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$LINE COMP_POINT=${#LINE}
compopt() { :; }
_xlock xlock "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\n' "${COMPREPLY[@]}"`,
	"fish": `
source $COMPLETIONS/xlock.fish
complete -c deploy -f -a 'staging production'
complete -C $LINE | string replace -r '\t.*' ''
true`,
	// A shell that edits lines needs a terminal: zpty makes one.
	"zsh": `
cat >.zshrc <<'END'
PS1=
fpath=($COMPLETIONS $fpath)
autoload -Uz compinit
compinit -u -D
_deploy() { compadd staging production }
compdef _deploy deploy
compadd() {
  local -a _found
  builtin compadd "$@"
  local _status=$?
  (( ${@[(I)-[a-zA-Z]#[OAD]*]} )) && return _status
  builtin compadd -A _found "$@"
  print -rl -- $_found >>$ANSWER
  return _status
}
ask() { BUFFER=$LINE CURSOR=$#LINE; zle complete-word; exit }
zle -N zle-line-init ask
END
zmodload zsh/zpty
export ZDOTDIR=$PWD ANSWER=$PWD/.answer
: >.answer
zpty shell zsh -d -i
while zpty -r shell text; do :; done
cat .answer`,
}

// TestCompletions asks the shells themselves.
func TestCompletions(t *testing.T) {
	for shell, script := range askers {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			testenv.Need(t, shell)
			if _, err := os.Stat("/usr/share/bash-completion/bash_completion"); shell == "bash" && err != nil {
				testenv.LeaveOut(t, "there is no bash-completion")
			}
			c := completer{shell: shell, script: script, dir: completionDir(t)}
			c.testFlags(t)
			c.testWords(t)
		})
	}
}

type completer struct{ shell, script, dir string }

// completionDir has a lock file, and bin with a program.
func completionDir(t *testing.T) string {
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "build.lock"), nil, 0o666))
	check(t, os.Mkdir(filepath.Join(dir, "bin"), 0o777))
	check(t, os.WriteFile(filepath.Join(dir, "bin", "deploy"), []byte("#!/bin/sh\n"), 0o777))
	return dir
}

func (c completer) ask(t *testing.T, line string) []string {
	cmd := exec.CommandContext(t.Context(), c.shell, "-c", c.script)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "LINE="+line, "TERM=xterm", "LC_ALL=C", "HOME="+c.dir, "XDG_CONFIG_HOME="+c.dir,
		"COMPLETIONS="+filepath.Join(testenv.Root(), "completions"), "PATH="+c.dir+"/bin:"+os.Getenv("PATH"))
	cmd.Stderr = t.Output()
	output, err := cmd.Output()
	if err != nil {
		t.Errorf("%s: %v", line, err)
	}
	return strings.Fields(string(output))
}

// testFlags holds the flags that a shell offers against those that there are.
func (c completer) testFlags(t *testing.T) {
	for _, command := range documented() {
		if command.HasSubCommands() {
			continue
		}
		line := command.CommandPath() + " -"
		got := slices.DeleteFunc(c.ask(t, line), func(word string) bool { return !strings.HasPrefix(word, "-") })
		for i := range got {
			got[i] = strings.TrimSuffix(got[i], "=")
		}
		slices.Sort(got)
		if got, want := slices.Compact(got), flagNames(command); !slices.Equal(got, want) {
			t.Errorf("%q is completed by\n%q, but there are\n%q", line, got, want)
		}
	}
}

func (c completer) testWords(t *testing.T) {
	for line, want := range map[string]string{
		"xlock ":                                      "run inspect reclaim flock version help",
		"xlock help re":                               "reclaim",
		"xlock run bui":                               "build.lock",
		"xlock run -n -w 5 --label x bui":             "build.lock",
		"xlock run --wait=5 bui":                      "build.lock",
		"xlock run -- bui":                            "build.lock",
		"xlock run build.lock depl":                   "deploy",
		"xlock run build.lock -- depl":                "deploy",
		"xlock run build.lock deploy ":                "staging production",
		"xlock run -nE 3 build.lock deploy st":        "staging",
		"xlock run --label x build.lock -- deploy st": "staging",
		"xlock run -s build.lock deploy ":             "staging production",
		"xlock flock bui":                             "build.lock",
		"xlock flock -n -w 5 bui":                     "build.lock",
		"xlock flock build.lock depl":                 "deploy",
		"xlock flock -xE 3 build.lock deploy ":        "staging production",
		"xlock flock --fd 9 deploy ":                  "staging production",
		"xlock inspect --is ":                         "free held abandoned unknown",
		"xlock inspect build.lock bui":                "build.lock",
		"xlock reclaim --if-generation 7 bui":         "build.lock",
	} {
		got := c.ask(t, line)
		for word := range strings.FieldsSeq(want) {
			if !slices.Contains(got, word) {
				t.Errorf("%q is completed by %q, without %s", line, got, word)
			}
		}
	}
	const own = "--no-wait"
	if got := c.ask(t, "xlock run build.lock deploy --no"); slices.Contains(got, own) {
		t.Errorf("the command is offered xlock's %s", own)
	}
}

// documented are the commands that the manual and the completions know: xlock
// itself and all below it but help.
func documented() []*cobra.Command {
	root := newRootCommand()
	return append([]*cobra.Command{root}, root.Commands()...)
}

// flagNames are a command's flags, long and short, sorted.
func flagNames(command *cobra.Command) []string {
	if command.DisableFlagParsing {
		return flockFlagNames()
	}
	command.InitDefaultHelpFlag()
	var names []string
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		names = append(names, "--"+flag.Name)
		if flag.Shorthand != "" {
			names = append(names, "-"+flag.Shorthand)
		}
	})
	slices.Sort(names)
	return names
}

// flockFlagNames: -c stands behind the file, and -? is the name of a mistake.
func flockFlagNames() []string {
	line, names := newFlockGetopt(nil), []string{"-c", "--command"}
	for _, letter := range strings.Trim(line.letters, "?") {
		if letter != ':' {
			names = append(names, "-"+string(letter))
		}
	}
	for _, option := range line.long {
		names = append(names, "--"+option.name)
	}
	slices.Sort(names)
	return names
}
