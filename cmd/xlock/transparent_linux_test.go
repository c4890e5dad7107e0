package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"xlock/internal/testenv"
)

// report writes into the file of its argument all that a process has from whoever
// started it.
const report = `#!/usr/bin/perl
sub lines { open my $f, '<', "/proc/self/$_[0]" or return; <$f> }
my $inherited = 'Umask|Uid|Gid|Groups|Sig(Pnd|Blk|Ign)|ShdPnd|Cap...|NoNewPrivs|Seccomp\w*|Cpus_allowed|Mems_allowed';
my @report = grep { /^($inherited):/ } lines('status');
my @stat = split ' ', (lines('stat'))[0] =~ s/.*\) //r; # proc_pid_stat(5), from the third field on
push @report, "group $stat[2], session $stat[3], terminal $stat[4], its foreground $stat[5]\n";
push @report, "priority $stat[15], nice $stat[16], real-time $stat[37], policy $stat[38]\n";
for my $file (qw(limits cgroup oom_score_adj coredump_filter timerslack_ns personality loginuid)) {
	push @report, map { "$file: $_" =~ s/\n*$/\n/r } lines($file);
}
push @report, "$_: " . readlink("/proc/self/$_") . "\n" for qw(cwd root ns/mnt ns/pid ns/net ns/time);
push @report, map { "environment: $_\n" } split /\0/, join '', lines('environ');
opendir my $dir, '/proc/self/fd';
for my $fd (sort { $a <=> $b } grep { /\d/ && $_ != fileno $dir } readdir $dir) {
	my ($flags) = grep { /^flags/ } lines("fdinfo/$fd");
	push @report, "descriptor $fd: " . readlink("/proc/self/fd/$fd") . " $flags";
}
open my $out, '>', $ARGV[0] or die;
print $out @report;
`

// unusual gives a process all sorts of things to hand on. Not among the blocked
// signals are those that the Go runtime lets in before any code of ours runs, such
// as TERM (blockableSig in runtime/signal_unix.go, 1.26).
const unusual = `
use POSIX ();
$SIG{$_} = 'IGNORE' for qw(HUP INT TSTP TTIN TTOU);
POSIX::sigprocmask(POSIX::SIG_BLOCK(), POSIX::SigSet->new(POSIX::SIGUSR1(), POSIX::SIGUSR2(), 28, 40, 64));
setpriority 0, 0, 5;
open my $score, '>', '/proc/self/oom_score_adj' or die;
print $score 300;
close $score;
pipe my $r, my $w;
open my $log, '>>', 'log';
open my $tty, '+<', '/dev/tty';
my @from = map { POSIX::dup2(fileno $_, 100 + fileno $_) } $r, $w, $log, $tty;
POSIX::close($_) for 3 .. 20;
for my $to (3, 4, 7, 63) {
	my $from = shift @from;
	POSIX::dup2($from, $to);
	POSIX::close($from);
}
$ENV{XLOCK_FD} = 'earlier';
`

// reportAll has the same program report bare and under xlock, from one process.
const reportAll = `
for my $how (['bare'], ['fork', qw(xlock run lock)], ['close', qw(xlock run -o lock)], ['exec', qw(xlock run -F lock)]) {
	my ($name, @xlock) = @$how;
	system(@xlock, './report', $name) == 0 or die "$name: $?\n";
}
print "done\n";
`

// xlock stands between its caller and the command, and neither can tell but for
// what the command is told of the lock.
func TestTransparent(t *testing.T) {
	testenv.Need(t, "perl")
	tests := []struct {
		name, shell, perl string
	}{
		{"as it is", "", ""},
		{"unusual", "umask 027", unusual},
		{"soft limits", "ulimit -S -n 200; ulimit -S -c 10; ulimit -S -f 9999; ulimit -S -t 999; ulimit -S -s 4096; ulimit -S -l 32", ""},
		{"hard limits", "ulimit -n 200; ulimit -c 0; ulimit -f 9999; ulimit -t 999", ""},
		{"high limits", "ulimit -S -n $(ulimit -H -n)", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tty := newTerminal(t)
			tty.program("report", report)
			caller := tty.start("sh", "-c", tt.shell+"\nexec perl -e \"$0\"", tt.perl+reportAll)
			tty.expect(`done`)
			tty.ended(caller, "0")
			bare := tty.read("bare")
			tty.sameReport("fork", bare, true)
			tty.sameReport("close", bare, false)
			tty.sameReport("exec", bare, true)
		})
	}
}

func (b bench) read(name string) string {
	b.t.Helper()
	text, err := os.ReadFile(b.path(name))
	b.check(err)
	return string(text)
}

// What xlock adds to the report.
var (
	addedVariable   = regexp.MustCompile(`(?m)^environment: XLOCK_(?:PATH|GENERATION|FD)=.*\n`)
	addedDescriptor = regexp.MustCompile(`(?m)^descriptor (\d+): .*/lock flags.*\n`)
)

// sameReport fails the test unless the report differs from the bare one in what
// xlock says that it adds, and in nothing else.
func (b bench) sameReport(name, bare string, passed bool) {
	b.t.Helper()
	text := b.read(name)
	variables := strings.Join(addedVariable.FindAllString(text, -1), "")
	descriptors := addedDescriptor.FindAllStringSubmatch(text, -1)
	want := []string{"XLOCK_PATH=" + b.path("lock"), "XLOCK_GENERATION="}
	if passed {
		want = append(want, "XLOCK_FD=")
	}
	if passed != (len(descriptors) == 1) || strings.Count(variables, "\n") != len(want) {
		b.t.Errorf("%s: the command got descriptors %q and %q", name, descriptors, variables)
	}
	if passed && len(descriptors) == 1 {
		want[2] += descriptors[0][1]
	}
	for _, variable := range want {
		if !strings.Contains(variables, "environment: "+variable) {
			b.t.Errorf("%s: %s is not in %q", name, variable, variables)
		}
	}
	bare = addedVariable.ReplaceAllString(bare, "")
	text = addedVariable.ReplaceAllString(addedDescriptor.ReplaceAllString(text, ""), "")
	if text != bare {
		b.t.Errorf("%s: the command has\n%sbut bare it has\n%s", name, without(text, bare), without(bare, text))
	}
}

// without is what one report has and the other has not.
func without(a, b string) (differs string) {
	for line := range strings.Lines(a) {
		if !strings.Contains("\n"+b, "\n"+line) {
			differs += line
		}
	}
	return differs
}
