package main

import (
	"strings"
	"testing"

	"xlock/internal/testenv"
)

// flockHolder says that it has the lock, and keeps it until it is told.
const flockHolder = `
mkfifo held go
flock $API --shared l -c 'echo Locking; echo >held; read _ <go; echo Unlocking' >holder & holder=$!
read _ <held
`

type flockTest struct{ name, script, want string }

// flockUpstream is what util-linux itself tests of its flock(1), tests/ts/flock
// there, without the times. $API is how the lock is taken: nothing, or --fcntl.
func flockUpstream() []flockTest {
	return []flockTest{
		{"non-block", flockHolder + `
		flock $API --nonblocking --conflict-exit-code 123 l echo no; echo $?
		echo >go; wait $holder; cat holder`, "123\nLocking\nUnlocking\n"},
		{"no-fork", flockHolder + `
		flock $API --nonblocking --conflict-exit-code 123 --no-fork l echo no; echo $?
		echo >go; wait $holder`, "123\n"},
		{"shared", flockHolder + `
		flock $API --shared l echo shared; echo $?
		echo >go; wait $holder`, "shared\n0\n"},
		{"exclusive", flockHolder + `
		flock $API --nb --exclusive --conflict-exit-code 123 l echo no; echo $?
		echo >go; wait $holder`, "123\n"},
		{"fd", flockHolder + `
		exec 4<>l; flock $API --nonblocking --exclusive --conflict-exit-code 123 4; echo $?
		ls; echo >go; wait $holder`, "123\ngo\nheld\nholder\nl\n"},
		{"timeout", flockHolder + `
		flock $API --timeout 50 --conflict-exit-code 5 l echo waited & queued l
		echo >go; wait $holder; wait $!; echo $?; cat holder`, "waited\n0\nLocking\nUnlocking\n"},
		{
			"close", `
		exec 9<>l; flock $API --exclusive --close --fd 9 --command "flock $API --exclusive --nonblock --fd 9 true"; echo $?`,
			"flock: 9: Bad file descriptor\n65\n",
		},
		{"no close", `
		exec 9<>l; flock $API --exclusive --fd 9 --command "flock $API --exclusive --nonblock --fd 9 true"; echo $?`, "0\n"},
		{
			"unlock", `
		exec 9<>l; flock $API --exclusive --nonblock --verbose 9; flock $API --unlock 9
		flock $API --exclusive --wait 0 --verbose l true; echo $?`,
			"flock: getting lock took T seconds\nflock: getting lock took T seconds\nflock: executing true\n0\n",
		},
	}
}

// flockNewer is what the system's flock(1) may be too old for.
func flockNewer() []flockTest {
	return []flockTest{
		{
			"two kinds of locks", `
		exec 9<>l; flock --fcntl 9; flock --nonblock --exclusive l echo independent; flock --nonblock --fcntl l echo no; echo $?`,
			"independent\n1\n",
		},
		{"range", `
		mkfifo go held; flock --shared --fcntl --start 1 --length 2 --no-fork . -c 'echo >held; read _ <go' & pid=$!
		read _ <held; i=$(stat -c %i .); sed -n "s/.*OFDLCK.*READ.*:$i \(.*\)/\1/p" /proc/locks
		echo >go; wait $pid`, "1 2\n"},
		{"ranges", `
		exec 9<>l; flock --start 1K --length 1KB 9
		flock -n --start 0 --length 1024 l echo below; flock -n --start 2024 l echo above
		flock -n --start 2023 l echo no; flock -n --length 0x401 l echo no; echo $?`, "below\nabove\n1\n"},
		{"exclusive on a directory", `flock --fcntl . true; echo $?`, "flock: .: Is a directory\n65\n"},
		{"exclusive on what cannot be read", `flock --fcntl l sh -c 'grep -h ^flags /proc/self/fdinfo/3'`, "flags:\t0100001\n"},
		{
			"descriptor that cannot write", `touch l; exec 9<l; flock --fcntl 9; echo $?; flock --fcntl -s 9; echo $?`,
			"flock: 9: Bad file descriptor\n65\n0\n",
		},
		{
			"bad ranges", `flock --start -1 l true; flock --start 1x l true; flock --length '' l true; flock --length 16E l true; echo $?`,
			"flock: invalid as start offset: '-1': Invalid argument\n" +
				"flock: invalid as start offset: '1x': Invalid argument\n" +
				"flock: invalid as length of lock range: '': Invalid argument\n" +
				"flock: invalid as length of lock range: '16E': Numerical result out of range\n64\n",
		},
		{"beyond the end of all files", `flock --start 8E l true; echo $?`, "flock: l: Invalid argument\n65\n"},
		{"fd and a command", `
		exec 9>l; flock --fd 9 sh -c 'echo "$@"' sh -c -n; flock -n l true; echo $?; flock -n --fd 9 -c 'echo again'`, "-c -n\n1\nagain\n"},
		{
			"fd without a command", `flock --fd 9; echo $?; flock --fd 9 -c; echo $?`,
			"flock: missing command\n64\nflock: -c requires exactly one command argument\n64\n",
		},
		{
			"fd that is none", `flock --fd -1 true; flock --fd x true; flock --fd 9 true; echo $?`,
			"flock: bad file descriptor: '-1'\nflock: bad file descriptor: 'x'\nflock: 9: Bad file descriptor\n65\n",
		},
		{"fd, exec and a later option", `exec 9>l; flock --fd 9 -nF true; flock -n l true; echo $?`, "1\n"},
		{
			"abbreviations", `flock --s l true; flock --f l true; flock --le 1 l echo length`,
			"flock: option '--s' is ambiguous; possibilities: '--shared' '--start'\nTry 'flock --help' for more information.\n" +
				"flock: option '--f' is ambiguous; possibilities: '--fcntl' '--fd'\nTry 'flock --help' for more information.\n" +
				"length\n",
		},
	}
}

func TestFlockUpstream(t *testing.T) {
	bin := newFlockDir(t)
	addQueued(t, bin)
	for _, api := range []string{"", "--fcntl"} {
		for _, test := range flockUpstream() {
			t.Run(strings.TrimSpace(test.name+" "+api), func(t *testing.T) {
				flockPrints(t, bin, test.script, test.want, "API="+api)
			})
		}
	}
	for _, test := range flockNewer() {
		t.Run(test.name, func(t *testing.T) { flockPrints(t, bin, test.script, test.want) })
	}
}

// flockPrints runs a script whose messages and results come in the order of its
// output.
func flockPrints(t *testing.T, bin, script, want string, env ...string) {
	t.Helper()
	if got := runWithFlock(t, bin, "exec 2>&1\n"+script, env...); got.stdout != want || got.status != 0 {
		t.Errorf("it prints %q, status %d; want %q", got.stdout, got.status, want)
	}
}

// TestFlockCommand: xlock flock is the same.
func TestFlockCommand(t *testing.T) {
	testenv.Need(t, "flock")
	bin := newFlockDir(t)
	for script, want := range map[string]string{
		`ln "$(command -v flock)" xlock; ./xlock flock -n -- l sh -c 'printf "%s " "$@"' sh -n --help`:                            "-n --help ",
		`ln "$(command -v flock)" xlock; ./xlock flock -nZ l true; echo $?`:                                                       "flock: invalid option -- 'Z'\nTry 'flock --help' for more information.\n64\n",
		`ln "$(command -v flock)" xlock; ./xlock flock; echo $?`:                                                                  "flock: not enough arguments\nTry 'flock --help' for more information.\n64\n",
		`ln "$(command -v flock)" xlock; ./xlock flock --help | sed -n 2p; ./xlock help flock | grep -c '^ -n, --nb'`:             "Usage:\n1\n",
		`ln "$(command -v flock)" xlock; exec 9>l 8>l; ./xlock flock 8; ./xlock flock -n -E 9 9; echo $?`:                         "9\n",
		`ln "$(command -v flock)" xlock; ./xlock flock l sh -c 'exit 5'; echo $?; ./xlock flock l sh -c 'kill -KILL $$'; echo $?`: "5\n137\n",
	} {
		t.Run(script, func(t *testing.T) { flockPrints(t, bin, script, want) })
	}
}
