package main

import (
	"maps"
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

// askers give each shell's answers to TAB at the end of the lines of ./asked: a line
// that begins with "= " for the question, and one for each match. In each shell the
// program deploy has completions of its own.
var askers = map[string]string{
	"bash": `
. /usr/share/bash-completion/bash_completion
. "$COMPLETIONS/xlock.bash"
complete -W 'staging production' deploy
compopt() { :; }
while IFS= read -r line; do
	echo "= $line"
	read -ra COMP_WORDS <<<"$line"
	[[ $line != *' ' ]] || COMP_WORDS+=('')
	COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$line COMP_POINT=${#line} COMPREPLY=()
	_xlock xlock "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
	printf '%s\n' "${COMPREPLY[@]}"
done <asked`,
	"fish": `
source $COMPLETIONS/xlock.fish
complete -c deploy -f -a 'staging production'
while read -l line
    echo "= $line"
    complete -C $line | string replace -r '\t.*' ''
end <asked
true`,
	// A shell that edits lines needs a terminal: zpty makes one. Each line is
	// completed, emptied and entered, so that the next one is a new edit.
	"zsh": `
cat >.zshrc <<'END'
PS1=
setopt no_auto_list no_auto_menu
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
  print -rl -- $_found >>.answer
  return _status
}
asked=("${(@f)$(<asked)}") next=1
ask() {
  (( next > $#asked )) && exit
  print -r -- "= $asked[next]" >>.answer
  BUFFER=$asked[next++] CURSOR=$#BUFFER
  zle complete-word
  BUFFER=
  zle accept-line
}
zle -N zle-line-init ask
END
zmodload zsh/zpty
export ZDOTDIR=$PWD
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
			ask(t, shell, script).check(t)
		})
	}
}

// answers are the words that a shell offers, by the line that they complete.
type answers map[string][]string

// ask asks all questions in one shell.
func ask(t *testing.T, shell, script string) answers {
	dir := completionDir(t)
	cmd := exec.CommandContext(t.Context(), shell, "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TERM=xterm", "LC_ALL=C", "HOME="+dir, "XDG_CONFIG_HOME="+dir,
		"COMPLETIONS="+filepath.Join(testenv.Root(), "completions"), "PATH="+dir+"/bin:"+os.Getenv("PATH"))
	cmd.Stderr = t.Output()
	output, err := cmd.Output()
	check(t, err)
	found, line := answers{}, ""
	for text := range strings.Lines(string(output)) {
		text = strings.TrimSuffix(text, "\n")
		if question, ok := strings.CutPrefix(text, "= "); ok {
			line, found[question] = question, nil
			continue
		}
		found[line] = append(found[line], strings.TrimSpace(text))
	}
	return found
}

// completionDir has a lock file, bin with a program, and the questions.
func completionDir(t *testing.T) string {
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "build.lock"), nil, 0o666))
	check(t, os.Mkdir(filepath.Join(dir, "bin"), 0o777))
	check(t, os.WriteFile(filepath.Join(dir, "bin", "deploy"), []byte("#!/bin/sh\n"), 0o777))
	check(t, os.WriteFile(filepath.Join(dir, "asked"), []byte(strings.Join(questions(), "\n")+"\n"), 0o666))
	return dir
}

// ownFlag asks for an option of the command, where xlock has one that begins alike.
const ownFlag = "xlock run build.lock deploy --no"

func questions() []string {
	lines := append(slices.Sorted(maps.Keys(completed)), ownFlag)
	for _, command := range documented() {
		if !command.HasSubCommands() {
			lines = append(lines, flagLine(command))
		}
	}
	return lines
}

func flagLine(command *cobra.Command) string { return command.CommandPath() + " -" }

func (a answers) check(t *testing.T) {
	for _, line := range questions() {
		if _, ok := a[line]; !ok {
			t.Errorf("the shell was not asked %q", line)
		}
	}
	for _, command := range documented() {
		if !command.HasSubCommands() {
			a.checkFlags(t, command)
		}
	}
	for line, want := range completed {
		for word := range strings.FieldsSeq(want) {
			if !slices.Contains(a[line], word) {
				t.Errorf("%q is completed by %q, without %s", line, a[line], word)
			}
		}
	}
	if slices.Contains(a[ownFlag], "--no-wait") {
		t.Errorf("%q: the command is offered what is xlock's", ownFlag)
	}
}

// checkFlags holds the flags that a shell offers against those that there are.
func (a answers) checkFlags(t *testing.T, command *cobra.Command) {
	var got []string
	for _, word := range a[flagLine(command)] {
		if strings.HasPrefix(word, "-") {
			got = append(got, strings.TrimSuffix(word, "="))
		}
	}
	slices.Sort(got)
	if got, want := slices.Compact(got), flagNames(command); !slices.Equal(got, want) {
		t.Errorf("%q is completed by\n%q, but there are\n%q", flagLine(command), got, want)
	}
}

// completed: these words must be among those that complete a line.
var completed = map[string]string{
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
