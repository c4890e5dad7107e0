package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

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
		}
	}
	return holder
}

// encodeLine makes a line of JSON that is safe to print.
func encodeLine(value any) (string, error) {
	var line strings.Builder
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false)
	err := enc.Encode(value)
	return escapeJSON(line.String()), err
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
