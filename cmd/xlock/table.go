package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"xlock/internal/fdprobe"
	"xlock/internal/lock"
)

// inspectDirectory shows the lock files of a directory: as a table, or as objects
// with --json.
func inspectDirectory(w io.Writer, opts inspectOptions, dir string) (worst statusError, err error) {
	reports, worst := lockFiles(dir)
	switch plain := opts.is == "" && !opts.json; {
	case plain && len(reports) == 0 && worst == 0:
		return 0, tell(w, dir+": no lock files")
	case plain:
		return worst, table(w, reports)
	}
	status, err := showAll(w, opts, reports)
	return max(worst, status), err
}

// lockFiles inspects the lock files of a directory: those with a record, and empty
// ones that are named *.lock or are held. Whatever else is there is passed over; what
// may not be read is told, and is a status.
func lockFiles(dir string) (reports []*lock.Report, worst statusError) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		say(os.Stderr, describe(err))
		worst = statusError(statusOf(err))
	}
	var paths []string
	for _, entry := range entries {
		if entry.Type().IsRegular() && !isBeside(entry.Name()) {
			paths = append(paths, filepath.Join(dir, entry.Name()))
		}
	}
	for _, found := range lock.InspectAll(paths) {
		switch {
		case errors.Is(found.Err, lock.ErrNotLockFile):
		case found.Err != nil:
			say(os.Stderr, describe(found.Err))
			worst = max(worst, statusError(statusOf(found.Err)))
		case found.Report.Content.Kind != lock.Empty, found.Report.State != lock.Free, strings.HasSuffix(found.Path, ".lock"):
			reports = append(reports, found.Report)
		}
	}
	return reports, worst
}

// isBeside: such a file is left where a reclaim --force was killed.
func isBeside(name string) bool {
	digits := filepath.Ext(name)
	return strings.HasPrefix(name, ".") && len(digits) > 1 && strings.Trim(digits[1:], "0123456789") == ""
}

// mostName is how much of a file's name the table shows, lest a long one push the rest
// out of sight.
const mostName = 60

func table(w io.Writer, reports []*lock.Report) error {
	var text strings.Builder
	t := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "LOCK\tSTATE\tHOLDER\tSINCE\tWAITING\tLABEL")
	for _, r := range reports {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\n",
			cut(escape(filepath.Base(r.Path)), mostName), r.State, escape(holderCell(r)), sinceCell(r), len(r.Kernel.Waiters), escape(labelCell(r)))
	}
	t.Flush()
	return write(w, text.String())
}

// holderCell names who holds the lock, as short as can be.
func holderCell(r *lock.Report) string {
	switch record := r.Content.Record; {
	case r.State == lock.Free:
		return "-"
	case r.Reason == lock.ReasonShared:
		return readersCell(r)
	case r.Reason != lock.ReasonKernelLock && record != nil:
		name := ""
		if record.Command != nil && record.Command.Name != "" {
			name = " (" + record.Command.Name + ")"
		}
		if r.Blocker != nil {
			return fmt.Sprintf("pid %d%s", r.Blocker.PID, name)
		}
		return fmt.Sprintf("pid %d%s", record.Owner.PID, name)
	case len(r.Kernel.Holders) > 0:
		last := r.Kernel.Holders[len(r.Kernel.Holders)-1]
		return fmt.Sprintf("pid %d", last.PID)
	}
	return "?"
}

// readersCell counts those who took the lock.
func readersCell(r *lock.Report) string {
	takers := 0
	for _, h := range r.Kernel.Holders {
		if h.Source == fdprobe.ProcLocks {
			takers++
		}
	}
	if takers <= 1 {
		return "1 reader"
	}
	return fmt.Sprintf("%d readers", takers)
}

// mostAge: a clock that was set to nothing in between tells no age.
const mostAge = 50 * 365 * 24 * time.Hour

func sinceCell(r *lock.Report) string {
	record := r.Content.Record
	if r.State == lock.Free || r.Reason == lock.ReasonKernelLock || r.Reason == lock.ReasonShared || record == nil || record.Acquired == nil {
		return "-"
	}
	age := time.Since(*record.Acquired).Truncate(time.Second)
	if age < 0 || age > mostAge {
		return "?"
	}
	return age.String()
}

func labelCell(r *lock.Report) string {
	if record := r.Content.Record; record != nil && record.Label != "" && r.State != lock.Free && r.Reason != lock.ReasonShared {
		return record.Label
	}
	return "-"
}
