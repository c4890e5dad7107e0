package lock

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"xlock/internal/fdprobe"
)

// Restarts is how often the tests replace a program under one PID: as often as
// was counted on the server whose refusals led to the rule.
const Restarts = 127

// TestImages: a program takes the lock and replaces itself by execve(2) in the
// middle of its work, again and again. Each image takes over at once what the
// one before it left, as that one's descriptor is gone. Without that question
// a record that matches a living process is held, and every image after the
// first is refused.
func TestImages(t *testing.T) {
	for _, tc := range []struct {
		name, probe string
		want        func(image int, path string) string
	}{
		{"with the probe", "on", func(image int, _ string) string {
			return fmt.Sprintf("generation %d", image+1)
		}},
		{"without the probe", "off", func(image int, path string) string {
			if image == 0 {
				return "generation 1"
			}
			return path + ": would wait for itself (owner descriptor-open)"
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "lock")
			pid, reports := runImages(t, path, tc.probe)
			if len(reports) != 1+Restarts {
				t.Fatalf("%d images reported, want %d", len(reports), 1+Restarts)
			}
			for image, got := range reports {
				if want := fmt.Sprintf("pid %d: %s", pid, tc.want(image, path)); got != want {
					t.Fatalf("image %d: %s\nwant %s", image, got, want)
				}
			}
		})
	}
}

// runImages runs [RoleImage] and gives its process number and what each of its
// images reported.
func runImages(t *testing.T, path, probe string) (pid int, reports []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", "XLOCK_TEST_ROLE=image",
		"TEST_LOCK="+path, "TEST_PROBE="+probe, "TEST_RESTARTS="+strconv.Itoa(Restarts))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return cmd.Process.Pid, strings.Split(strings.TrimSpace(string(out)), "\n")
}

// RoleImage is one image. It takes the lock, reports, and replaces itself
// without a release.
func RoleImage() int {
	t := &taker{
		path:  os.Getenv("TEST_LOCK"),
		opts:  Options{Mode: Process, NoWait: true},
		scene: newScene,
	}
	if os.Getenv("TEST_PROBE") == "off" {
		t.scene = unprobedScene
	}
	held, err := t.take(context.Background())
	if err != nil {
		fmt.Printf("pid %d: %v\n", os.Getpid(), err)
	} else {
		fmt.Printf("pid %d: generation %d\n", os.Getpid(), held.Generation())
	}
	left, _ := strconv.Atoi(os.Getenv("TEST_RESTARTS"))
	if left == 0 {
		return 0
	}
	os.Setenv("TEST_RESTARTS", strconv.Itoa(left-1))
	err = syscall.Exec(os.Args[0], os.Args, os.Environ())
	fmt.Println(err)
	runtime.KeepAlive(held)
	return 1
}

// unprobedScene is a scene without the rule: a record that matches this living
// process is held, whatever its descriptors.
func unprobedScene(f *os.File) (scene, error) {
	s, err := newScene(f)
	s.probe = func() (fdprobe.Answer, error) { return fdprobe.Open, nil }
	return s, err
}
