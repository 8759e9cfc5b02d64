package measure

import (
	"fmt"
	"slices"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/report"
)

// The names of the claims of [Served] and [Links]. Controls refer to claims by these names.
const (
	NoFailedCreation = "no failed creation"
	NoLostLink       = "no lost link"
	NoWrongLink      = "no wrong link"
	NoCodeTwice      = "no code twice"
)

// Served returns the claim that no creation failed. text is the sentence of the claim. If no creation succeeded
// at all, the failure is certain ([experiment.Verdict.Certain]), because a busy machine does not make every
// creation fail.
func Served[R any](text string, figures func(*R) loadtest.Figures) experiment.Claim[R] {
	return experiment.Claim[R]{Name: NoFailedCreation, Text: text, Unit: "failed creations", Kind: report.Availability, Judge: func(r *R) experiment.Verdict {
		f := figures(r)
		if f.Sent+f.Unsent == 0 {
			return experiment.Verdict{}
		}
		v := experiment.None(f.Failed(), "%d of %d creations failed: %d were refused, %d got no valid answer and %d were not sent",
			f.Failed(), f.Sent+f.Unsent, f.Refused, f.Unknown, f.Unsent)
		if f.Acknowledged == 0 {
			v = v.Certain()
		}
		return v
	}}
}

// Accounts returns the claim of [Served] about all creations of the loads whose links were checked, and then the
// claims of [Links].
func Accounts[R any](served string, links func(*R) *loadtest.Verdict) []experiment.Claim[R] {
	all := Served(served, func(r *R) (f loadtest.Figures) {
		if v := links(r); v != nil {
			f = v.Figures
		}
		return f
	})
	return append([]experiment.Claim[R]{all}, Links(links)...)
}

// Links returns the claims about acknowledged links. The function links returns the verdict of the check that
// read the links back, or nil if there was no check. A claim fails if the check found a fault of its kind. The
// claim about lost links also fails if a link could not be read. A claim that does not fail holds only if all
// acknowledged links were read back. Otherwise it is not judged, because a link that was not read back may have
// the fault.
func Links[R any](links func(*R) *loadtest.Verdict) []experiment.Claim[R] {
	on := func(name, unit, text string, bad func(*loadtest.Verdict) (int64, string)) experiment.Claim[R] {
		return experiment.Claim[R]{Name: name, Text: text, Unit: unit, Kind: report.Correctness, Judge: func(r *R) experiment.Verdict {
			v := links(r)
			if v == nil || v.Sent+v.Unsent == 0 {
				return experiment.Verdict{}
			}
			n, why := bad(v)
			if read := v.Checked - v.Unread; n == 0 && (v.Acknowledged == 0 || read < v.Acknowledged) {
				return experiment.NotJudged("only %d of %d acknowledged links were read back", read, v.Acknowledged)
			}
			return experiment.None(n, "%s", why)
		}}
	}
	return []experiment.Claim[R]{
		on(NoLostLink, "lost or unread links", "No acknowledged link is lost.", func(v *loadtest.Verdict) (int64, string) {
			return v.Lost + v.Unread, fmt.Sprintf("of %d checked links, %d led nowhere and %d could not be read", v.Checked, v.Lost, v.Unread)
		}),
		on(NoWrongLink, "wrong links", "Every acknowledged link leads to the URL that it was created for.", func(v *loadtest.Verdict) (int64, string) {
			return v.Wrong, fmt.Sprintf("%d of %d links that were read back led to another URL", v.Wrong, v.Checked-v.Unread)
		}),
		on(NoCodeTwice, "duplicates", "No code is acknowledged twice, and no creation is stored twice.", func(v *loadtest.Verdict) (int64, string) {
			return v.Twice, fmt.Sprintf("%d duplicates were found among %d acknowledged links", v.Twice, v.Acknowledged)
		}),
	}
}

// LinkControls returns controls that refute the claims of [Links].
func LinkControls() []experiment.Control {
	return []experiment.Control{
		{Without: []string{"store"}, Refutes: NoLostLink},
		{Without: []string{"once", "conflict"}, Refutes: NoCodeTwice, AlsoRefutes: []string{NoWrongLink}},
	}
}

// ReadBack restarts the server and reads every acknowledged link of the loads back through it. The restart empties
// the cache, so the answers show what the store contains. ReadBack does not restart a deployment, which the
// experiment did not start. After an interruption of the run, ReadBack does not wait until the server is ready,
// because the check repeats its requests. The notes describe wrong links and failed creations.
func ReadBack(t lab.T, p *lab.Program, census loadtest.Census, loads ...*lab.Load) (links *loadtest.Verdict, notes []string) {
	if p.Dir != "" { // the program is not a deployment
		p.Stop()
		p.Launch()
		if t.Context().Err() == nil {
			p.AwaitReady(lab.Patience)
		}
	}
	v := lab.Check(t, p, census, loads...)
	notes = slices.Clone(v.Reports)
	for _, load := range loads {
		notes = append(notes, FailureNotes(load.Entries())...)
	}
	return &v, notes
}

// shownFailures is the largest number of failures that [FailureNotes] describes for each state.
const shownFailures = 3

// FailureNotes describes creations that were not acknowledged: the first three of each state.
func FailureNotes(entries []loadtest.Entry) []string {
	var notes []string
	seen := make(map[loadtest.State]int)
	for _, e := range entries {
		if e.State == loadtest.Acknowledged {
			continue
		}
		if seen[e.State]++; seen[e.State] <= shownFailures {
			notes = append(notes, fmt.Sprintf("Creation %d, sent at %s, has the outcome %s: %s", e.N, e.At.Format("15:04:05.000"), e.State, e.Detail))
		}
	}
	return notes
}
