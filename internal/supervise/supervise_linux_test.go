package supervise_test

import (
	"os/exec"
	"slices"
	"testing"

	"xlock/internal/testenv"
)

// What was ignored when the supervisor started (by nohup(1), or for a
// background job of a shell without job control) is ignored in the command, and
// nothing else is. That is so for the signals whose state the Go runtime leaves
// to be seen; it resets the others before any code of ours runs (docs/design.md).
func TestIgnoredSignalsStayIgnored(t *testing.T) {
	testenv.Need(t, "grep")
	ask := []string{"grep", "SigIgn", "/proc/self/status"}
	for _, ignored := range []string{"HUP", "INT", "TSTP"} {
		t.Run(ignored, func(t *testing.T) {
			ignore := []string{"sh", "-c", "trap '' " + ignored + `; exec "$0" "$@"`}
			line := slices.Concat(ignore, ask)
			want := output(t, exec.CommandContext(t.Context(), line[0], line[1:]...))
			if got := output(t, again(t, "exec", ignore, ask...)); got != want {
				t.Errorf("Exec: %q, want %q", got, want)
			}
			want += "\nbegan true, code 0"
			if got := output(t, again(t, "run", ignore, ask...)); got != want {
				t.Errorf("Run: %q, want %q", got, want)
			}
		})
	}
}
