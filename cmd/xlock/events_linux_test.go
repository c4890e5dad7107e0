package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A descriptor of the Go runtime's own, which is open for reading and writing,
// is nobody's to write to.
func TestStatusFDIsTheCallers(t *testing.T) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	check(t, err)
	defer unix.Close(epoll)
	if err := checkWritable(epoll); err == nil {
		t.Error("an epoll descriptor is said to be writable")
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	check(t, err)
	defer null.Close()
	if err := checkWritable(int(null.Fd())); err != nil {
		t.Error(err)
	}
}

// A program that reads the events learns of a new holder too.
func TestWaitingEventOfANewHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	file, err := os.Create(path)
	check(t, err)
	n := newNotices("l", silent{}, &events{file: file})
	n.sent, n.looked = holderNamed("first", 1), true
	w := wait{Holder: holderNamed("second", 2)}
	n.tell(w)
	n.tell(w)
	check(t, file.Close())
	text, err := os.ReadFile(path)
	check(t, err)
	if got := string(text); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"label":"second"`) {
		t.Errorf("%s", got)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
