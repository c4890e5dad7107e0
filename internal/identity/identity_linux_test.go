package identity_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"xlock/internal/identity"
	"xlock/internal/procfs"
	"xlock/internal/testenv"
)

// Places to run an agent in.
var (
	here          []string
	container     = []string{"unshare", "--pid", "--fork", "--mount-proc"}
	bareContainer = []string{"unshare", "--pid", "--fork"} // /proc is that of the outer namespace
	laterClock    = []string{"unshare", "--time", "--boottime", "5000", "--fork"}
	earlierClock  = []string{"unshare", "--time", "--boottime", "-10", "--fork"}
	withoutPidfd  = []string{"env", denyPidfdEnv + "=1"}
	withoutProc   = mounts(`mount -t tmpfs tmpfs /proc`)
	withoutBootID = mounts(`mount -t proc -o subset=pid proc /proc`)
	// /proc is that of a namespace inside this one, where we have no number.
	withInnerProc = mounts(`unshare --pid --fork mount -t proc proc /proc`)
	// An unprivileged user to whom /proc hides the processes of others. The
	// agent is copied to where that user may reach it.
	hidden = mounts(
		`mount -t proc -o hidepid=2 proc /proc`,
		`mount -t tmpfs tmpfs /mnt`,
		`cp "$1" /mnt/agent`,
		`set -- setpriv --reuid 65534 --regid 65534 --clear-groups /mnt/agent`,
	)
)

// mounts is a place with a mount namespace that the commands prepare.
func mounts(commands ...string) []string {
	script := strings.Join(append(commands, `exec "$@"`), "\n")
	return []string{"unshare", "--mount", "sh", "-ec", script, "sh"}
}

// Commands for mounts.
const (
	anotherBoot = `mount -t tmpfs tmpfs /mnt
		echo 01234567-89ab-cdef-0123-456789abcdef >/mnt/boot_id
		mount --bind /mnt/boot_id /proc/sys/kernel/random/boot_id`
	noMachine = `mount -t tmpfs tmpfs /etc`
)

// machine has /etc/machine-id be text.
func machine(text string) string {
	return noMachine + "\nprintf '" + text + "' >/etc/machine-id"
}

const (
	machineA = "0123456789abcdef0123456789abcdef"
	machineB = "fedcba9876543210fedcba9876543210"
)

// denyPidfdEnv takes pidfd_open(2) from an agent, as a kernel before Linux 5.3
// or a sandbox does.
const denyPidfdEnv = "XLOCK_IDENTITY_DENY_PIDFD"

func init() {
	if os.Getenv(denyPidfdEnv) != "" {
		denyPidfdOpen()
	}
	// leave ends the main thread alone, as pthread_exit(3) does. Another goes
	// on to serve, once the kernel shows that.
	ops["leave"] = func(request) reply {
		go func() {
			for leader().State != 'Z' {
				runtime.Gosched()
			}
			_ = json.NewEncoder(os.Stdout).Encode(reply{})
			serve()
			os.Exit(0)
		}()
		_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
		panic("the main thread lives")
	}
	// end lets the clock tick before the agent ends, so that no later process
	// can have its start.
	ops["end"] = func(request) reply {
		start := leader().Start
		for fmt.Sprint(ticks()) == start {
			runtime.Gosched()
		}
		_ = json.NewEncoder(os.Stdout).Encode(reply{})
		os.Exit(0)
		return reply{}
	}
	// outer is who this process is to the namespace of /proc.
	ops["outer"] = func(request) reply {
		return reply{Process: identity.Process{PID: leader().PID}}
	}
}

// leader is the main thread of this process as /proc shows it.
func leader() procfs.Stat { return statOf("/proc/self/stat") }

func statOf(path string) procfs.Stat {
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	stat, err := procfs.ParseStat(string(text))
	if err != nil {
		panic(err)
	}
	return stat
}

// ticks is the clock of field 22 of /proc/PID/stat (proc_pid_stat(5)).
func ticks() int64 {
	const perSecond = 100 // USER_HZ
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(err)
	}
	return now.Nano() / (int64(time.Second) / perSecond)
}

// denyPidfdOpen makes the system call fail with ENOSYS in all threads.
func denyPidfdOpen() {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // seccomp_data.nr
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PIDFD_OPEN, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		panic(errno)
	}
}

// needPlaces asks for all that the places use.
func needPlaces(t *testing.T) {
	t.Helper()
	testenv.Need(t, "root", "unshare", "setpriv", "mount")
	needPidfs(t)
}

// needPidfs asks for pidfd ids (Linux 6.9 and later).
func needPidfs(t *testing.T) {
	t.Helper()
	switch known := identity.Self().PidfdID != ""; {
	case known:
	case testenv.Strict():
		t.Fatal("the kernel has no pidfs, and strict mode leaves no test out")
	default:
		testenv.LeaveOut(t, "the kernel has no pidfs")
	}
}

func (a *agent) judge(p identity.Process, local bool) identity.Finding {
	return a.ask(request{Op: "judge", Process: p, Local: local}).Finding
}

// More owners.

func livingIn(place []string) func(*testing.T) identity.Process {
	return func(t *testing.T) identity.Process { return start(t, place...).self() }
}

// zombie has ended, and its parent has not waited for it.
func zombie(t *testing.T) identity.Process {
	a := start(t)
	p := a.self()
	a.kill(t)
	if err := unix.Waitid(unix.P_PID, p.PID, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	return p
}

// leaderless has lost its main thread.
func leaderless(t *testing.T) identity.Process {
	a := start(t)
	p := a.self()
	a.ask(request{Op: "leave"})
	return p
}

// thread is what a record would be whose number and start are now those of a
// thread.
func thread(t *testing.T) identity.Process {
	known, done := make(chan identity.Process), make(chan bool)
	t.Cleanup(func() { close(done) })
	go func() {
		runtime.LockOSThread()
		p := identity.Self()
		p.PID, p.PidfdID, p.Start = unix.Gettid(), "", statOf("/proc/thread-self/stat").Start
		known <- p
		<-done
	}()
	return <-known
}

// withoutID is the owner as recorded without pidfs.
func withoutID(owner func(*testing.T) identity.Process) func(*testing.T) identity.Process {
	return func(t *testing.T) identity.Process {
		p := owner(t)
		p.PidfdID = ""
		return p
	}
}

// TestJudgeFrom has the rows of the table in docs/design.md with real owners
// and readers in real places.
func TestJudgeFrom(t *testing.T) {
	needPlaces(t)
	const shared = true // the file is on a network file system
	for _, test := range []struct {
		name   string
		owner  func(*testing.T) identity.Process
		reader []string
		shared bool
		want   identity.Word
	}{
		{"alive", living, here, false, identity.Matched},
		{"alive, shared", living, here, shared, identity.Matched},
		{"alive, no pidfd id", withoutID(living), here, false, identity.Matched},
		{"alive, no pidfd here", living, withoutPidfd, false, identity.Matched},
		{"alive, no pidfd there", livingIn(withoutPidfd), here, false, identity.Matched},
		{"ended", reaped, here, false, identity.ProcessGone},
		{"ended, no pidfd here", reaped, withoutPidfd, false, identity.ProcessGone},
		{"zombie", zombie, here, false, identity.ProcessZombie},
		{"zombie, no pidfd id", withoutID(zombie), here, false, identity.ProcessZombie},
		{"zombie, no pidfd here", zombie, withoutPidfd, false, identity.ProcessZombie},
		{"leaderless", leaderless, here, false, identity.Matched},
		{"leaderless, no pidfd id", withoutID(leaderless), here, false, identity.Matched},
		{"leaderless, no pidfd here", leaderless, withoutPidfd, false, identity.Matched},
		{"thread", thread, here, false, identity.ProcessReplaced},
		{"thread, no pidfd here", thread, withoutPidfd, false, identity.ProcessReplaced},

		{"owner in a container", livingIn(container), here, false, identity.OtherPIDNamespace},
		{"owner in a container, shared", livingIn(container), here, shared, identity.OtherPIDNamespace},
		{"reader in a container", living, container, false, identity.OtherPIDNamespace},
		{"reader in a container, ended", reaped, container, false, identity.OtherPIDNamespace},
		{"two containers", livingIn(container), container, false, identity.OtherPIDNamespace},
		{"owner in a container without procfs", livingIn(bareContainer), here, false, identity.OtherPIDNamespace},
		{"reader in a container without procfs", living, bareContainer, false, identity.OtherPIDNamespace},

		{"owner of a later clock", livingIn(laterClock), here, false, identity.Matched},
		{"owner of an earlier clock", livingIn(earlierClock), here, false, identity.Matched},
		{"reader of a later clock", living, laterClock, false, identity.Matched},
		{"owner of a later clock, no pidfd id", withoutID(livingIn(laterClock)), here, false, identity.OtherTimeNamespace},
		{"owner of a later clock, no pidfd here", livingIn(laterClock), withoutPidfd, false, identity.OtherTimeNamespace},
		{"reader of a later clock, no pidfd id", withoutID(living), laterClock, false, identity.OtherTimeNamespace},
		{"two later clocks, no pidfd id", withoutID(livingIn(laterClock)), laterClock, false, identity.OtherTimeNamespace},
		{"reader of a later clock, ended", reaped, laterClock, false, identity.ProcessGone},
		{"reader of a later clock, zombie", zombie, laterClock, false, identity.ProcessZombie},
		{"reader of a later clock, zombie, no pidfd id", withoutID(zombie), laterClock, false, identity.ProcessZombie},

		// kill(2) and pidfd_open(2) see what /proc hides.
		{"hidden", living, hidden, false, identity.Matched},
		{"hidden, no pidfd id", withoutID(living), hidden, false, identity.NotVisible},
		{"hidden, ended", withoutID(reaped), hidden, false, identity.ProcessGone},
		{"hidden, zombie", zombie, hidden, false, identity.ProcessZombie},
		{"hidden, zombie, no pidfd id", withoutID(zombie), hidden, false, identity.ProcessZombie},
		{"hidden, leaderless", leaderless, hidden, false, identity.Matched},
		{"hidden, thread", thread, hidden, false, identity.ProcessReplaced},
		{"owner hides", livingIn(hidden), here, false, identity.Matched},

		{"no procfs here", living, withoutProc, false, identity.NotVisible},
		{"no procfs here, ended", reaped, withoutProc, false, identity.NotVisible},
		{"no procfs there", livingIn(withoutProc), here, false, identity.NotVisible},
		{"no boot id here", living, withoutBootID, false, identity.NotVisible},
		{"no boot id there", livingIn(withoutBootID), here, false, identity.NotVisible},
		{"procfs of an inner namespace here", living, withInnerProc, false, identity.NotVisible},
		{"procfs of an inner namespace here, ended", reaped, withInnerProc, false, identity.NotVisible},

		{
			"before the boot", livingIn(mounts(machine(machineA), anotherBoot)),
			mounts(machine(machineA)), false, identity.EarlierBoot,
		},
		{
			"before the boot, shared", livingIn(mounts(machine(machineA), anotherBoot)),
			mounts(machine(machineA)), shared, identity.EarlierBoot,
		},
		{
			"before the boot, in a container", livingIn(append(slices.Clone(container), mounts(machine(machineA), anotherBoot)...)),
			mounts(machine(machineA)), false, identity.EarlierBoot,
		},
		{
			"before the boot, no machine there", livingIn(mounts(noMachine, anotherBoot)),
			mounts(machine(machineA)), false, identity.EarlierBoot,
		},
		{
			"before the boot, no machine here", livingIn(mounts(machine(machineA), anotherBoot)),
			mounts(noMachine), false, identity.EarlierBoot,
		},
		{
			"before the boot, no machine", livingIn(mounts(noMachine, anotherBoot)),
			mounts(noMachine), false, identity.EarlierBoot,
		},
		{
			"before the boot, no machine, shared", livingIn(mounts(noMachine, anotherBoot)),
			mounts(noMachine), shared, identity.OtherMachine,
		},
		{
			"before the boot, machines not initialized, shared", livingIn(mounts(machine(`uninitialized\n`), anotherBoot)),
			mounts(machine(`uninitialized\n`)), shared, identity.OtherMachine,
		},
		{
			"before the boot, empty machine ids, shared", livingIn(mounts(machine(""), anotherBoot)),
			mounts(machine("")), shared, identity.OtherMachine,
		},
		{
			"on another machine", livingIn(mounts(machine(machineB), anotherBoot)),
			mounts(machine(machineA)), false, identity.OtherMachine,
		},
		{
			"on another machine, shared", livingIn(mounts(machine(machineB), anotherBoot)),
			mounts(machine(machineA)), shared, identity.OtherMachine,
		},
		// Containers of one kernel have machine ids of their own.
		{"other machine id, same boot", livingIn(mounts(machine(machineB))), mounts(machine(machineA)), false, identity.Matched},
	} {
		t.Run(test.name, func(t *testing.T) {
			owner := test.owner(t)
			got := start(t, test.reader...).judge(owner, !test.shared)
			if want := (identity.Finding{Liveness: livenessOf[test.want], Identity: test.want}); got != want {
				t.Errorf("%+v: got %v, want %v", owner, got, want)
			}
		})
	}
}

// livenessOf is what each word says about the process.
var livenessOf = map[identity.Word]identity.Liveness{
	identity.Matched:            identity.Alive,
	identity.ProcessGone:        identity.Gone,
	identity.ProcessReplaced:    identity.Gone,
	identity.ProcessZombie:      identity.Gone,
	identity.EarlierBoot:        identity.Gone,
	identity.OtherMachine:       identity.Unknown,
	identity.OtherPIDNamespace:  identity.Unknown,
	identity.NotVisible:         identity.Unknown,
	identity.OtherTimeNamespace: identity.Unknown,
}

// TestSelfIn compares what an agent knows of itself with what is to be known in
// its place: what is not must be missing, and not be a guess.
func TestSelfIn(t *testing.T) {
	needPlaces(t)
	for _, test := range []struct {
		name    string
		place   []string
		missing []string
	}{
		{"here", mounts(machine(machineA)), nil},
		{"machine id of several lines", mounts(machine(machineA + `\nmore\n`)), nil},
		{"no machine id", mounts(noMachine), []string{"machine"}},
		{"empty machine id", mounts(machine("")), []string{"machine"}},
		{"blank machine id", mounts(machine(` \n`)), []string{"machine"}},
		{"machine id not initialized", mounts(machine(`uninitialized\n`)), []string{"machine"}},
		{"no pidfd", append(mounts(machine(machineA)), withoutPidfd...), []string{"pidfd_id"}},
		{"hidden", append(mounts(machine(machineA)), hidden...), nil},
		{"no boot id", append(mounts(machine(machineA)), withoutBootID...), []string{"boot"}},
		{"no procfs", append(mounts(machine(machineA)), withoutProc...), []string{"boot", "pid_namespace", "start", "time_namespace"}},
		{"procfs of an inner namespace", append(mounts(machine(machineA)), withInnerProc...), []string{"pid_namespace", "start", "time_namespace"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			self := start(t, test.place...).self()
			want := identity.Self().Neighbour(self.PID)
			want.Machine = machineA
			if got, want := fieldsOf(t, self), fieldsOf(t, want, test.missing...); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// fieldsOf is p as a record has it, without the fields named.
func fieldsOf(t *testing.T, p identity.Process, without ...string) string {
	t.Helper()
	var fields map[string]any
	text, err := json.Marshal(p)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range without {
		delete(fields, name)
	}
	text, _ = json.Marshal(fields) // in the order of the names
	return string(text)
}

// TestContainerWithoutProc: in a PID namespace that has not mounted its own
// /proc, each number there is that of a stranger.
func TestContainerWithoutProc(t *testing.T) {
	needPlaces(t)
	a := start(t, bareContainer...)
	self := a.self()
	outside := identity.Self().Neighbour(a.ask(request{Op: "outer"}).Process.PID)
	if self.PID != 1 || self.Start != outside.Start || self.PidfdID != outside.PidfdID {
		t.Errorf("from within: %+v\nfrom without: %+v", self, outside)
	}
	check := func(name string, p identity.Process, want identity.Word) {
		t.Helper()
		if got := a.judge(p, true); got.Identity != want || got.Liveness != livenessOf[want] {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	without := func(p identity.Process) identity.Process { p.PidfdID = ""; return p }
	check("itself", self, identity.Matched)
	check("itself, no pidfd id", without(self), identity.NotVisible)

	child := a.ask(request{Op: "spawn"}).Process
	want := child
	want.Start = "" // only the child itself can read it
	if got := a.ask(request{Op: "of", PID: child.PID}).Process; got != want || child.Start == "" {
		t.Errorf("child: got %+v, want %+v", got, want)
	}
	check("child", child, identity.Matched)
	check("child, no pidfd id", without(child), identity.NotVisible)
	if a.ask(request{Op: "ancestor", PID: 1}).Yes {
		t.Error("took a stranger's parents for its own")
	}
	a.ask(request{Op: "reap"})
	check("ended child", child, identity.ProcessGone)
	check("ended child, no pidfd id", without(child), identity.ProcessGone)
}

// TestContainerNumberedAlike: where /proc is that of the outer namespace, a
// process can have the same number in both by chance, and yet each other number
// there is that of a stranger.
func TestContainerNumberedAlike(t *testing.T) {
	needPlaces(t)
	// The outer namespace is new as well, so that its numbers are known: 1 and 2
	// are the inner unshare and the shell, which is 1 in the inner namespace.
	const script = `echo 2 >/proc/sys/kernel/ns_last_pid; "$@"; exit`
	a := start(t, slices.Concat(container, bareContainer, []string{"sh", "-ec", script, "sh"})...)
	if inner, outer := a.self().PID, a.ask(request{Op: "outer"}).Process.PID; inner != outer {
		t.Fatalf("%d inside and %d outside", inner, outer)
	}
	if shell := a.ask(request{Op: "of", PID: 1}).Process; shell.Start != "" || shell.PidfdID == "" {
		t.Errorf("took a stranger's start for the shell's: %+v", shell)
	}
	for pid := range 3 {
		if a.ask(request{Op: "ancestor", PID: pid}).Yes {
			t.Errorf("took the parents of a number that it cannot look up for its own: %d", pid)
		}
	}
}

// TestSelfOutlastsLeader: a process that has lost its main thread is still the
// one that it was.
func TestSelfOutlastsLeader(t *testing.T) {
	a := start(t)
	before := a.self()
	a.ask(request{Op: "leave"})
	if after := a.self(); after != before {
		t.Errorf("before: %+v\nafter:  %+v", before, after)
	}
}

// TestTimeNamespaceShiftsStart: what makes starts incomparable.
func TestTimeNamespaceShiftsStart(t *testing.T) {
	needPlaces(t)
	inside := start(t, laterClock...).self()
	outside := identity.Self().Neighbour(inside.PID)
	if inside.Start == outside.Start || inside.TimeNamespace == outside.TimeNamespace {
		t.Errorf("from within: %+v\nfrom without: %+v", inside, outside)
	}
	if inside.PidfdID != outside.PidfdID {
		t.Error("the pidfd id is shifted, too")
	}
}

// TestNumberUsedAgain runs two agents under one number, of which the second
// judges the first.
func TestNumberUsedAgain(t *testing.T) {
	needPlaces(t)
	const script = `for round in 1 2; do echo 41 >/proc/sys/kernel/ns_last_pid; "$@"; done`
	a := start(t, append(slices.Clone(container), "sh", "-ec", script, "sh")...)
	first := a.self()
	a.ask(request{Op: "end"})
	second := a.self()
	if first.PID != 42 || second.PID != 42 || first.PIDNamespace != second.PIDNamespace {
		t.Fatalf("not the same number: %+v, %+v", first, second)
	}
	for _, test := range []struct {
		name string
		edit func(p *identity.Process)
		want identity.Word
	}{
		{"by start and pidfd id", func(*identity.Process) {}, identity.ProcessReplaced},
		{"by start", func(p *identity.Process) { p.PidfdID = "" }, identity.ProcessReplaced},
		{"by pidfd id", func(p *identity.Process) { p.Start = "" }, identity.ProcessReplaced},
		{"by nothing", func(p *identity.Process) { p.Start, p.PidfdID = "", "" }, identity.NotVisible},
		{"itself", func(p *identity.Process) { *p = second }, identity.Matched},
	} {
		p := first
		test.edit(&p)
		if got := a.judge(p, true); got.Identity != test.want || got.Liveness != livenessOf[test.want] {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

// TestJudgeWhileItEnds judges processes over and over until they have ended:
// whatever the moment, it is never hidden what has become of them.
func TestJudgeWhileItEnds(t *testing.T) {
	for range 100 {
		cmd := exec.Command("true")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		p := identity.Self().Neighbour(cmd.Process.Pid)
		go cmd.Wait()
		for got := identity.Word(""); got != identity.ProcessGone; {
			got = identity.Self().Judge(p, true).Identity
			if got != identity.Matched && got != identity.ProcessZombie && got != identity.ProcessGone {
				t.Fatalf("%v: %s", p, got)
			}
		}
	}
}

// TestAwaitEndOfAnother: what has taken the place of the process is not waited
// for.
func TestAwaitEndOfAnother(t *testing.T) {
	needPidfs(t)
	replaced := identity.Self()
	replaced.PidfdID += "0"
	awaitEnd(t, replaced, time.Hour)
	awaitEnd(t, thread(t), time.Hour)
}

// TestAwaitEndOfLeader: the end of the main thread alone is none.
func TestAwaitEndOfLeader(t *testing.T) {
	p := leaderless(t)
	awaitEnd(t, p, time.Millisecond)
	if got := identity.Self().Judge(p, true); got.Liveness != identity.Alive {
		t.Errorf("got %v", got)
	}
}
