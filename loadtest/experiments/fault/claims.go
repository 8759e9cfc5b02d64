package fault

import (
	"fmt"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/report"
)

// Record is what a row observes.
type Record struct {
	Strikes   int              // how often the fault was injected
	Created   loadtest.Figures // of all links that were read back
	Served    loadtest.Figures // of the creations that the row demands an availability of
	Slowest   time.Duration    // of all creations
	Abandoned map[string]int64 // keys, by reason, of the last audit

	seen map[string]observation // by claim
}

// observation is that observation of a claim which speaks most against it, the last of such.
type observation struct {
	experiment.Verdict
	against float64
}

// claim is what a row promises. A row observes it by its name.
type claim = experiment.Claim[Record]

// The names of the claims that controls refute and that several rows make.
const (
	kept      = "links are kept"
	right     = "links are right"
	once      = "links are unique"
	closed    = "accounts close"
	keysOnce  = "keys are unique"
	keysKept  = "keys are kept"
	available = "available"
	unfailing = "no failure"
	returned  = "keys are returned"
	abandoned = "abandoned keys"
	recovers  = "recovers"
	refusal   = "refuses"
)

// promise is a claim that is not judged when the fault did not happen.
func promise(kind report.Kind, name, unit, text string, judge func(*Record) experiment.Verdict) claim {
	return claim{Name: name, Text: text, Unit: unit, Kind: kind, Judge: func(r *Record) experiment.Verdict {
		if r.Strikes == 0 {
			return experiment.NotJudged("the fault did not happen")
		}
		return judge(r)
	}}
}

func observed(name, text string) claim { return counted(name, "", text) }

// counted is an observed claim with figures.
func counted(name, unit, text string) claim {
	return promise(report.Correctness, name, unit, text, func(r *Record) experiment.Verdict { return r.seen[name].Verdict })
}

// timed is a claim on a time, whose limit the row observes with the time.
func timed(name, text string) claim {
	return promise(report.Speed, name, "s", text, func(r *Record) experiment.Verdict { return r.seen[name].Verdict })
}

// theLinks are the claims on all links of a row: the guarantees I1 to I3, and I4.
func theLinks(further ...claim) []claim { return linksOf("acknowledged link", further...) }

// linksOf are theLinks for those links that the words name.
func linksOf(links string, further ...claim) []claim {
	return append([]claim{
		counted(kept, "links", "No "+links+" is lost: each can be read back through every server after a restart."),
		counted(right, "links", "Every "+links+" leads to exactly the URL that was sent."),
		counted(once, "links", "No code is acknowledged for two creations, and no creation is stored twice."),
		accountsClose(),
	}, further...)
}

// accountsClose is the guarantee I4.
func accountsClose() claim {
	return observed(closed, "The accounts close: each reserved key is in the pool, in a batch, under way, linked, or abandoned for a reason.")
}

func keysAreUnique() claim {
	return counted(keysOnce, "keys", "No key is in two places that hand out keys, and no linked key waits to be handed out.")
}

// availableTo is the guarantee I5.
func availableTo(percent float64) claim {
	return served(available, fmt.Sprintf("At least %g %% of the creations get their link while the fault lasts.", percent), percent)
}

// noneFails is I5 where nothing may be noticed.
func noneFails(where string) claim { return served(unfailing, "No creation fails "+where+".", 100) }

// noRefusals is I5 of a server that is killed: its creations fail, and it refuses none.
func noRefusals(text string) claim {
	c := counted("refusals", "creations", text)
	c.Kind = report.Availability
	return c
}

func served(name, text string, percent float64) claim {
	return promise(report.Availability, name, "%", text, func(r *Record) experiment.Verdict {
		f := r.Served
		if f.Sent+f.Unsent == 0 {
			return experiment.Verdict{}
		}
		return experiment.AtLeast(percent, availability(f), "%d of %d creations got their link: %d were refused, %d have no known outcome, %d could not be sent",
			f.Acknowledged, f.Sent+f.Unsent, f.Refused, f.Unknown, f.Unsent)
	})
}

// availability is the share of creations that got their link, in percent.
func availability(f loadtest.Figures) float64 {
	return 100 * float64(f.Acknowledged) / float64(max(1, f.Sent+f.Unsent))
}

// strike counts n injections of the fault.
func (r *run) strike(n int) { r.record.Strikes += n }

// observe records one observation of a claim.
func (r *run) observe(claim string, against float64, v experiment.Verdict) {
	if r.record.seen == nil {
		r.record.seen = make(map[string]observation)
	}
	if was, known := r.record.seen[claim]; !known || against >= was.against {
		r.record.seen[claim] = observation{v, against}
	}
}

// saw records that the claim is right or wrong.
func (r *run) saw(claim string, ok bool, format string, args ...any) {
	against := 0.0
	if !ok {
		against = 1
	}
	r.observe(claim, against, experiment.Holds(ok, format, args...))
}

// must is saw, and ends the run when the claim is wrong.
func (r *run) must(claim string, ok bool, format string, args ...any) {
	if !ok {
		r.Refute(claim, format, args...)
	}
	r.saw(claim, true, format, args...)
}

// figure records a figure that must not be above bound.
func (r *run) figure(claim string, bound, observed float64, format string, args ...any) {
	r.observe(claim, observed-bound, experiment.AtMost(bound, observed, format, args...))
}

// took records how long something took that must not take longer than limit.
func (r *run) took(claim string, limit, took time.Duration) {
	r.figure(claim, limit.Seconds(), took.Seconds(), "%v, %v allowed", took.Round(time.Millisecond), limit)
}

// becomes waits until ok is true, which the claim promises. When that takes longer than a minute
// the claim is refuted and the run ends.
func (r *run) becomes(claim, what string, ok func() bool) {
	began := time.Now()
	done := lab.Happens(r, patient, ok)
	r.must(claim, done, "%s: %t after %v", what, done, time.Since(began).Round(10*time.Millisecond))
}

// sawAbandoned records that only the keys of killed servers are abandoned, of which there are crashed.
func (r *run) sawAbandoned(a lab.Accounts, crashed int64) {
	r.saw(abandoned, a.Lost() == crashed && a.Abandoned["crash"] == crashed, "abandoned: %s; killed servers had %d keys", reasons(a.Abandoned), crashed)
}

// sawLinks records what a check found.
func (r *run) sawLinks(v loadtest.Verdict) {
	r.record.Created = v.Figures
	if v.Checked == 0 {
		r.Refute(kept, "no link was acknowledged")
	}
	why := fmt.Sprintf("%d links were read back", v.Checked)
	if len(v.Reports) > 0 {
		why += ", such as: " + v.Reports[0]
	}
	r.figure(kept, 0, float64(v.Lost+v.Unread), "%d lost, %d unreadable; %s", v.Lost, v.Unread, why)
	r.figure(right, 0, float64(v.Wrong), "%d wrong; %s", v.Wrong, why)
	r.figure(once, 0, float64(v.Twice), "%d twice; %s", v.Twice, why)
}

// sawAccounts records what an audit found.
func (r *run) sawAccounts(a lab.Accounts) {
	r.record.Abandoned = a.Abandoned
	r.saw(closed, a.Closes, "%d keys are linked; abandoned: %s. %.2000s", a.Linked, reasons(a.Abandoned), a.Problem())
	faults := make(map[string]float64)
	for _, f := range a.Faults {
		faults[f.Kind]++
	}
	r.figure(keysOnce, 0, faults["duplicate"]+faults["reused"], "an audit finds: %v", faults)
	r.figure(keysKept, 0, faults["missing"], "an audit finds: %v", faults)
}
