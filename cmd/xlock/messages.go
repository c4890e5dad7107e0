package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"xlock/internal/identity"
	"xlock/internal/lock"
	"xlock/internal/supervise"
)

// Every message of xlock is made in this file, but for what is wrong with a
// command line, which is said where it is found, and for those of flock(1). A message is one line on
// standard error, begins with "xlock: ", starts in lower case, ends without a
// full stop, names the thing it is about, and says what to do where something
// can be done. Text from files, other processes and the command line is
// escaped before it can reach a terminal.

// say is for standard error. Who does not read it must not keep us from ending
// in time, nor from giving back the lock.
func say(f *os.File, text string) { sayLine(f, message(text)) }

func sayLine(f *os.File, line string) {
	const patience = time.Second
	if writable(int(f.Fd()), patience) {
		fmt.Fprintln(f, line)
	}
}

func message(text string) string { return "xlock: " + escape(text) }

// tell prints a result, which is no message and has no prefix.
func tell(w io.Writer, result string) error {
	return write(w, escape(result)+"\n")
}

func write(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return outputError{err}
	}
	return nil
}

// escape makes text safe to print on one line of a terminal.
func escape(text string) string {
	var b strings.Builder
	for i, r := range text {
		switch {
		case r == unicode.ReplacementChar && !strings.HasPrefix(text[i:], string(unicode.ReplacementChar)):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// silenced says that a program reads nothing more from us.
func silenced(err error) string { return "warning: cannot write to --status-fd: " + errnoText(err) }

func warning(err error) string { return "warning: " + describe(err) }

// notReleased is about a release that has failed. Nothing is to be done about the lock
// file then: the kernel's lock ends all the same, and the record names a process that
// has ended.
func notReleased(err error) string {
	if errors.As(err, new(*fs.PathError)) {
		return "warning: cannot release " + describePath(err) + "; the next one takes it over"
	}
	return warning(err)
}

// describe says what went wrong and what to do about it.
func describe(err error) string {
	var held *lock.HeldError
	var deadlock *lock.DeadlockError
	var start startError
	var output outputError
	var path *fs.PathError
	var interrupted *supervise.InterruptedError
	var generation *lock.GenerationError
	var broken *lock.BrokenError
	switch {
	case errors.As(err, &generation):
		return otherGeneration(generation)
	case errors.As(err, &broken):
		return brokenBy(broken)
	case errors.As(err, &interrupted):
		return "ended by " + unix.SignalName(interrupted.Signal) + " before the command began"
	case errors.As(err, &held):
		return busy(held)
	case errors.As(err, &deadlock):
		return wouldDeadlock(deadlock)
	case errors.As(err, &start):
		return "cannot run " + describeStart(err)
	case errors.As(err, &output):
		return "cannot write to standard output: " + errnoText(err)
	case errors.As(err, &path):
		return "cannot use lock file " + describePath(err) + remedy(path)
	case isUnknownCommand(err):
		return err.Error() + "; see 'xlock help'"
	}
	return err.Error()
}

// isUnknownCommand recognises cobra's own error, which has no type.
func isUnknownCommand(err error) bool {
	return strings.HasPrefix(err.Error(), "unknown command ")
}

// describeStart names the command, or the call that made no process for it.
func describeStart(err error) string {
	if errors.As(err, new(*fs.PathError)) {
		return describePath(err)
	}
	return "the command: " + err.Error()
}

// describePath gives the path and the cause, without the name of the call.
func describePath(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return fmt.Sprintf("%s: %v", path.Path, path.Err)
	}
	return err.Error()
}

// errnoText is the cause alone.
func errnoText(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return err.Error()
}

// remedy says what to do about a lock file that cannot be used.
func remedy(err *fs.PathError) string {
	switch {
	case err.Op == "replace" && errors.Is(err, fs.ErrPermission):
		return "; its owner, or root, can replace it, who may write to its directory"
	case err.Op == "replace" && errors.Is(err, syscall.EBUSY):
		return "; it is a mount of its own (a container's?), which cannot be replaced: end its holder instead"
	case err.Op == "replace":
		return "; it could not be replaced, end its holder instead"
	case errors.Is(err, lock.ErrNotLockFile):
		return "; name a file of its own for the lock"
	case errors.Is(err, fs.ErrNotExist):
		return "; create its directory first"
	case errors.Is(err, fs.ErrPermission):
		return "; it needs permission to read and write the file, or to create it in its directory"
	case errors.Is(err, syscall.EROFS):
		return "; name a file on a file system that can be written"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "; free some space for the record"
	case errors.Is(err, syscall.EFBIG):
		return "; raise the limit on the size of files (ulimit -f) for the record"
	case errors.Is(err, syscall.ENOLCK), errors.Is(err, syscall.ENOSYS), errors.Is(err, syscall.EOPNOTSUPP),
		err.Op == "flock" && errors.Is(err, syscall.EINVAL): // of us it makes no other sense
		return "; this file system does not lock, name a file on another"
	case errors.Is(err, syscall.ETIMEDOUT):
		return "; its file system does not answer, perhaps its server is away"
	}
	return ""
}

func busy(err *lock.HeldError) string {
	return busyBy(err) + "; see: xlock inspect " + shellQuote(err.Path)
}

func busyBy(err *lock.HeldError) string {
	if err.TimedOut {
		return "gave up waiting: " + heldBy(err.Holder)
	}
	return "busy: " + heldBy(err.Holder)
}

// waiting begins with what changes, as a terminal may show the beginning alone.
func waiting(w wait) string {
	text := "waiting " + w.waited.String() + place(w.ahead) + ": "
	if w.changed {
		text += "now "
	}
	text += heldBy(w.Holder)
	if w.Ancestor {
		text += ", an ancestor of this process, which perhaps waits for it"
	}
	return text
}

// place is the place in the queue.
func place(ahead int) string {
	switch ahead {
	case -1:
		return ""
	case 0:
		return ", next in line"
	}
	return fmt.Sprintf(", %d ahead", ahead)
}

func wouldDeadlock(err *lock.DeadlockError) string {
	const verdict = "deadlock: "
	switch {
	case err.Self:
		return verdict + err.Path + " is held by this very process, pid " + strconv.Itoa(err.Blocker.PID)
	case err.Descriptor >= 0:
		return fmt.Sprintf("%s%s is kept locked by descriptor %d, which this process has inherited; close it first: exec %d>&-",
			verdict, err.Path, err.Descriptor, err.Descriptor)
	}
	return fmt.Sprintf("%s%s, which waits for this process, pid %d; give -w to wait all the same",
		verdict, heldBy(err.Holder), os.Getpid())
}

// heldBy is the sentence about who holds a lock.
func heldBy(h lock.Holder) string {
	state := "held"
	if h.State == lock.UnknownState {
		state = "perhaps held"
	}
	switch {
	case h.Descriptor >= 0:
		return fmt.Sprintf("%s is held through this process's own descriptor %d", h.Path, h.Descriptor)
	case h.Reason == lock.ReasonKernelLock:
		return h.Path + " is held by somebody whom its record does not name" + takers(h) + ": another program (flock(1)?), or what an earlier holder left running"
	case h.Reason == lock.ReasonShared:
		return h.Path + " is held by " + readers(h)
	case h.Reason == lock.ReasonWriterWaits:
		return h.Path + " is held by " + readers(h) + ", and somebody who waits to have it alone is first"
	case h.Reason == lock.ReasonNoAnswer:
		return h.Path + " is held by somebody who cannot be seen from here, or its file system does not answer"
	case h.Record == nil:
		return h.Path + " is " + state
	}
	return fmt.Sprintf("%s is %s by %s%s", h.Path, state, holderOf(h.Record, h.Judgement), since(h.Record.Acquired))
}

func readers(h lock.Holder) string {
	if len(h.Takers) == 1 {
		return "a reader" + takers(h)
	}
	return "readers" + takers(h)
}

// takers names those who took the kernel lock.
func takers(h lock.Holder) string {
	const most = 5
	var pids []string
	for _, pid := range h.Takers {
		if len(pids) == most {
			pids = append(pids, "...")
			break
		}
		pids = append(pids, "pid "+strconv.Itoa(pid))
	}
	if len(pids) == 0 {
		return ""
	}
	return " (" + strings.Join(pids, ", ") + ")"
}

// holderOf names the process that keeps the lock, and whose it is.
func holderOf(r *lock.Record, j lock.Judgement) string {
	pid := r.Owner.PID
	if j.Reason == lock.ReasonCommandRunning && r.Command != nil {
		pid = r.Command.PID
	}
	parts := []string{"pid " + strconv.Itoa(pid)}
	if r.Command != nil && r.Command.Name != "" {
		parts[0] += " (" + r.Command.Name + ")"
	}
	if r.User != "" {
		parts = append(parts, "user "+r.User)
	}
	if j.Liveness == identity.Unknown && r.Host != "" {
		parts = append(parts, "host "+r.Host)
	}
	if r.Label != "" {
		parts = append(parts, r.Label)
	}
	if j.Liveness == identity.Unknown || j.Reason == lock.ReasonCommandRunning {
		parts = append(parts, explain(j))
	}
	return strings.Join(parts, ", ")
}

func since(t *time.Time) string {
	if t == nil {
		return ""
	}
	return ", since " + moment(*t)
}

// moment is a time with its distance from now, in the reader's time zone.
func moment(t time.Time) string {
	age := time.Since(t).Truncate(time.Second)
	switch {
	case age < 0:
		return t.Local().Format(time.DateTime) + " (in the future)"
	case age > mostAge:
		return t.Local().Format(time.DateTime)
	}
	return fmt.Sprintf("%s (%s ago)", t.Local().Format(time.DateTime), age)
}

// explain gives the grounds of a judgement in words.
func explain(j lock.Judgement) string {
	switch j.Reason {
	case lock.ReasonNoFile:
		return "there is no such file yet"
	case lock.ReasonNeverHeld:
		return "it has not been held yet"
	case lock.ReasonReleased:
		return "its last holder released it"
	case lock.ReasonBroken:
		return "its last hold was broken by xlock reclaim --force"
	case lock.ReasonEnded:
		return "its last holder has ended"
	case lock.ReasonUnreadable:
		return "its record cannot be read, and counts for nothing"
	case lock.ReasonKernelLock:
		return "flock(2) is held by somebody whom its record does not name"
	case lock.ReasonShared:
		return "readers share it"
	case lock.ReasonWriterWaits:
		return "readers share it, and a writer waits"
	case lock.ReasonNoAnswer:
		return "nobody is seen to hold it, but flock(2) has not been granted"
	case lock.ReasonCommandRunning:
		if j.State == lock.UnknownState {
			return "its holder is gone, but the command it ran may not be"
		}
		return "its holder is gone, but the command it ran is not"
	}
	return explainIdentity(j.Identity)
}

func explainIdentity(word identity.Word) string {
	words := map[identity.Word]string{
		identity.Matched:            "the process lives",
		identity.ProcessGone:        "the process has ended",
		identity.ProcessReplaced:    "the process has ended, its number belongs to another",
		identity.ProcessZombie:      "the process has ended, and its parent has not noticed",
		identity.EarlierBoot:        "the machine was booted since",
		identity.OtherMachine:       "another machine, which cannot be looked into from here",
		identity.OtherPIDNamespace:  "a container, which cannot be looked into from here",
		identity.NotVisible:         "its process cannot be seen from here",
		identity.OtherTimeNamespace: "its start was read in another time namespace",
		lock.DescriptorOpen:         "this very process, with a descriptor open on the file",
		lock.DescriptorClosed:       "the descriptor that held it is closed",
		lock.DescriptorUnknown:      "this very process, whose descriptors cannot be listed",
		lock.CopiedRecord:           "the record is a copy of another lock file's",
	}
	return words[word]
}

func taken(l *lock.Lock) string {
	if l.Shared() {
		return "took " + l.File().Name() + ", shared"
	}
	return fmt.Sprintf("took %s, generation %d", l.File().Name(), l.Generation())
}

func released(path string) string { return "released " + path }

func reclaimed(r *lock.Reclaimed, dryRun bool) string {
	did, would := "reclaimed ", "would reclaim "
	if r.Forced {
		did, would = "overruled its holder: ", "would overrule its holder: "
	}
	switch {
	case r.Action == lock.Nothing:
		return r.Path + " is free already, " + explain(r.Judgement)
	case dryRun:
		did = would
	}
	if r.Forced {
		return did + heldBy(r.Holder()) + overruled(r.Action)
	}
	return did + r.Path + ", " + explain(r.Judgement)
}

// overruled says what becomes of a holder whose lock is broken.
func overruled(a lock.Action) string {
	text := "; it was not told to end and may still run, beside whoever comes next"
	if a == lock.Replaced {
		text += "; a new file takes the place of the one that it keeps locked (who waits for that with flock(1) does not notice)"
	}
	return text
}

func otherGeneration(err *lock.GenerationError) string {
	return fmt.Sprintf("%s has generation %d, not %d: another hold than the one that was looked at; see: xlock inspect %s",
		err.Path, err.Found, err.Wanted, shellQuote(err.Path))
}

func brokenBy(err *lock.BrokenError) string {
	who := fmt.Sprintf("pid %d", err.PID)
	if err.User != "" {
		who += ", user " + err.User
	}
	return fmt.Sprintf("the lock %s was broken by %s, %s; another command may have run beside this one",
		err.Path, strings.TrimSpace(who+" "+onHost(err.Host)), moment(err.Time))
}

// shellQuote writes a path as a shell reads it, so that a command in a message
// can be copied.
func shellQuote(path string) string {
	if strings.HasPrefix(path, "-") {
		path = "./" + path
	}
	return quoteWord(path)
}

// quoteWord writes a word as a shell reads it.
func quoteWord(word string) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("/._-+:@%,=", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
