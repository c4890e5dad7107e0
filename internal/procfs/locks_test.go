package procfs_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"xlock/internal/procfs"
)

// root is a device as mountinfo ("254:0") and /proc/locks ("fe:00") have it.
var root = procfs.Device{Major: 254, Minor: 0}

func TestParseLocks(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want []procfs.Lock
	}{
		"holder": {
			"1: FLOCK  ADVISORY  WRITE 4568 fe:00:9986053 0 EOF\n",
			[]procfs.Lock{{Class: "FLOCK", Write: true, PID: 4568, Device: root, Inode: 9986053}},
		},
		"waiters in their order": {
			"1: FLOCK  ADVISORY  WRITE 4568 fe:00:9986053 0 EOF\n" +
				"1: -> FLOCK  ADVISORY  WRITE 4570 fe:00:9986053 0 EOF\n" +
				"1:  -> FLOCK  ADVISORY  READ  4569 fe:00:9986053 0 EOF\n",
			[]procfs.Lock{
				{Class: "FLOCK", Write: true, PID: 4568, Device: root, Inode: 9986053},
				{Class: "FLOCK", Write: true, Waiting: true, PID: 4570, Device: root, Inode: 9986053},
				{Class: "FLOCK", Waiting: true, PID: 4569, Device: root, Inode: 9986053},
			},
		},
		"an OFD lock has no process": {
			"12: OFDLCK ADVISORY  READ  -1 00:1f:42 0 EOF\n",
			[]procfs.Lock{{Class: "OFDLCK", PID: -1, Device: procfs.Device{Minor: 0x1f}, Inode: 42}},
		},
		"a POSIX lock of a range": {
			"3: POSIX  ADVISORY  WRITE 55 08:01:7 100 199\n",
			[]procfs.Lock{{Class: "POSIX", Write: true, PID: 55, Device: procfs.Device{Major: 8, Minor: 1}, Inode: 7, Start: 100, Len: 100}},
		},
		"one byte": {
			"3: OFDLCK ADVISORY  WRITE -1 fe:00:7 4611686018427387904 4611686018427387904\n",
			[]procfs.Lock{{Class: "OFDLCK", Write: true, PID: -1, Device: root, Inode: 7, Start: 1 << 62, Len: 1}},
		},
		"a range to the end": {
			"3: POSIX  ADVISORY  READ 55 fe:00:7 100 EOF\n",
			[]procfs.Lock{{Class: "POSIX", PID: 55, Device: root, Inode: 7, Start: 100}},
		},
		"ranges that make no sense are the whole file": {
			"3: POSIX  ADVISORY  READ 55 fe:00:7 -1 5\n3: POSIX  ADVISORY  READ 55 fe:00:7 x 5\n3: POSIX  ADVISORY  READ 55 fe:00:7\n",
			[]procfs.Lock{
				{Class: "POSIX", PID: 55, Device: root, Inode: 7},
				{Class: "POSIX", PID: 55, Device: root, Inode: 7},
				{Class: "POSIX", PID: 55, Device: root, Inode: 7},
			},
		},
		"a range that ends before it begins": {
			"3: POSIX  ADVISORY  READ 55 fe:00:7 9 5\n",
			[]procfs.Lock{{Class: "POSIX", PID: 55, Device: root, Inode: 7, Start: 9}},
		},
		"a lease": {
			"4: LEASE  ACTIVE    READ  56 08:01:8 0 EOF\n",
			[]procfs.Lock{{Class: "LEASE", PID: 56, Device: procfs.Device{Major: 8, Minor: 1}, Inode: 8}},
		},
		"wide numbers": {
			"99999999999: FLOCK  ADVISORY  WRITE 4194304 ffffffff:fffff:18446744073709551615 0 EOF",
			[]procfs.Lock{{
				Class: "FLOCK", Write: true, PID: 4194304,
				Device: procfs.Device{Major: 0xffffffff, Minor: 0xfffff}, Inode: 18446744073709551615,
			}},
		},
		"good lines among junk": {
			strings.Join(junkLocks, "\n") + "\n3: FLOCK  ADVISORY  WRITE 55 fe:00:7 0 EOF\n" + strings.Join(junkLocks, "\n"),
			[]procfs.Lock{{Class: "FLOCK", Write: true, PID: 55, Device: root, Inode: 7}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := procfs.ParseLocks(test.text); !slices.Equal(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// junkLocks are lines that name no lock on a file.
var junkLocks = []string{
	"",
	" ",
	"\x00\xff",
	":",
	"1:",
	"1: ->",
	"1: -> ->",
	"1 FLOCK  ADVISORY  WRITE 55 fe:00:7 0 EOF",
	"FLOCK  ADVISORY  WRITE 55 fe:00:7 0 EOF",
	"1: FLOCK  ADVISORY  WRITE",
	"1: FLOCK  ADVISORY  WRITE 55",
	"1: POSIX  *NOINODE* WRITE 55 <none>:0 0 EOF",
	"1: FLOCK  ADVISORY  WRITE pid fe:00:7 0 EOF",
	"1: FLOCK  ADVISORY  WRITE 9223372036854775808 fe:00:7 0 EOF",
	"1: FLOCK  ADVISORY  WRITE 55 fe:00 0 EOF",
	"1: FLOCK  ADVISORY  WRITE 55 fe:00:7:8 0 EOF",
	"1: FLOCK  ADVISORY  WRITE 55 fe:00: 0 EOF",
	"1: FLOCK  ADVISORY  WRITE 55 xx:00:7 0 EOF",
	"1: FLOCK  ADVISORY  WRITE 55 fe:xx:7 0 EOF",
	"1: FLOCK  ADVISORY  WRITE 55 fe:00:7f 0 EOF",
	"1: FLOCK  ADVISORY  WRITE 55 100000000:00:7 0 EOF",
	"1: FLOCK  ADVISORY  WRITE 55 fe:00:18446744073709551616 0 EOF",
	"1: FLOCK  ADVISORY  WRITE 55 fe:00:-7 0 EOF",
}

func TestParseLocksJunk(t *testing.T) {
	for _, line := range junkLocks {
		t.Run(line, func(t *testing.T) {
			if got := procfs.ParseLocks(line); len(got) != 0 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// lockLine writes a lock as the kernel does.
func lockLine(l procfs.Lock) string {
	waiting, kind := "", "READ "
	if l.Waiting {
		waiting = "-> "
	}
	if l.Write {
		kind = "WRITE"
	}
	last := "EOF"
	if l.Len > 0 {
		last = fmt.Sprint(l.Start + l.Len - 1)
	}
	return fmt.Sprintf("1: %s%s  ADVISORY  %s %d %02x:%02x:%d %d %s\n",
		waiting, l.Class, kind, l.PID, l.Device.Major, l.Device.Minor, l.Inode, l.Start, last)
}

// FuzzParseLocks puts a lock between two arbitrary texts, which may neither
// hide nor change it nor be changed by it.
func FuzzParseLocks(f *testing.F) {
	for i, line := range junkLocks {
		f.Add(line, line, i-1, uint32(254), uint32(i), uint64(i), i%2 == 0, i%3 == 0)
	}
	f.Fuzz(func(t *testing.T, before, after string, pid int, major, minor uint32, inode uint64, write, waiting bool) {
		want := procfs.Lock{
			Class: "FLOCK", Write: write, Waiting: waiting,
			PID: pid, Device: procfs.Device{Major: major, Minor: minor}, Inode: inode,
		}
		before += "\n"
		all := slices.Concat(procfs.ParseLocks(before), []procfs.Lock{want}, procfs.ParseLocks(after))
		if got := procfs.ParseLocks(before + lockLine(want) + after); !slices.Equal(got, all) {
			t.Errorf("got %+v, want %+v", got, all)
		}
		for _, l := range all {
			if got := procfs.ParseLocks(lockLine(l)); !slices.Equal(got, []procfs.Lock{l}) {
				t.Errorf("got %+v, want %+v", got, l)
			}
		}
	})
}

func TestParseFDInfo(t *testing.T) {
	flock := procfs.Lock{Class: "FLOCK", Write: true, PID: 23169, Device: root, Inode: 9980253}
	ofd := procfs.Lock{Class: "OFDLCK", PID: -1, Device: root, Inode: 9980253}
	for name, test := range map[string]struct {
		text string
		want procfs.FDInfo
	}{
		"no lock": {"pos:\t0\nflags:\t0100001\nmnt_id:\t27\nino:\t9980253\n", procfs.FDInfo{MountID: 27}},
		"a lock": {
			"pos:\t0\nflags:\t0100001\nmnt_id:\t27\nino:\t9980253\n" +
				"lock:\t1: FLOCK  ADVISORY  WRITE 23169 fe:00:9980253 0 EOF\n",
			procfs.FDInfo{MountID: 27, Locks: []procfs.Lock{flock}},
		},
		"two locks": {
			"mnt_id:\t27\nlock:\t1: FLOCK  ADVISORY  WRITE 23169 fe:00:9980253 0 EOF\n" +
				"lock:\t2: OFDLCK ADVISORY  READ  -1 fe:00:9980253 0 EOF",
			procfs.FDInfo{MountID: 27, Locks: []procfs.Lock{flock, ofd}},
		},
		"empty":                   {"", procfs.FDInfo{MountID: -1}},
		"a mount that is none":    {"mnt_id:\tnone\n", procfs.FDInfo{MountID: -1}},
		"a huge mount":            {"mnt_id:\t9223372036854775808\n", procfs.FDInfo{MountID: -1}},
		"no mount":                {"mnt_id:\n", procfs.FDInfo{MountID: -1}},
		"a lock without its word": {"1: FLOCK  ADVISORY  WRITE 23169 fe:00:9980253 0 EOF\n", procfs.FDInfo{MountID: -1}},
		"junk": {
			"\x00\xff\n:\nmnt_id\nmnt_idx:\t3\nlock:\nlock:\tx\nlocks:\t1: FLOCK  ADVISORY  WRITE 5 fe:00:7 0 EOF\nmnt_id:\t0\n",
			procfs.FDInfo{MountID: 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := procfs.ParseFDInfo(test.text); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// FuzzParseFDInfo: the "lock:" lines are those of /proc/locks, in whatever text
// they stand.
func FuzzParseFDInfo(f *testing.F) {
	for i, line := range junkLocks {
		f.Add("pos:\t0", line, i)
	}
	f.Add("mnt_id:\t3", "1: -> FLOCK  ADVISORY  WRITE 5 fe:00:7 0 EOF", 27)
	f.Fuzz(func(t *testing.T, junk, lock string, mount int) {
		lock = strings.ReplaceAll(lock, "\n", " ")
		junk += "\n"
		info := fmt.Sprintf("mnt_id:\t%d\nlock:\t%s\n", mount, lock)
		got := procfs.ParseFDInfo(junk + info)
		want := slices.Concat(procfs.ParseFDInfo(junk).Locks, procfs.ParseLocks(lock))
		if got.MountID != mount || !slices.Equal(got.Locks, want) {
			t.Errorf("got %+v, want mount %d and %+v", got, mount, want)
		}
	})
}

const mountInfo = `22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw
227 27 0:44 /a\040b\012270\0403\0400:99 /mnt/a\040b rw - btrfs /dev/sdb rw

x 1 8:1 / /junk rw - ext4 /dev/x rw
30
31 27
32 27 254 / /no/minor rw - x x rw
33 27 254:x / /bad/minor rw - x x rw
34 27 :0 / /no/major rw - x x rw
35 27 4294967296:0 / /huge/major rw - x x rw
36 27 fe:00 / /hexadecimal rw - x x rw
37 27 1:2:3 / /three rw - x x rw
38 27 0:45 / /a-b rw shared:1 master:2 - fuse.sshfs me@host:/ rw
39 27 0:46 / /cut rw - 
2147483647 27 4294967295:1048575 / /wide rw - x x rw`

func TestParseMountInfo(t *testing.T) {
	for id, want := range map[int]procfs.Mount{
		22:         {Device: procfs.Device{Minor: 21}, Type: "proc"},
		27:         {Device: root, Type: "ext4"},
		227:        {Device: procfs.Device{Minor: 44}, Type: "btrfs"},
		38:         {Device: procfs.Device{Minor: 45}, Type: "fuse.sshfs"},
		39:         {Device: procfs.Device{Minor: 46}},
		2147483647: {Device: procfs.Device{Major: 4294967295, Minor: 1048575}, Type: "x"},
	} {
		if got, ok := procfs.ParseMountInfo(mountInfo, id); !ok || got != want {
			t.Errorf("mount %d: got %+v, %v; want %+v", id, got, ok, want)
		}
	}
	for _, id := range []int{-1, 0, 1, 2, 7, 270, 30, 31, 32, 33, 34, 35, 36, 37} {
		if got, ok := procfs.ParseMountInfo(mountInfo, id); ok {
			t.Errorf("mount %d: got %+v, want none", id, got)
		}
	}
}

func FuzzParseMountInfo(f *testing.F) {
	f.Add(mountInfo, uint16(26), "/mnt", uint32(254), uint32(0))
	f.Add("27", uint16(27), " 1 8:1", uint32(0), uint32(44))
	f.Fuzz(func(t *testing.T, junk string, id uint16, path string, major, minor uint32) {
		line := fmt.Sprintf("%d 1 %d:%d / %q rw - ext4 /dev/root rw\n", id, major, minor, path)
		want := procfs.Mount{Device: procfs.Device{Major: major, Minor: minor}, Type: "ext4"}
		if got, ok := procfs.ParseMountInfo(line+junk, int(id)); !ok || got != want {
			t.Errorf("got %+v, %v; want %+v", got, ok, want)
		}
		other := int(id) + 1<<16
		before, found := procfs.ParseMountInfo(junk, other)
		if got, ok := procfs.ParseMountInfo(line+junk, other); ok != found || got != before {
			t.Errorf("the line of mount %d answers for mount %d: %+v, %v", id, other, got, ok)
		}
	})
}
