package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"xlock/internal/fdprobe"
	"xlock/internal/identity"
	"xlock/internal/lock"
)

// reportText writes what is known of a lock for people: the verdict and its reason
// first, then what each source shows, and at last what to do.
type reportText struct {
	strings.Builder
	r     *lock.Report
	style style
}

func person(r *lock.Report, s style) string {
	p := &reportText{r: r, style: s}
	fmt.Fprintf(p, "%s: %s, %s\n", escape(r.Path), s.state(r.State), escape(explain(r.Judgement)))
	if record := r.Content.Record; record != nil && record.Owner != nil {
		p.record(record)
	}
	p.line("kernel", holders(r.Kernel.Holders))
	p.strangers()
	for i, pid := range r.Kernel.Waiters {
		p.line(p.once(i == 0, "waiting"), fmt.Sprintf("%d. %s", i+1, seen(p.seen(pid))))
	}
	if n := r.Kernel.Readers; n > 0 {
		p.line(p.once(len(r.Kernel.Waiters) == 0, "waiting"), readersBehind(n))
	}
	for i, held := range r.Kernel.Ranges {
		p.line(p.once(i == 0, "fcntl"), rangeText(held))
	}
	for _, warning := range r.Warnings {
		p.line("warning", warningText(warning))
	}
	p.line("next", next(r))
	return p.String()
}

// line writes a name and its value, if there is one.
func (p *reportText) line(name, value string) {
	if value == "" {
		return
	}
	if name != "" {
		name += ":"
	}
	fmt.Fprintf(p, "  %-9s %s\n", name, escape(value))
}

func readersBehind(n int) string {
	if n == 1 {
		return "then a reader, whom the kernel does not name"
	}
	return fmt.Sprintf("then %d readers, whom the kernel does not name", n)
}

// rangeText tells of a lock of fcntl(2).
func rangeText(r fdprobe.Range) string {
	who, kind, bytes := fmt.Sprintf("pid %d", r.PID), "exclusive", "the whole file"
	if r.PID < 0 {
		who = "somebody"
	}
	if r.Shared {
		kind = "shared"
	}
	switch {
	case r.Len > 0:
		bytes = fmt.Sprintf("bytes %d to %d", r.Start, r.Start+r.Len-1)
	case r.Start > 0:
		bytes = fmt.Sprintf("bytes from %d on", r.Start)
	}
	return fmt.Sprintf("%s (%s), %s, %s: another lock, which keeps nobody from this one", who, r.Source, kind, bytes)
}

func (p *reportText) once(first bool, name string) string {
	if first {
		return name
	}
	return ""
}

// seen is what is known of a process that the kernel shows.
func (p *reportText) seen(pid int) lock.Seen {
	if p.r.Evidence != nil {
		if s, ok := p.r.Evidence.Seen[pid]; ok {
			return s
		}
	}
	return lock.Seen{PID: pid}
}

// record tells what the record says, and what is there of its processes now.
func (p *reportText) record(record *lock.Record) {
	who := "owner"
	if p.r.State == lock.Free || record.State == lock.StateFree {
		who = "last"
	}
	owner := fmt.Sprintf("pid %d", record.Owner.PID)
	if p.r.Identity != "" {
		owner += fmt.Sprintf(", %s (%s)", p.r.Liveness, p.r.Identity)
	}
	p.line(who, owner)
	evidence := p.r.Evidence
	if evidence == nil {
		evidence = new(lock.Evidence)
	}
	p.party(evidence.Owner)
	p.line("command", commandOf(record))
	p.party(evidence.Command)
	p.line("user", strings.TrimSpace(record.User+" "+onHost(record.Host)))
	p.line("label", record.Label)
	if record.Acquired != nil {
		p.line("taken", fmt.Sprintf("%s, generation %d", moment(*record.Acquired), record.Generation))
	}
	if record.Released != nil {
		p.line("released", moment(*record.Released)+lasted(record)+ended(record.Outcome))
	}
	if b := record.Broken; b != nil {
		p.line("broken", fmt.Sprintf("generation %d by pid %d %s, %s", b.Generation, b.PID, b.User, moment(b.Time)))
	}
}

// party tells what a process of the record does now.
func (p *reportText) party(party *lock.Party) {
	if party == nil || party.Activity == "" {
		return
	}
	p.line("", activity(party.Seen)+", descriptor on the file: "+string(party.Descriptors))
	p.line("", commandLine(party.Seen))
	if party.Directory != "" {
		p.line("", "in "+party.Directory)
	}
}

// strangers tells of the holders that the record does not name, and of those that
// have ended.
func (p *reportText) strangers() {
	var told []int
	for _, h := range p.r.Kernel.Holders {
		named := p.r.Evidence != nil && slices.ContainsFunc([]*lock.Party{p.r.Evidence.Owner, p.r.Evidence.Command},
			func(party *lock.Party) bool { return party != nil && party.PID == h.PID && party.Activity != "" })
		if named || slices.Contains(told, h.PID) {
			continue
		}
		told = append(told, h.PID)
		p.line("", p.stranger(h.PID))
	}
}

// stranger is a holder on one line. Only /proc/locks names one in whom the lock is
// not seen to be open: who took it, or somebody who has its number by now.
func (p *reportText) stranger(pid int) string {
	text, s := "", p.seen(pid)
	holds := slices.Contains(p.r.Kernel.Holders, fdprobe.Holder{PID: pid, Source: fdprobe.FDInfo})
	switch {
	case s.Activity == identity.Absent:
		return fmt.Sprintf("pid %d has ended; who inherited the lock from it keeps it", pid)
	case !holds:
		text = "took it, and is not seen to have it open: "
	}
	return text + seen(s)
}

// seen is a process on one line.
func seen(s lock.Seen) string {
	text := fmt.Sprintf("pid %d", s.PID)
	if s.Activity == identity.Absent {
		return text + " has ended"
	}
	if s.Activity != "" {
		text += ", " + activity(s)
	}
	if line := commandLine(s); line != "" {
		text += ": " + line
	}
	return text
}

func activity(s lock.Seen) string {
	parts := []string{string(s.Activity)}
	if s.User != "" {
		parts = append(parts, "user "+s.User)
	}
	if s.Started != nil {
		parts = append(parts, "started "+moment(*s.Started))
	}
	if len(s.InnerPIDs) > 0 {
		inner := fmt.Sprintf("pid %d in its container", s.InnerPIDs[len(s.InnerPIDs)-1])
		if s.ControlGroup != "" {
			inner += " (" + s.ControlGroup + ")"
		}
		parts = append(parts, inner)
	}
	return strings.Join(parts, ", ")
}

// commandLine is as a shell would read it, and not longer than a person would.
func commandLine(s lock.Seen) string {
	const most = 300
	var words []string
	for _, word := range s.CommandLine {
		words = append(words, quoteWord(word))
	}
	line := strings.Join(words, " ")
	if short := cut(line, most); short != line {
		return short + " ..."
	}
	return line
}

func commandOf(record *lock.Record) string {
	switch c := record.Command; {
	case c == nil:
		return ""
	case c.PID == 0:
		return c.Name
	default:
		return fmt.Sprintf("%s, pid %d", c.Name, c.PID)
	}
}

func onHost(name string) string {
	if name == "" {
		return ""
	}
	return "on " + name
}

// lasted is how long a hold lasted.
func lasted(record *lock.Record) string {
	held := heldFor(record)
	if held == nil {
		return ""
	}
	return ", after " + held.Round(time.Millisecond).String()
}

func heldFor(record *lock.Record) *time.Duration {
	if record.Acquired == nil || record.Released == nil || record.Released.Before(*record.Acquired) {
		return nil
	}
	held := record.Released.Sub(*record.Acquired)
	return &held
}

func ended(o *lock.Outcome) string {
	switch {
	case o == nil:
		return ""
	case o.Signal != "":
		return ", ended by " + o.Signal
	case o.Exit != nil:
		return ", exit status " + strconv.Itoa(*o.Exit)
	}
	return ""
}

func holders(list []fdprobe.Holder) string {
	var texts []string
	for _, h := range list {
		texts = append(texts, fmt.Sprintf("pid %d (%s)", h.PID, h.Source))
	}
	return strings.Join(texts, ", ")
}

func warningText(w lock.Warning) string {
	switch w.Code {
	case lock.WarnRecord:
		return "the record cannot be read: it is " + w.Detail
	case lock.WarnKernel:
		return "the kernel's list of locks cannot be read: " + w.Detail
	case lock.WarnChanging:
		return "the lock changes hands faster than it can be looked at"
	case lock.WarnOtherHolder:
		return "the kernel shows another holder than the record"
	case lock.WarnNoKernelLock:
		return "the process that the record names lives, and has closed the lock: the record alone keeps it"
	case lock.WarnNamespace:
		return "holders and waiters outside of this PID namespace (container) are not visible from here"
	case lock.WarnHidden:
		return "processes of other users are not visible from here"
	case lock.WarnUnseen:
		return "the descriptors of " + w.Detail + " processes may not be read: root sees more"
	case lock.WarnLost:
		return "the lock file was deleted or replaced, and the old one is kept locked by " + w.Detail
	case lock.WarnFileSystem:
		return "it is on a file system of type " + w.Detail + ": its locks may be seen by this machine alone, or not at all"
	case lock.WarnSticky:
		return "in this directory other users' programs may not open the file as flock(1) does (fs.protected_regular)"
	case lock.WarnMode:
		return "with mode " + w.Detail + " every user can open the file, and keep the lock from others"
	case lock.WarnClock:
		return "the record tells of the future: the clock was set back, or another machine's goes ahead"
	}
	return string(w.Code)
}

// next is the one thing to do about a lock.
func next(r *lock.Report) string {
	reclaim := "xlock reclaim " + shellQuote(r.Path)
	switch r.State {
	case lock.Abandoned:
		if lost := warningOf(r, lock.WarnLost); lost != nil {
			return "wait for " + lost.Detail + " to end: the next 'xlock run' would run beside its command"
		}
		return "nothing, the next 'xlock run' takes it; or: " + reclaim
	case lock.UnknownState:
		return lookThere(r) + "; this frees the lock if the kernel proves it gone: " + reclaim
	case lock.Held:
		return nextOfHeld(r)
	}
	return ""
}

func nextOfHeld(r *lock.Report) string {
	if sleepers := stopped(r); len(sleepers) > 0 {
		return "it is stopped: fg in its terminal, or: kill -CONT " + strings.Join(sleepers, " ")
	}
	switch {
	case r.Liveness == identity.Unknown && len(kernelHolders(r)) == 0:
		return lookThere(r)
	case r.Liveness == identity.Unknown, r.Reason == lock.ReasonKernelLock, r.Reason == lock.ReasonShared:
		return nextOfKernelLock(r)
	case warningOf(r, lock.WarnNoKernelLock) != nil:
		return fmt.Sprintf("wait for pid %d; if you know that it is done: xlock reclaim --force --if-generation %d %s",
			r.Blocker.PID, r.Content.Record.Generation, shellQuote(r.Path))
	case r.Blocker != nil:
		return fmt.Sprintf("wait for pid %d to end%s", r.Blocker.PID, jobOf(r))
	}
	return "wait"
}

func warningOf(r *lock.Report, code lock.WarningCode) *lock.Warning {
	for i := range r.Warnings {
		if r.Warnings[i].Code == code {
			return &r.Warnings[i]
		}
	}
	return nil
}

// kernelHolders are those in whom the lock is open now.
func kernelHolders(r *lock.Report) (pids []string) {
	for _, h := range r.Kernel.Holders {
		if h.Source == fdprobe.FDInfo {
			pids = append(pids, strconv.Itoa(h.PID))
		}
	}
	return pids
}

// nextOfKernelLock names whom to wait for.
func nextOfKernelLock(r *lock.Report) string {
	pids := kernelHolders(r)
	if len(pids) == 0 {
		return "look as root, and in the containers of this machine: sudo xlock inspect " + shellQuote(r.Path)
	}
	return "wait for pid " + strings.Join(pids, ", ") + " to end"
}

// stopped lists the numbers of those who hold the lock and are stopped.
func stopped(r *lock.Report) []string {
	var pids []string
	add := func(s lock.Seen) {
		if pid := strconv.Itoa(s.PID); s.Activity == identity.Stopped && !slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	if r.Evidence == nil {
		return nil
	}
	for _, party := range []*lock.Party{r.Evidence.Owner, r.Evidence.Command} {
		if party != nil {
			add(party.Seen)
		}
	}
	for _, h := range r.Kernel.Holders {
		if h.Source == fdprobe.FDInfo { // the number of a taker that has ended may be another's
			add(r.Evidence.Seen[h.PID])
		}
	}
	return pids
}

// lookThere says where a holder lives that cannot be looked up.
func lookThere(r *lock.Report) string {
	record := r.Content.Record
	switch {
	case record == nil:
		return "look where its holder runs"
	case jobOf(r) != "":
		return "look at" + strings.TrimPrefix(jobOf(r), ", see")
	case r.Identity == identity.OtherMachine && record.Host != "":
		return "look on the machine " + record.Host + ", there: xlock inspect " + shellQuote(r.Path)
	case r.Identity == identity.OtherPIDNamespace && record.Host != "":
		return "look in the container (or outside of this one) whose host name is " + record.Host
	}
	return "look where its holder runs"
}

// jobOf is the address of the CI job, which the label has.
func jobOf(r *lock.Report) string {
	if record := r.Content.Record; record != nil && strings.Contains(record.Label, "://") {
		return ", see " + record.Label
	}
	return ""
}
