package fault

import (
	"fmt"
	"time"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/report"
)

// Record holds what a row observes.
type Record struct {
	Strikes   int              // number of injections of the fault
	Created   loadtest.Figures // figures of the creations whose links were read back
	Served    loadtest.Figures // figures of the creations that the availability claim is about
	Slowest   time.Duration    // latency of the slowest creation; 0 if the row does not record it
	Abandoned map[string]int64 // number of keys by reason, from the last audit
	Worker    workerLatency    // latencies in the fault rows in which a worker of Citus is killed or frozen
	Visits    visitTotals      // redirects and stored visits of all links that were compared

	seen map[string]observation // the worst observation of each claim, by the name of the claim
}

// observation is the worst observation of a claim. If several observations are equally bad, it is the last one.
type observation struct {
	experiment.Verdict
	against float64 // how bad the observation is: a figure minus its bound; without a figure, 1 if the claim is wrong and 0 if it is right
}

// claim is a claim that a row makes. The row records observations under the name of the claim.
type claim = experiment.Claim[Record]

// The names of claims that must fail in a control, or that several fault rows make.
const (
	kept      = "no lost link"
	right     = "no wrong link"
	once      = "no code twice"
	closed    = "accounts close"
	keysOnce  = "each key in one place"
	keysKept  = "no missing key"
	available = "creations succeed"
	unfailing = "no failed creation"
	returned  = "unused keys returned"
	abandoned = "abandoned keys"
	recovers  = "recovery after the fault"
	refusal   = "refused with 503 and Retry-After"
	noStart   = "programs refuse to start"
)

// ifInjected returns a claim that is not judged if the fault was not injected.
func ifInjected(kind report.Kind, name, unit, text string, judge func(*Record) experiment.Verdict) claim {
	return claim{Name: name, Text: text, Unit: unit, Kind: kind, Judge: judge}.When(func(r *Record) bool { return r.Strikes > 0 })
}

// observed returns a correctness claim without figures.
func observed(name, text string) claim { return counted(name, "", text) }

// counted returns a correctness claim with figures in the given unit.
func counted(name, unit, text string) claim {
	return ifInjected(report.Correctness, name, unit, text, func(r *Record) experiment.Verdict { return r.seen[name].Verdict })
}

// timed returns a claim about a time in seconds. The row records the time together with its limit.
func timed(name, text string) claim {
	return ifInjected(report.Speed, name, "s", text, func(r *Record) experiment.Verdict { return r.seen[name].Verdict })
}

// theLinks returns the claims about all links of a row, followed by the further claims. The claims about
// links are the guarantees I1 to I4 of docs/guarantees.md.
func theLinks(further ...claim) []claim { return linksOf("acknowledged link", "", further...) }

// linksOf is like theLinks, but its claims concern only some links. The parameter link is the term for one of
// these links in the text of the claims. The parameter definition is a sentence that defines the term, or "" if
// the term needs no definition.
func linksOf(link, definition string, further ...claim) []claim {
	if definition != "" {
		definition += " "
	}
	return append([]claim{
		counted(kept, "lost or unread links", definition+"No "+link+" is lost. After a restart, every "+link+" can be read back through every server."),
		counted(right, "wrong links", definition+"Every "+link+" leads to exactly the URL that was sent."),
		counted(once, "duplicates", definition+"No two "+link+"s have the same code, and no creation is stored twice."),
		accountsClose(),
	}, further...)
}

// accountsClose returns the claim for the guarantee I4.
func accountsClose() claim {
	return observed(closed, "The accounts close: each reserved key is in exactly one place. A key can be linked, in the pool, on its way to the pool, in a batch of a server, "+
		"or abandoned for a recorded reason.")
}

// keysAreUnique returns the claim that no key can be handed out twice.
func keysAreUnique() claim {
	return counted(keysOnce, "keys in two places", "No key that can still be handed out is in two places. No key that is already linked can be handed out again.")
}

// availableTo returns the claim for the guarantee I5 that the given percentage of the creations succeeds.
func availableTo(percent float64) claim {
	return served(available, fmt.Sprintf("Despite the fault, at least %g %% of the creations are acknowledged.", percent), percent)
}

// noneFails returns the claim for the guarantee I5 in a fault row in which every creation must succeed.
func noneFails(where string) claim { return served(unfailing, "No creation fails "+where+".", 100) }

// uninterrupted returns an availability claim with figures in the given unit, such as failed redirects.
func uninterrupted(name, unit, text string) claim {
	c := counted(name, unit, text)
	c.Kind = report.Availability
	return c
}

// served returns a claim about the share of creations in Record.Served that are acknowledged.
func served(name, text string, percent float64) claim {
	return ifInjected(report.Availability, name, "%", text, func(r *Record) experiment.Verdict {
		f := r.Served
		if f.Sent+f.Unsent == 0 {
			return experiment.Verdict{}
		}
		v := experiment.AtLeast(percent, availability(f), "%d of %d creations were acknowledged; %d were refused, %d have an unknown outcome, and %d were not sent",
			f.Acknowledged, f.Sent+f.Unsent, f.Refused, f.Unknown, f.Unsent)
		if f.Acknowledged == 0 {
			v = v.Certain()
		}
		return v
	})
}

// availability returns the share of creations that were acknowledged, in percent.
func availability(f loadtest.Figures) float64 {
	return 100 * float64(f.Acknowledged) / float64(max(1, f.Sent+f.Unsent))
}

// strike records n injections of the fault.
func (r *run) strike(n int) { r.record.Strikes += n }

// observe records one observation of a claim. It keeps only the worst: the one with the greatest value of against.
func (r *run) observe(claim string, against float64, v experiment.Verdict) {
	if r.record.seen == nil {
		r.record.seen = make(map[string]observation)
	}
	if was, known := r.record.seen[claim]; !known || against >= was.against {
		r.record.seen[claim] = observation{v, against}
	}
}

// saw records whether the claim is right.
func (r *run) saw(claim string, ok bool, format string, args ...any) {
	against := 0.0
	if !ok {
		against = 1
	}
	r.observe(claim, against, experiment.Holds(ok, format, args...))
}

// must is like saw, but it ends the run if the claim is wrong.
func (r *run) must(claim string, ok bool, format string, args ...any) {
	if !ok {
		r.Refute(claim, format, args...)
	}
	r.saw(claim, true, format, args...)
}

// figure records an observed figure, which must be at most bound.
func (r *run) figure(claim string, bound, observed float64, format string, args ...any) {
	r.observe(claim, observed-bound, experiment.AtMost(bound, observed, format, args...))
}

// took records an observed duration, which must be at most limit.
func (r *run) took(claim string, limit, duration time.Duration) {
	r.figure(claim, limit.Seconds(), duration.Seconds(), "the slowest measured time is %v, and the limit is %v", duration.Round(time.Millisecond), limit)
}

// becomes waits until ok returns true, and records that the claim is right. If ok returns false for longer than a
// minute, becomes refutes the claim and ends the run. The text since names the event at which the wait begins, and
// follows the word "after". The text what is a clause that says what ok observes.
func (r *run) becomes(claim, since, what string, ok func() bool) {
	began := time.Now()
	if !lab.Happens(r, patient, ok) {
		r.Refute(claim, "within %v after %s, the run did not observe that %s", patient, since, what)
	}
	r.saw(claim, true, "%v after %s, the run observed that %s", time.Since(began).Round(10*time.Millisecond), since, what)
}

// sawAbandoned records whether exactly the keys of killed servers are abandoned. The parameter crashed is
// the number of these keys.
func (r *run) sawAbandoned(a lab.Accounts, crashed int64) {
	r.saw(abandoned, a.Lost() == crashed && a.Abandoned["crash"] == crashed,
		"%s; only the %d keys in batches of killed servers may be abandoned", abandonedKeys(a.Abandoned), crashed)
}

// sawLinks records the result of reading the links back.
func (r *run) sawLinks(v loadtest.Verdict) {
	r.record.Created = v.Figures
	if v.Checked == 0 {
		r.Refute(kept, "no link was acknowledged, so no link could be read back")
	}
	why := fmt.Sprintf("%d links were checked", v.Checked)
	if len(v.Reports) > 0 {
		why += "; the first problem is that " + v.Reports[0]
	}
	r.figure(kept, 0, float64(v.Lost+v.Unread), "%d links are lost and %d cannot be read; %s", v.Lost, v.Unread, why)
	r.figure(right, 0, float64(v.Wrong), "%d links lead to a wrong URL; %s", v.Wrong, why)
	r.figure(once, 0, float64(v.Twice), "%d links have the code of another link or are stored a second time; %s", v.Twice, why)
}

// sawAccounts records the result of an audit.
func (r *run) sawAccounts(a lab.Accounts) {
	r.record.Abandoned = a.Abandoned
	why := fmt.Sprintf("%d links have a key of the ledger (links with an alias or a random code are not counted); %s", a.Linked, abandonedKeys(a.Abandoned))
	if problem := a.Problem(); problem != "" {
		why += "; " + problem
	}
	r.saw(closed, a.Closes, "%.2000s", why)
	r.sawKeys(a)
}

// sawKeys records the keys that an audit found in two places or in none, and the linked keys that can be handed out again.
func (r *run) sawKeys(a lab.Accounts) {
	faults := make(map[string]float64)
	for _, f := range a.Faults {
		faults[f.Kind]++
	}
	r.figure(keysOnce, 0, faults["duplicate"]+faults["reused"], "the audit lists %v keys that are in two places, and %v linked keys that can be handed out again",
		faults["duplicate"], faults["reused"])
	r.figure(keysKept, 0, faults["missing"], "the audit lists %v missing keys", faults["missing"])
}
