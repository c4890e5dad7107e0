package procfs_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"xlock/internal/procfs"
)

// statOf is the text of /proc/PID/stat as Linux 6.18 writes it.
func statOf(pid int, comm string, state byte, ppid int, start string) string {
	return fmt.Sprintf("%d (%s) %c %d 23125 14153 0 -1 4194304 97 0 0 0 0 0 0 0 20 0 1 0 %s"+
		" 3133440 363 18446744073709551615 94200143609856 94200143629737 140727423920384 0 0 0 0 0 0"+
		" 0 0 0 17 1 0 0 0 0 0 94200143645744 94200143647360 94201137688576 140727423929018"+
		" 140727423929038 140727423929038 140727423930347 0\n", pid, comm, state, ppid, start)
}

// uglyNames are names that prctl(2) PR_SET_NAME takes: at most 15 bytes, and
// any but NUL.
var uglyNames = []string{
	"cat",
	"",
	" ",
	"(",
	")",
	"()",
	"((()))))",
	"a) S 1 2 (b",
	") Z 1 1 1 1 1 1",
	"a\nb",
	"\n\n\n",
	"a b\tc\vd\fe\rf",
	strings.Repeat("é", 8)[:15], // cut in the middle of a character
	"\xff\xfe\x80\x01",
	"\u00a0\u2003\u2028",
	"%s%n%d",
}

func TestParseStat(t *testing.T) {
	const greatest = "18446744073709551615"
	for _, comm := range uglyNames {
		t.Run(fmt.Sprintf("%q", comm), func(t *testing.T) {
			want := procfs.Stat{PID: 4194304, Comm: comm, State: 'S', PPID: 1, Start: greatest}
			got, err := procfs.ParseStat(statOf(4194304, comm, 'S', 1, greatest))
			if err != nil || got != want {
				t.Errorf("got %+v, %v; want %+v", got, err, want)
			}
		})
	}
}

func TestParseStatMalformed(t *testing.T) {
	const huge = "18446744073709551616" // one more than 64 bits hold
	good := statOf(7, "cat", 'S', 1, "341468")
	edit := func(from, to string) string { return strings.Replace(good, from, to, 1) }
	for name, text := range map[string]string{
		"empty":                   "",
		"newline":                 "\n",
		"NUL bytes":               strings.Repeat("\x00", 512),
		"no name":                 edit("(cat)", "cat"),
		"name not closed":         edit(")", ""),
		"name not opened":         edit("(", ""),
		"parentheses swapped":     edit("(cat)", ")cat("),
		"closed before opened":    edit("(cat)", ")") + "(",
		"no number":               edit("7 ", ""),
		"two numbers":             edit("7 ", "7 7 "),
		"huge number":             edit("7 ", huge+" "),
		"number in hexadecimal":   edit("7 ", "0x7 "),
		"state of two letters":    edit(" S ", " SS "),
		"parent is no number":     edit("S 1 ", "S one "),
		"huge parent":             edit("S 1 ", "S "+huge+" "),
		"start is no number":      edit("341468", "now"),
		"start is negative":       edit("341468", "-341468"),
		"start is huge":           edit("341468", huge),
		"start has a fraction":    edit("341468", "3414.68"),
		"ends behind the name":    good[:strings.IndexByte(good, ')')+1],
		"ends before the start":   good[:strings.Index(good, "341468")],
		"ends within the start":   good[:strings.Index(good, "468")],
		"ends with the start":     strings.TrimSpace(good[:strings.Index(good, "3133440")]),
		"second name at the end":  good + ")",
		"start in another script": edit("341468", "٣٤١٤٦٨"),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := procfs.ParseStat(text)
			wantMalformed(t, err)
			if got != (procfs.Stat{}) {
				t.Errorf("got %+v along with the error", got)
			}
		})
	}
}

func wantMalformed(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, procfs.ErrMalformed) {
		t.Errorf("error %v, want one that wraps ErrMalformed", err)
	}
	if err != nil && len(err.Error()) > 1000 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

// The error goes into a message of one line, whatever the text.
func TestMalformedErrorIsBounded(t *testing.T) {
	_, err := procfs.ParseStat(strings.Repeat("\x00", 1<<20))
	wantMalformed(t, err)
}

func TestEnded(t *testing.T) {
	for _, state := range []byte("RSDTtIPKWZXx") {
		want := strings.IndexByte("ZXx", state) >= 0
		if got := (procfs.Stat{State: state}).Ended(); got != want {
			t.Errorf("Ended in state %c is %v", state, got)
		}
	}
}

// FuzzParseStat builds a text around any name, which must not move what stands
// behind it, and cuts the text short, which must not yield another start.
func FuzzParseStat(f *testing.F) {
	for i, comm := range uglyNames {
		f.Add(comm, i, 1, uint64(341468), uint(i*10))
	}
	f.Fuzz(func(t *testing.T, comm string, pid, ppid int, start uint64, cut uint) {
		const longest = 15 // TASK_COMM_LEN - 1
		comm = comm[:min(len(comm), longest)]
		text := statOf(pid, comm, 'S', ppid, fmt.Sprint(start))
		want := procfs.Stat{PID: pid, Comm: comm, State: 'S', PPID: ppid, Start: fmt.Sprint(start)}
		if got, err := procfs.ParseStat(text); err != nil || got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
		switch got, err := procfs.ParseStat(text[:cut%uint(len(text))]); {
		case err != nil:
			wantMalformed(t, err)
		case got != want:
			t.Errorf("cut short: got %+v, want %+v or an error", got, want)
		}
		if _, err := procfs.ParseStat(comm); err == nil {
			t.Errorf("%q is too short for a stat", comm)
		}
	})
}

const statusText = "Name:\tcat\nUmask:\t0022\nState:\tR (running)\nTgid:\t23162\nNgid:\t0\nPid:\t23163\n" +
	"PPid:\t23125\nUid:\t1000\t0\t1000\t0\nGroups:\t \nNStgid:\t23162\t7\nNSpid:\t23163\t8\nNSpgid:\t23125\t7\nKthread:\t0\n"

func TestParseStatus(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want procfs.Status
	}{
		"nested namespace":      {statusText, procfs.Status{TGID: 23162, NSPIDs: []int{23163, 8}, UIDs: []int{1000, 0, 1000, 0}}},
		"one namespace":         {"Tgid:\t5\nNSpid:\t5\n", procfs.Status{TGID: 5, NSPIDs: []int{5}}},
		"no newline at the end": {"Tgid:\t5\nNSpid:\t5", procfs.Status{TGID: 5, NSPIDs: []int{5}}},
		"before Linux 4.1":      {"Tgid:\t5\nPid:\t5\n", procfs.Status{TGID: 5}},
		"empty NSpid":           {"Tgid:\t5\nNSpid:\t\n", procfs.Status{TGID: 5}},
		"empty":                 {"", procfs.Status{}},
		"junk":                  {"\x00\xff\n:\n::\nTgid 7\ntgid:\t8\n Tgid:\t9\n", procfs.Status{}},
		"a name like a field":   {"Name:\tTgid: 7\nTgid:\t5\n", procfs.Status{TGID: 5}},
		"an escaped newline":    {"Name:\ta\\nTgid:\t7\nTgid:\t5\n", procfs.Status{TGID: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := procfs.ParseStatus(test.text)
			if err != nil || !equalStatus(got, test.want) {
				t.Errorf("got %+v, %v; want %+v", got, err, test.want)
			}
		})
	}
}

func equalStatus(a, b procfs.Status) bool {
	return a.TGID == b.TGID && slices.Equal(a.NSPIDs, b.NSPIDs) && slices.Equal(a.UIDs, b.UIDs)
}

func TestParseStatusMalformed(t *testing.T) {
	for _, line := range []string{
		"Tgid:",
		"Tgid:\tseven",
		"Tgid:\t7 8",
		"Tgid:\t9223372036854775808",
		"NSpid:\t7\tx",
		"Uid:\t0\troot",
		"NSpid:\t7,8",
		"NSpid:\t9223372036854775808",
	} {
		t.Run(line, func(t *testing.T) {
			// Good lines before and behind must not hide the bad one.
			got, err := procfs.ParseStatus(statusText + line + "\n" + statusText)
			wantMalformed(t, err)
			if !equalStatus(got, procfs.Status{}) {
				t.Errorf("got %+v along with the error", got)
			}
		})
	}
}

func FuzzParseStatus(f *testing.F) {
	for _, comm := range uglyNames {
		f.Add(comm, 23162, 23163, 8, "VmPeak:\t3060 kB")
	}
	f.Add("cat", 1, 1, 1, "Tgid:\tseven")
	f.Fuzz(func(t *testing.T, comm string, tgid, outer, inner int, junk string) {
		// The kernel escapes newlines in the name.
		text := "Name:\t" + strings.ReplaceAll(comm, "\n", `\n`) +
			fmt.Sprintf("\nTgid:\t%d\nNSpid:\t%d\t%d\n", tgid, outer, inner)
		want := procfs.Status{TGID: tgid, NSPIDs: []int{outer, inner}}
		if got, err := procfs.ParseStatus(text); err != nil || !equalStatus(got, want) {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
		got, err := procfs.ParseStatus(text + junk)
		switch named := strings.Contains(junk, "Tgid") || strings.Contains(junk, "NSpid") || strings.Contains(junk, "Uid"); {
		case err != nil:
			wantMalformed(t, err)
			if !named {
				t.Errorf("%q is no reason for %v", junk, err)
			}
		case !named && !equalStatus(got, want):
			t.Errorf("with %q: got %+v, want %+v", junk, got, want)
		}
	})
}

func TestNamespaceID(t *testing.T) {
	for link, want := range map[string]string{
		"pid:[4026531836]":           "4026531836",
		"time:[4026531834]":          "4026531834",
		"pid:[0]":                    "0",
		"pid:[18446744073709551615]": "18446744073709551615",
		"":                           "",
		"pid":                        "",
		"pid:[":                      "",
		"pid:[]":                     "",
		"pid:[4026531836":            "",
		"pid:4026531836":             "",
		"[4026531836]":               "",
		"pid:[4026531836] ":          "",
		"pid:[4026531836]\n":         "",
		"pid:[4026531836] (deleted)": "",
		"pid:[4026531836]]":          "",
		"pid:[ 4026531836]":          "",
		"pid:[-1]":                   "",
		"pid:[+1]":                   "",
		"pid:[0x1f]":                 "",
		"pid:[18446744073709551616]": "",
		"pid:[pid:[4026531836]]":     "",
		"/proc/1/ns/pid":             "",
	} {
		t.Run(link, func(t *testing.T) {
			got, err := procfs.NamespaceID(link)
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if want == "" {
				wantMalformed(t, err)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

func FuzzNamespaceID(f *testing.F) {
	f.Add("pid", uint64(4026531836), "pid:[4026531836]")
	f.Add("", uint64(0), "pid:[]")
	f.Add("a:[b", uint64(1), ":[1]:[2]")
	f.Fuzz(func(t *testing.T, kind string, inode uint64, link string) {
		kind = strings.ReplaceAll(kind, ":[", "")
		want := fmt.Sprint(inode)
		if got, err := procfs.NamespaceID(kind + ":[" + want + "]"); err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
		id, err := procfs.NamespaceID(link)
		if err != nil {
			wantMalformed(t, err)
			return
		}
		if !strings.HasSuffix(link, ":["+id+"]") || strings.Trim(id, "0123456789") != "" || id == "" {
			t.Errorf("%q out of %q", id, link)
		}
	})
}

// FuzzCommandLine: words that hold no NUL come out as they were.
func FuzzCommandLine(f *testing.F) {
	f.Add("sh", "-c", "")
	f.Add("", "", "a b\n\x00")
	f.Fuzz(func(t *testing.T, a, b, junk string) {
		want := []string{strings.ReplaceAll(a, "\x00", ""), strings.ReplaceAll(b, "\x00", "")}
		if got := procfs.CommandLine(want[0] + "\x00" + want[1] + "\x00"); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		got := procfs.CommandLine(junk) // whose last NUL is missing, if it was cut short
		if text := strings.Join(got, "\x00"); text != junk && text+"\x00" != junk || (got == nil) != (junk == "") {
			t.Errorf("%q gives %q", junk, got)
		}
	})
}

// FuzzControlGroup: what stands before and behind its line changes nothing.
func FuzzControlGroup(f *testing.F) {
	f.Add("1:name=systemd:/", "system.slice/docker-1.scope", "2::/")
	f.Add("", "", "0::/other")
	f.Fuzz(func(t *testing.T, before, path, after string) {
		before = strings.ReplaceAll("\n"+before+"\n", "\n0::", "\n")[1:]
		path = strings.Trim(strings.ReplaceAll(path, "\n", ""), "/")
		if strings.Contains("\n"+before, "\n0::") {
			return
		}
		if got := procfs.ControlGroup(before + "0::/" + path + "\n" + after); got != path {
			t.Errorf("got %q, want %q", got, path)
		}
		if got := procfs.ControlGroup(before); got != "" {
			t.Errorf("got %q where there is none", got)
		}
	})
}
