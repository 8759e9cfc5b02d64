package fault

import (
	"fmt"
	"slices"

	"keypool/loadtest/experiment"
	"keypool/loadtest/report"
)

// claim is what a row promises.
type claim = experiment.Claim[Record]

// The names of the claims that controls refute and that several rows make.
const (
	kept      = "links are kept"
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

// struck is a Judge that judges nothing when the fault did not happen.
func struck(judge func(*Record) experiment.Verdict) func(*Record) experiment.Verdict {
	return func(r *Record) experiment.Verdict {
		if r.Strikes == 0 {
			return experiment.NotJudged("the fault did not happen")
		}
		return judge(r)
	}
}

// observed is a claim that a row observes itself, by its name.
func observed(name, text string) claim {
	return claim{
		Name: name, Text: text, Kind: report.Correctness,
		Judge: struck(func(r *Record) experiment.Verdict { return r.verdict(name) }),
	}
}

// counted is an observed claim with figures.
func counted(name, unit, text string) claim {
	c := observed(name, text)
	c.Unit = unit
	return c
}

// timed is a claim on a time, whose limit the row observes with the time.
func timed(name, text string) claim {
	return claim{
		Name: name, Text: text, Kind: report.Speed, Unit: "s",
		Judge: struck(func(r *Record) experiment.Verdict { return r.verdict(name).Unless(r.Unfit) }),
	}
}

// theLinks are the claims on all links of a row: the guarantees I1 to I3, and I4.
func theLinks(further ...claim) []claim {
	return append(slices.Concat(linksOf("acknowledged link"), []claim{accountsClose()}), further...)
}

// linksOf are the claims on the links that the words name: the guarantees I1 to I3.
func linksOf(links string) []claim {
	on := func(name, text string, bad func(*Record) (int64, string)) claim {
		return claim{Name: name, Text: text, Kind: report.Correctness, Unit: "links", Judge: struck(func(r *Record) experiment.Verdict {
			if r.Links == nil {
				return experiment.Verdict{}
			}
			n, what := bad(r)
			why := fmt.Sprintf("of %d links %d %s", r.Links.Checked, n, what)
			if n > 0 && len(r.Links.Reports) > 0 {
				why += ": " + r.Links.Reports[0]
			}
			if r.Links.Checked == 0 {
				return experiment.Holds(false, "no link was acknowledged")
			}
			return experiment.None(n, "%s", why)
		})}
	}
	return []claim{
		on(kept, "No "+links+" is lost: each can be read back through every server after a restart.",
			func(r *Record) (int64, string) { return r.Links.Lost + r.Links.Unread, "are lost or cannot be read" }),
		on("links are right", "Every "+links+" leads to exactly the URL that was sent.",
			func(r *Record) (int64, string) { return r.Links.Wrong, "are wrong" }),
		on(once, "No code is acknowledged for two creations, and no creation is stored twice.",
			func(r *Record) (int64, string) { return r.Links.Twice, "are there twice" }),
	}
}

// accountsClose is the guarantee I4.
func accountsClose() claim {
	return claim{
		Name: closed, Text: "The accounts close: each reserved key is in the pool, in a batch, under way, linked, or abandoned for a reason.",
		Kind: report.Correctness, Judge: struck(func(r *Record) experiment.Verdict {
			if r.Accounts == nil {
				return experiment.Verdict{}
			}
			if len(r.Unclosed) > 0 {
				return experiment.Holds(false, "%.2000s", r.Unclosed[0])
			}
			return experiment.Holds(true, "%d keys are linked; abandoned: %s", r.Accounts.Linked, reasons(r.Accounts.Abandoned))
		}),
	}
}

// keysAre is a claim on the faults that audits find.
func keysAre(name, text string, kinds ...string) claim {
	return claim{Name: name, Text: text, Kind: report.Correctness, Unit: "keys", Judge: struck(func(r *Record) experiment.Verdict {
		if r.Accounts == nil {
			return experiment.Verdict{}
		}
		n := 0
		for _, kind := range kinds {
			n += r.Faults[kind]
		}
		return experiment.None(int64(n), "an audit finds %d such keys", n)
	})}
}

func keysAreUnique() claim {
	return keysAre(keysOnce, "No key is in two places that hand out keys, and no linked key waits to be handed out.", "duplicate", "reused")
}

func noKeyIsMissing() claim {
	return keysAre(keysKept, "No key disappears: each reserved key is accounted for.", "missing")
}

// availableTo is the guarantee I5.
func availableTo(percent float64) claim {
	return claim{
		Name: available, Text: fmt.Sprintf("At least %g %% of the creations get their link while the fault lasts.", percent),
		Kind: report.Correctness, Unit: "%", Judge: struck(func(r *Record) experiment.Verdict {
			if r.Served == nil {
				return experiment.Verdict{}
			}
			return experiment.AtLeast(percent, availability(*r.Served), "%d of %d creations got their link: %d were refused, %d have no known outcome, %d could not be sent",
				r.Served.Acknowledged, r.Served.Sent+r.Served.Unsent, r.Served.Refused, r.Served.Unknown, r.Served.Unsent)
		}),
	}
}

// noneFails is I5 where nothing may be noticed.
func noneFails(where string) claim {
	c := availableTo(100)
	c.Name, c.Text = unfailing, "No creation fails "+where+"."
	return c
}
