// Package testenv says what the machine offers to the tests.
//
// A test that needs a tool calls [Need] first. Where the tool is missing the
// test is left out, and named with the reason at the end of 'make test'. In
// strict mode (XLOCK_TEST_STRICT=1, which .ci/run sets) it fails instead, so
// that no test can be left out unnoticed.
package testenv

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// Strict reports whether a missing tool is a failure.
func Strict() bool { return os.Getenv("XLOCK_TEST_STRICT") == "1" }

// Need leaves the test out, or in strict mode fails it, unless the machine has
// everything named: a program on PATH, "bun" (which 'make test' puts into
// .tools), or "root".
func Need(t testing.TB, needs ...string) {
	t.Helper()
	for _, need := range needs {
		if why := Missing(need); why != "" {
			LeaveOut(t, why)
		}
	}
}

// LeaveOut leaves the test out, or in strict mode fails it.
func LeaveOut(t testing.TB, why string) {
	t.Helper()
	if Strict() {
		t.Fatalf("%s, and strict mode leaves no test out", why)
	}
	t.Skip("left out: " + why)
}

// Missing says why a need is not met, and is empty if it is.
func Missing(need string) string {
	switch need {
	case "root":
		if os.Geteuid() != 0 {
			return "it must run as root"
		}
		return ""
	case "unshare":
		// Root of a plain container has the program, but not the right.
		if err := exec.Command("unshare", "--mount", "true").Run(); err != nil && os.Geteuid() == 0 {
			return "unshare does not work here"
		}
	}
	if _, err := exec.LookPath(Tool(need)); err != nil {
		return fmt.Sprintf("there is no %s", need)
	}
	return ""
}

// Tool is how to call a program: its path below .tools if it is there, else
// its name.
func Tool(name string) string {
	path := filepath.Join(Root(), ".tools", "bin", name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	return name
}

// Root is the top of the source tree.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}
