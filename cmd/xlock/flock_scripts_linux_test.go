package main

import (
	"slices"
	"strings"
)

// flockScripts are the scripts of TestFlockDifferential: a line is a script.
func flockScripts() []string {
	var scripts []string
	for _, block := range []string{
		flockUsageScripts, flockValueScripts, flockFormScripts, flockFileScripts,
		flockCommandScripts, flockHeldScripts, flockDescriptorScripts, flockSignalScripts,
	} {
		scripts = append(scripts, slices.Collect(strings.SplitSeq(strings.TrimSpace(block), "\n"))...)
	}
	return scripts
}

// Option errors, bundles, abbreviations and the order of options.
const flockUsageScripts = `
flock
flock --
flock -
flock ''
flock -Z
flock -Z l true
flock -nZ l true
flock -:
flock '-;'
flock -?
flock -n -?
flock -n
flock -s -x
flock --bogus
flock --bogus=value l true
flock --bogus -Z
flock -x --bogus l true
flock --shared=1 l true
flock --sh=1 l true
flock --nonblocking=yes l true
flock --help=1
flock -w
flock -n -w
flock -nw
flock --wait
flock --timeout
flock --tim
flock -E
flock --conflict-exit-code
flock --conflict-exit-code=
flock --n l true
flock --no l true
flock --non l echo non
flock --nonblock l echo nonblock
flock --nonblockingx l true
flock --nb l echo nb
flock --c l true
flock --cl l echo close
flock --con 3 l echo con
flock --e l echo exclusive
flock --u l echo unlock
flock --sh l echo shared
flock --shared l echo shared
flock --t 1 l echo timeout
flock --w 1 l echo wait
flock --wa=1 l echo wait
flock --ve l true
flock --no-f l echo no-fork
flock -nx l echo bundle
flock -sxn l echo bundle
flock -nw1 l echo bundle
flock -nE5 l echo bundle
flock -w.5 l echo attached
flock -w 0.5 -E 3 -n -x l echo many
flock -xe l echo both
flock --timeout=1 l echo attached
flock --timeout 1 l echo apart
flock -E7 l echo attached
flock -n -- l echo dashes
flock -- l echo dashes
flock l -- echo dashes
flock l -n true
flock l --shared true
flock l echo -n -- --shared
flock -n -- -l echo file; ls
flock -- -l true; ls
flock -w -- l true
flock -w -n l true
flock -E -n l true
flock -Fo l true
flock -o -F l true
flock --no-fork --close l true
flock -F -o
flock -F -o x
flock -oF -Z
flock -c true
flock -c true l
flock --command=true l
flock --command true l
flock -nc true l
flock -h -Z >/dev/null
flock -n -h l true >/dev/null
flock -hw >/dev/null
flock -V -Z | cut -c1-10
flock -nV l true | cut -c1-10
flock -Zh
flock --vers | cut -c1-10
flock --he >/dev/null
flock -h >/dev/full
flock -V >/dev/full
flock -w 1s -Z l true
flock -Z -w 1s l true
flock -E 300 -w x l true
flock -w x -h
`

// Values of -w and -E.
const flockValueScripts = `
flock -w '' l true
flock -w 1s l true
flock -w x l true
flock -w '1 ' l true
flock -w ' 1' l echo blank
flock -w +1 l echo plus
flock -w 1e3 l echo exponent
flock -w 1e l true
flock -w .007 l echo point
flock -w 1. l echo point
flock -w . l true
flock -w 0x1 l echo hexadecimal
flock -w 0X1P1 l echo hexadecimal
flock -w 0x.8 l echo hexadecimal
flock -w 0x l true
flock -w 1_0 l true
flock -w 0x1_0 l true
flock -w 1,5 l true
flock -w -1 l true
flock -w -0.5 l true
flock -w -0 l echo zero
flock -w nan l true
flock -w -nan l true
flock -w NaN l true
flock -w inf l true
flock -w -INFINITY l true
flock -w 1e18 l echo long
flock -w 1e19 l true
flock -w 1e300 l true
flock -w 1e5000 l true
flock -w 9223372036854775807 l true
flock -w 99999999999999999999 l true
flock -w 1 -w 2 l echo twice
flock -w x -w 1 l true
flock -w -1 nosuch/l true
flock -w -1 99
flock -n -w -1 l true
flock -E '' l true
flock -E x l true
flock -E 1x l true
flock -E 0x10 l true
flock -E 1.5 l true
flock -E -1 l true
flock -E 256 l true
flock -E 600 l true
flock -E 255 l echo most
flock -E 0 l echo least
flock -E 010 l echo decimal
flock -E ' 5' l echo blank
flock -E '5 ' l true
flock -E +5 l echo plus
flock -E 99999999999 l true
flock -E 99999999999999999999 l true
flock -E 1_0 l true
`

// The forms: a file and a command, -c, a descriptor.
const flockFormScripts = `
flock l
flock l -c
flock l -c a b
flock l --command
flock l --command a b
flock l -c 'echo $0; echo "$#"'
flock l --command 'echo string'
flock l -c ''
flock l -c 'exit 9'
flock l -c 'kill -9 $$'
flock l -c -c
flock l -cx
flock l --comm true
flock -n l -c 'echo bundled'
unset SHELL; flock l -c 'echo "$0"'
SHELL= flock l -c 'echo "$0"'
SHELL=/bin/true flock l -c 'echo no'
SHELL=/bin/false flock l -c 'echo no'
SHELL=/nonexistent flock l -c 'echo no'
SHELL=/etc/passwd flock l -c 'echo no'
SHELL=echo flock l -c 'words of one'
SHELL=/bin/true flock --verbose l -c ''
flock l echo a b '' 'c d'
flock l echo
flock 9 echo file; ls
flock 9x true; ls
flock x
flock ' 9'
flock 9x
flock 99999999999
flock -- -5
flock -s -u -x -n l echo last
flock l sh -c 'echo "$XLOCK_FD$XLOCK_PATH"; env' | grep -v -e '^PATH=' -e '^PWD=' -e '^_=' | sort
`

// What can be locked, and what is left of it.
const flockFileScripts = `
flock l true; ls -l l | cut -c1-10
umask 077; flock l true
umask 0; flock l true
umask 777; flock l true
echo content >l; flock l cat l
printf x >l; touch -d @1000000000 l; flock l true; stat -c '%Y %X %s' l
mkdir d; flock d echo directory
flock . echo directory
flock / echo directory
mkdir d; flock d/ echo directory
flock -s . echo directory
flock newd/ true
flock nosuch/l true
flock '' true
touch f; flock f/l true
touch f; flock f/ true
flock /dev/null echo device
flock /proc/self/status echo proc
flock /dev/full echo device
ln -s target s; flock s echo dangling
ln -s nosuch/target s; flock s true
touch target; ln -s target s; flock s echo link
mkdir d; ln -s d s; flock s echo link
ln -s s s; flock s true
ln l l2 2>/dev/null; touch l; ln l l2; exec 9<>l; $REAL 9; flock -n l2 true
flock "$(printf 'n%.0s' $(seq 300))" true
flock "a b" echo blank
flock "it's" echo quote
touch l; chmod 444 l; flock l echo read-only
touch l; chmod 444 l; $AS flock l echo read-only
touch l; chmod 600 l; $AS flock l true
touch l; chmod 0 l; $AS flock l true
touch l; chmod 222 l; $AS flock l true
touch l; chmod 666 l; $AS flock l echo writable
$AS flock l true
mkdir -m 700 d; $AS flock d/l true
mkdir -m 700 d; $AS flock d true
mkdir -m 777 d; $AS flock d/l echo made; stat -c '%u %g %a' d/l
mkdir -m 555 d; $AS flock d echo directory
mkdir -m 555 d; $AS flock d/l true
chmod 777 .; $AS flock l echo mine; stat -c %u l
cp "$(command -v true)" program; flock ./program ./program
printf '#!/bin/sh\necho self\n' >s; chmod +x s; flock -n ./s ./s
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("s")'; flock s true
flock -u l echo unlocked
flock -u . echo unlocked
flock -u nosuch/l true
flock l rm l
flock l mv l m
flock l flock m echo nested
`

// How the command is started, and how it ends.
const flockCommandScripts = `
flock l true
flock l false
flock l sh -c 'exit 0'
flock l sh -c 'exit 1'
flock l sh -c 'exit 64'
flock l sh -c 'exit 69'
flock l sh -c 'exit 255'
flock l sh -c 'kill -9 $$'; echo $?
flock l sh -c 'kill -TERM $$'; echo $?
flock l sh -c 'kill -INT $$'; echo $?
flock l sh -c 'kill -HUP $$'; echo $?
flock l sh -c 'kill -SEGV $$'; echo $?
flock l sh -c 'kill -USR1 $$'; echo $?
flock l sh -c 'kill -PIPE $$'; echo $?
flock -F l sh -c 'kill -9 $$'; echo $?
flock -F l sh -c 'exit 7'
flock -o l sh -c 'exit 7'
flock l nosuchcommand
flock -F l nosuchcommand
flock -o l nosuchcommand
flock l ./nosuchcommand
flock l nosuch/command
flock l ''
flock -F l ''
flock l .
flock l ..
flock l /
flock l ./l
flock l /etc/passwd
flock l /etc/passwd/x
touch c; flock l ./c
touch c; chmod 644 c; flock l ./c
touch c; chmod 755 c; $AS flock . "$PWD/c"; echo $?
mkdir c; flock l ./c
mkdir c; PATH=$PWD:$PATH flock l c
touch c; PATH=$PWD:$PATH flock l c
mkdir d; touch d/true; PATH=$PWD/d:$PATH flock l true
PATH=$PWD/nosuch:$PATH flock l echo found
f=$(command -v flock); unset PATH; "$f" l echo default
f=$(command -v flock); PATH= "$f" l echo none
f=$(command -v flock); printf '#!/bin/sh\necho here\n' >here; chmod +x here; PATH=: "$f" l here
printf 'echo no line "$0" "$@"\n' >c; chmod +x c; flock l ./c a b
printf 'echo no line\n' >c; chmod +x c; flock -F l ./c
printf 'echo no line\n' >c; chmod +x c; PATH=$PWD:$PATH flock l c
printf '#!/nonexistent\n' >c; chmod +x c; flock l ./c
printf '#!/nonexistent\n' >c; chmod +x c; flock -F l ./c
printf '\177ELF' >c; chmod +x c; flock l ./c
: >c; chmod +x c; flock l ./c
ln -s nowhere c; flock l ./c
ln -s c c; flock l ./c
chmod 777 .; printf '#!/bin/sh\n' >c; chmod 700 c; $AS flock l ./c
flock l "$(printf 'n%.0s' $(seq 300))"
flock l true "$(head -c 200000 /dev/zero | tr '\0' x)" 2>&1 | cut -c1-30
flock l cat </dev/null
echo input | flock l cat
flock l sh -c 'echo out; echo err >&2'
cd /; flock /dev/null pwd
flock l sh -c 'umask'
umask 027; flock l sh -c 'umask'
flock l sh -c 'basename "$(readlink /proc/self/fd/3)"'
exec 3</dev/null; flock l sh -c 'readlink /proc/self/fd/3; basename "$(readlink /proc/self/fd/4)"'
exec 3<&- 5</dev/zero; flock l sh -c 'readlink /proc/self/fd/5; ls /proc/self/fd | tr "\n" " "'
flock l sh -c 'ls /proc/self/fd | tr "\n" " "'
flock -F l sh -c 'ls /proc/self/fd | tr "\n" " "'
flock -o l sh -c 'ls /proc/self/fd | tr "\n" " "'
flock . sh -c 'basename "$(readlink /proc/self/fd/3)"' | grep -c .
flock l sh -c 'grep -h ^flags /proc/self/fdinfo/3'
flock . sh -c 'grep -h ^flags /proc/self/fdinfo/3'
flock l sh -c 'ulimit -n'
flock -F l sh -c 'ulimit -n'
ulimit -S -n 100; flock l sh -c 'ulimit -n'
flock l sh -c 'ps -o pgid= -p $$ | tr -d " "' >a; ps -o pgid= -p $$ | tr -d " " >b; cmp a b; rm a b
flock l sh -c 'flock -u 3; flock -n l echo third'
flock --verbose l true
flock --verbose -n l true
flock --verbose -w 5 l true
flock --verbose -w 0 l true
flock --verbose -u l true
flock --verbose -s l true
flock --verbose l nosuchcommand
flock --verbose l ''
flock --verbose l true >/dev/full
flock --verbose l sh -c 'exit 3' >/dev/full
flock --verbose l -c true
flock --verbose nosuch/l true
`

// A lock that somebody holds.
const flockHeldScripts = `
exec 9<>l; $REAL 9; flock -n l echo no
exec 9<>l; $REAL 9; flock -nF l echo no
exec 9<>l; $REAL 9; flock -no l echo no
exec 9<>l; $REAL 9; flock -n -E 123 l echo no
exec 9<>l; $REAL 9; flock -n -E 0 l echo no
exec 9<>l; $REAL 9; flock -n l -c 'echo no'
exec 9<>l; $REAL 9; flock -n l nosuchcommand
exec 9<>l; $REAL 9; flock -ns l echo no
exec 9<>l; $REAL 9; flock -nx l echo no
exec 9<>l; $REAL 9; flock -nu l echo yes
exec 9<>l; $REAL 9; flock -u l echo yes; $REAL -n l true || echo still held
exec 9<>l; $REAL -s 9; flock -ns l echo yes
exec 9<>l; $REAL -s 9; flock -n l echo no
exec 9<>l; $REAL -s 9; flock -s l echo yes; $REAL -ns l echo shared
exec 9<>l; $REAL -s 9; flock -sx -n l echo no
exec 9<>l; $REAL -s 9; flock -xs -n l echo yes
exec 9<>l; $REAL 9; flock -w 0 l echo no
exec 9<>l; $REAL 9; flock -w 0.0000001 l echo no
exec 9<>l; $REAL 9; flock -w 0.01 l echo no
exec 9<>l; $REAL 9; flock -w 0.01 -E 9 l echo no
exec 9<>l; $REAL 9; flock -w 0.01 -E 0 l echo no
exec 9<>l; $REAL 9; flock -n -w 100 l echo no
exec 9<>l; $REAL 9; flock -w 100 -n l echo no
exec 9<>l; $REAL 9; flock -w 100 -w 0 l echo no
exec 9<>l; $REAL 9; flock -w .01 -s l echo no
exec 9<>l; $REAL 9; flock --verbose -n l echo no
exec 9<>l; $REAL 9; flock --verbose -w 0 l echo no
exec 9<>l; $REAL 9; flock --verbose -w 0.01 l echo no
exec 9<>l; $REAL 9; flock --verbose -n -w 100 l echo no
exec 9<>l; $REAL 9; flock --verbose -n -E 7 l echo no
exec 9<.; $REAL 9; flock -n . echo no
exec 9<.; $REAL -s 9; flock -ns . echo yes
exec 9<>l; $REAL 9; chmod 444 l; $AS flock -n "$PWD/l" echo no
mkfifo go; exec 8<>go; { exec 9<>l; $REAL 9; echo >&8; } & read _ <go; wait; flock l echo after
exec 9<>l; $REAL 9; flock -w 60 l echo got 9<&- & queued l; exec 9<&-; wait $!
exec 9<>l; $REAL 9; flock l echo got 9<&- & queued l; exec 9<&-; wait $!
exec 9<>l; $REAL 9; flock -s l echo got 9<&- & queued l; exec 9<&-; wait $!
flock l sh -c 'flock -n l true; echo $?'
flock -o l sh -c 'flock -n l true; echo $?'
flock -F l sh -c 'flock -n l true; echo $?'
flock -s l sh -c 'flock -ns l true; echo $?'
flock -s l sh -c 'flock -n l true; echo $?'
flock l sh -c 'flock -n 3; echo $?'
flock l true; $REAL -n l echo free
flock l false; $REAL -n l echo free
flock l nosuchcommand; $REAL -n l echo free
flock l sh -c 'kill -9 $$'; $REAL -n l echo free
flock -F l true; $REAL -n l echo free
exec 9<>l; $REAL 9; rm l; flock -n l echo another
mkfifo go; exec 8<>go; flock -F l sh -c 'read _ <&8 &'; $REAL -n l true || echo held; echo >&8
mkfifo go; exec 8<>go; flock -o l sh -c 'read _ <&8 &'; $REAL -n l echo free; echo >&8
`

// A descriptor of the shell.
const flockDescriptorScripts = `
exec 9>l; flock 9; $REAL -n l true || echo held
exec 9<>l; flock 9; $REAL -n l true || echo held
touch l; exec 9<l; flock 9; $REAL -n l true || echo held
exec 9<.; flock 9; $REAL -n . true || echo held
exec 9</dev/null; flock 9
exec 9>l; flock -s 9; $REAL -ns l echo shared; $REAL -n l true || echo held
exec 9>l; flock 9; flock 9; flock -n 9; echo $?
exec 9>l; flock -s 9; flock -n -x 9; $REAL -ns l true || echo upgraded
exec 9>l; flock -x 9; flock -n -s 9; $REAL -ns l echo downgraded
exec 9>l 8<l; flock -s 8; flock -s 9; flock -nx 9 || echo refused
exec 9>l; flock 9; flock -u 9; $REAL -n l echo free
exec 9>l; flock -u 9
exec 9>l; flock -nu 9
exec 9>l; flock 9; (flock -u 9); $REAL -n l echo free
exec 9>l; flock 9; exec 9>&-; $REAL -n l echo free
exec 9>l; flock -o 9; $REAL -n l true || echo held
exec 9>l; flock -F 9; $REAL -n l true || echo held
exec 9>l; flock -Fo 9
exec 9>l; flock --verbose 9
exec 9>l; flock --verbose -u 9
exec 9>l 8>l; $REAL 8; flock -n 9
exec 9>l 8>l; $REAL 8; flock -n -E 5 9
exec 9>l 8>l; $REAL 8; flock -w 0 9
exec 9>l 8>l; $REAL 8; flock -w 0.01 9; echo $?; exec 8>&-; $REAL -n l echo free
exec 9>l 8>l; $REAL 8; flock --verbose -n 9
exec 9>l 8>l; $REAL 8; flock --verbose -w 0.01 9
exec 9>l 8>l; $REAL -s 8; flock -ns 9
exec 9>l 8>l; $REAL -s 8; flock -n 9
exec 9>l 8>l; $REAL 8; flock -u 9; flock -n 9
flock 9
flock -n 9
flock -u 9
flock -s 9
flock -w 1 9
flock 200
flock -E 5 9
flock --verbose 9
exec 9>&-; flock 9
flock +9
flock 09
exec 9>l; flock 09; $REAL -n l true || echo held
exec 9>l; flock ' 9'; $REAL -n l true || echo held
exec 9>l; flock +9; $REAL -n l true || echo held
flock 0 </dev/null
touch l; flock 0 <l; $REAL -n l echo free
flock 1 >l; $REAL -n l echo free
flock 2 2>l
echo | flock 0
mkfifo p; exec 9<>p; flock 9; flock -n 9
(exec 9>l; flock -n 9 || exit 1; echo in) ; $REAL -n l echo free
(flock -n 9 || exit 1; echo in) 9>l
(flock 9; echo in; $REAL -n l true || echo held) 9>l
exec 9>l; flock -c 9
exec 9>l; flock 9 -c true
exec 9>l; flock 9 true; ls
exec 9>>l; flock 9; echo appended >&9; cat l
exec 9<>l; flock 9; grep -h ^flags /proc/self/fdinfo/9
exec 9>l; flock 9; python3 -c 'import fcntl; print(fcntl.fcntl(9, fcntl.F_GETFL) & 2048)'
python3 -c 'import os; os.dup2(os.open(".", os.O_PATH), 9); os.execvp("flock", ["flock", "9"])'
chmod 777 .; exec 9>l; chmod 600 l; $AS flock 9; $REAL -n l true || echo held
`

// Signals that the caller ignores or has blocked, and children of others.
const flockSignalScripts = `
trap '' HUP; flock l sh -c 'kill -HUP $$; echo alive'
trap '' INT; flock l sh -c 'kill -INT $$; echo alive'
trap '' HUP; flock -F l sh -c 'kill -HUP $$; echo alive'
nohup flock l sh -c 'kill -HUP $$; echo alive' 2>/dev/null
trap '' CHLD; flock l sh -c 'exit 3'
trap '' ALRM; exec 9<>l; $REAL 9; flock -w 0.01 l true
trap '' TSTP; flock l sh -c 'kill -TSTP $$; echo alive'
sh -c 'exit 5' & flock l sh -c 'exit 3'; echo $?; wait $!; echo $?
sh -c 'exit 5' & exec flock l sh -c 'exit 3'
exec 9<>l 2>/dev/null; $REAL 9; flock l true & queued l; kill -TERM $!; wait $!; echo $?
exec 9<>l 2>/dev/null; $REAL 9; flock -w 100 l true & queued l; kill -TERM $!; wait $!; echo $?
exec 9<>l 2>/dev/null; $REAL 9; flock l true & queued l; kill -ALRM $!; wait $!; echo $?
flock -F l sh -c 'kill -TERM $$'; echo $?
flock l sh -c 'kill -9 $PPID; flock -n l true; echo $?' | cat
flock -o l sh -c 'kill -9 $PPID; until $REAL -n l echo free; do :; done' | cat
`
