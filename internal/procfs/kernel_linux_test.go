package procfs_test

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"xlock/internal/procfs"
)

// TestStatOfThisKernel gives a thread each ugly name in turn and reads it back
// through the kernel.
func TestStatOfThisKernel(t *testing.T) {
	runtime.LockOSThread() // for good, so that the named thread ends with the test
	for _, comm := range uglyNames {
		if err := os.WriteFile("/proc/thread-self/comm", []byte(comm), 0); err != nil {
			t.Fatal(err)
		}
		got, err := procfs.ParseStat(read(t, "/proc/thread-self/stat"))
		want := procfs.Stat{PID: unix.Gettid(), Comm: comm, State: 'R', PPID: os.Getppid(), Start: got.Start}
		if err != nil || got != want {
			t.Errorf("%q: got %+v, %v; want %+v", comm, got, err, want)
		}
		status, err := procfs.ParseStatus(read(t, "/proc/thread-self/status"))
		if err != nil || status.TGID != os.Getpid() || len(status.NSPIDs) == 0 {
			t.Errorf("%q: got %+v, %v; want the process %d", comm, status, err, os.Getpid())
		}
	}
}

// TestLocksOfThisKernel finds a lock of its own in each text.
func TestLocksOfThisKernel(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/lock")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := int(f.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(fd, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	info := procfs.ParseFDInfo(read(t, fmt.Sprintf("/proc/self/fdinfo/%d", fd)))
	mount, ok := procfs.ParseMountInfo(read(t, "/proc/self/mountinfo"), info.MountID)
	want := procfs.Lock{Class: "FLOCK", Write: true, PID: os.Getpid(), Device: mount.Device, Inode: st.Ino}
	if !ok || len(info.Locks) != 1 || info.Locks[0] != want {
		t.Errorf("fdinfo: got %+v, want %+v", info, want)
	}
	if all := procfs.ParseLocks(read(t, "/proc/locks")); !slices.Contains(all, want) {
		t.Errorf("/proc/locks: got %+v without %+v", all, want)
	}
}

func TestNamespaceOfThisKernel(t *testing.T) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &st); err != nil {
		t.Fatal(err)
	}
	link, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	if id, err := procfs.NamespaceID(link); err != nil || id != fmt.Sprint(st.Ino) {
		t.Errorf("got %q, %v; want %d", id, err, st.Ino)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
