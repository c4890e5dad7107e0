package lock_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"xlock/internal/lock"
	"xlock/internal/testenv"
)

// TestBunImages: a program takes the lock in its own process, through this
// package as a C library, and bun --watch replaces it in the middle of the
// hold, again and again.
func TestBunImages(t *testing.T) {
	testenv.Need(t, "bun", "gcc")
	env := []string{"LIBRARY=" + buildLibrary(t), "LOCK=" + filepath.Join(t.TempDir(), "lock")}
	w := bunWatch(t, ffiSources(t, "image.js", "lock.js"), env)
	w.start()
	pid, generation := w.report()
	for range lock.Restarts {
		w.change()
		nextPID, next := w.report()
		if next != generation+1 || nextPID != pid {
			t.Fatalf("pid %d has generation %d after pid %d had %d; want the next, and the same pid",
				nextPID, next, pid, generation)
		}
		generation = next
	}
}

// TestBunThreads: the main thread, a worker thread, and a second copy of the
// library (a second Go runtime, with memory of its own) are one process with
// one table of descriptors. None displaces another's hold, and each takes over
// at once what another held in the image before.
func TestBunThreads(t *testing.T) {
	testenv.Need(t, "bun", "gcc")
	p := startThreads(t)
	threads := []string{"main", "worker", "copy"}
	generation := 0
	for _, holder := range threads {
		generation++
		p.call(holder, "take", generation)
		before := p.record()
		for _, taker := range threads { // the holder too
			p.call(taker, "take", deadlock)
		}
		if after := p.record(); after != before {
			t.Errorf("%s held\n%sand then\n%s", holder, before, after)
		}
		p.call(holder, "release", 0)
	}
	for _, holder := range threads {
		generation++
		p.call(holder, "take", generation)
		p.change()
		p.report()
	}
}

// deadlock is what the library says of a lock that this very process holds.
const deadlock = -78

// threads is a running threads.js.
type threads struct {
	*watched
	lock  string
	stdin io.Writer
}

func startThreads(t *testing.T) *threads {
	t.Helper()
	library := buildLibrary(t)
	text, err := os.ReadFile(library)
	if err != nil {
		t.Fatal(err)
	}
	second := filepath.Join(t.TempDir(), "copy.so")
	if err := os.WriteFile(second, text, 0o755); err != nil {
		t.Fatal(err)
	}
	p := &threads{lock: filepath.Join(t.TempDir(), "lock")}
	p.watched = bunWatch(t, ffiSources(t, "threads.js", "lock.js"),
		[]string{"LIBRARY=" + library, "LIBRARY_COPY=" + second, "LOCK=" + p.lock})
	p.stdin, err = p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.start()
	p.report()
	return p
}

// call has one of the threads call the library.
func (p *threads) call(thread, function string, want int) {
	p.t.Helper()
	fmt.Fprintln(p.stdin, thread, function)
	if _, got := p.report(); got != want {
		p.t.Errorf("%s %s: %d, want %d", thread, function, got, want)
	}
}

func (p *threads) record() string {
	p.t.Helper()
	text, err := os.ReadFile(p.lock)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(text)
}

func buildLibrary(t *testing.T) string {
	t.Helper()
	t.Setenv("CGO_ENABLED", "1")
	return goBuild(t, "lock.so", "-buildmode=c-shared", "./testdata/ffi")
}
