package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"xlock/internal/fdprobe"
	"xlock/internal/identity"
	"xlock/internal/lock"
)

// holderJSON is who holds a lock, or held it last.
type holderJSON struct {
	State    lock.State        `json:"state"`
	Liveness identity.Liveness `json:"liveness,omitempty"`
	Identity identity.Word     `json:"identity,omitempty"`
	Reason   lock.Reason       `json:"reason"`
	*recordJSON
}

// recordJSON are the fields that come from the record.
type recordJSON struct {
	Owner      *identity.Process `json:"owner,omitempty"`
	Command    *lock.Command     `json:"command,omitempty"`
	Mode       lock.Mode         `json:"mode,omitempty"`
	Generation uint64            `json:"generation"`
	Host       string            `json:"host,omitempty"`
	User       string            `json:"user,omitempty"`
	UID        *int              `json:"uid,omitempty"`
	Label      string            `json:"label,omitempty"`
	Acquired   *time.Time        `json:"acquired,omitempty"`
	Released   *time.Time        `json:"released,omitempty"`
	Outcome    *lock.Outcome     `json:"outcome,omitempty"`
	HeldFor    *float64          `json:"held_seconds,omitempty"`
	Broken     *lock.Break       `json:"broken,omitempty"`
}

func jsonHolder(h lock.Holder) *holderJSON {
	holder := &holderJSON{State: h.State, Liveness: h.Liveness, Identity: h.Identity, Reason: h.Reason}
	if record := h.Record; record != nil {
		holder.recordJSON = &recordJSON{
			Owner:      record.Owner,
			Command:    record.Command,
			Mode:       record.Mode,
			Generation: record.Generation,
			Host:       record.Host,
			User:       record.User,
			UID:        record.UID,
			Label:      record.Label,
			Acquired:   record.Acquired,
			Released:   record.Released,
			Outcome:    record.Outcome,
			Broken:     record.Broken,
		}
		if held := heldFor(record); held != nil {
			seconds := held.Seconds()
			holder.HeldFor = &seconds
		}
	}
	return holder
}

// reportJSON is the object of inspect --json. docs/inspect-json.md has its fields,
// which are part of xlock's interface.
type reportJSON struct {
	Lock string `json:"lock"`
	*holderJSON
	OwnerProcess   *lock.Party        `json:"owner_process,omitempty"`
	CommandProcess *lock.Party        `json:"command_process,omitempty"`
	Holders        []kernelHolderJSON `json:"holders"`
	Waiters        []lock.Seen        `json:"waiters"`
	ReadersWaiting int                `json:"readers_waiting,omitempty"`
	Ranges         []rangeJSON        `json:"ranges,omitempty"`
	Warnings       []warningJSON      `json:"warnings"`
	Next           string             `json:"next,omitempty"`
}

// kernelHolderJSON is a holder that the kernel shows.
type kernelHolderJSON struct {
	PID    int            `json:"pid"`
	Source fdprobe.Source `json:"source"`
	lock.Seen
}

// rangeJSON is a lock of fcntl(2).
type rangeJSON struct {
	PID    int            `json:"pid,omitempty"`
	Source fdprobe.Source `json:"source"`
	OFD    bool           `json:"ofd"`
	Shared bool           `json:"shared"`
	Start  int64          `json:"start"`
	Len    int64          `json:"length"` // 0: to the end of the file
}

type warningJSON struct {
	Code    lock.WarningCode `json:"code"`
	Message string           `json:"message"`
}

func jsonReport(r *lock.Report) reportJSON {
	p := &reportText{r: r}
	object := reportJSON{
		Lock:       r.Path,
		holderJSON: jsonHolder(r.Holder()),
		Holders:    []kernelHolderJSON{},
		Waiters:    []lock.Seen{},
		Warnings:   []warningJSON{},
		Next:       next(r),
	}
	if e := r.Evidence; e != nil {
		object.OwnerProcess, object.CommandProcess = e.Owner, e.Command
	}
	for _, h := range r.Kernel.Holders {
		object.Holders = append(object.Holders, kernelHolderJSON{h.PID, h.Source, p.seen(h.PID)})
	}
	for _, pid := range r.Kernel.Waiters {
		object.Waiters = append(object.Waiters, p.seen(pid))
	}
	object.ReadersWaiting = r.Kernel.Readers
	for _, held := range r.Kernel.Ranges {
		object.Ranges = append(object.Ranges, rangeJSON{max(held.PID, 0), held.Source, held.OFD, held.Shared, held.Start, held.Len})
	}
	for _, w := range r.Warnings {
		object.Warnings = append(object.Warnings, warningJSON{w.Code, warningText(w)})
	}
	return object
}

// reclaimJSON is the object of reclaim --json.
type reclaimJSON struct {
	Lock string `json:"lock"`
	*holderJSON
	Action  lock.Action `json:"action"`
	Forced  bool        `json:"forced"`
	DryRun  bool        `json:"dry_run"`
	Message string      `json:"message"`
}

// encodeLine makes a line of JSON that is safe to print.
func encodeLine(value any) (string, error) {
	var line strings.Builder
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	err := enc.Encode(value)
	return escapeJSON(line.String()), err
}

func writeJSON(w io.Writer, value any) error {
	line, err := encodeLine(value)
	if err != nil {
		return err
	}
	return write(w, line)
}

// escapeJSON makes a line of JSON safe to print: the encoder leaves all but the
// oldest control characters as they are. Outside of strings it has none, and
// within them the value stays the same.
func escapeJSON(line string) string {
	var b strings.Builder
	for _, r := range line {
		if r == '\n' || unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}
