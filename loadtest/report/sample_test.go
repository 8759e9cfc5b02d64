package report

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

func ptr(v float64) *float64 { return &v }

// sample returns a report with everything that a report can contain: claims of each kind with each
// outcome, an error, controls, and every kind of line and axis. The data are invented.
func sample() *Report {
	started := time.Date(2026, 11, 24, 14, 3, 0, 0, time.UTC)
	return &Report{
		Schema: Schema, Started: started, Seconds: 192.4, Interrupted: true,
		Command: "bin/loadtest run --rate 1000 --duration 30s create drain outage fallback", Commit: "fd22103",
		Machine: Machine{
			OS: "Debian 12.9, Linux 6.1.0-28-amd64", CPU: "AMD EPYC 7763 64-Core Processor", Cores: 2, MemGiB: 8,
			Go: "go1.26.0 linux/amd64", Servers: "PostgreSQL 15.14, Redis 7.0.15",
		},
		Experiments: []Experiment{
			sampleCreate(started), sampleDrain(started), sampleOutage(started), sampleFallback(started), sampleBars(started), sampleFault(started),
		},
	}
}

func sampleCreate(at time.Time) Experiment {
	r := rand.New(rand.NewPCG(1, 1))
	percentiles := func(base float64) (xy [][2]float64) {
		for rate := 1000.0; rate <= 20000; rate += 1000 {
			xy = append(xy, [2]float64{rate, base / (1 - rate/21000) * (0.95 + r.Float64()/10)})
		}
		return xy
	}
	return Experiment{
		Name: "create", Title: "A thousand creations a second, then up to the limit", Started: at, Seconds: 61.2,
		Summary: "The run creates 1,000 links a second for half a minute, then raises the rate in steps until the latency rises steeply. It reads " +
			"back every acknowledged link. Each link must lead to its target, and no code may be assigned twice.",
		Claims: []Claim{
			{
				Name: "no-link-lost", Text: "No acknowledged link is lost.", Kind: Correctness, Outcome: Held, Predicted: ptr(0), Observed: ptr(0), Unit: "links",
				Why: "231,402 links were acknowledged and 231,402 were read back.",
			},
			{
				Name: "p99", Text: "At 1,000 creations a second the p99 is at most 10 ms.", Kind: Speed, Outcome: Inconclusive,
				Predicted: ptr(10), Observed: ptr(14.2137), Unit: "ms",
				Why: "The median of 5 rounds is 14.2 ms; other programs took 38 % of the CPU, at most 5 % are allowed.",
			},
			{
				Name: "durable", Text: "A server that is killed loses no acknowledged link.", Kind: Correctness, Outcome: NotJudged,
				Why: "The server runs elsewhere and could not be killed.",
			},
		},
		Charts: []Chart{{
			Title: "The latency rises slowly up to 19,000 creations a second, and then steeply",
			X:     Axis{Label: "Rate", Unit: "creations/s", Log: true}, Y: Axis{Label: "Latency", Unit: "ms", Log: true},
			Series: []Series{{Name: "p50", XY: percentiles(1)}, {Name: "p99", XY: percentiles(4)}, {Name: "p99.9", XY: percentiles(9)}},
			Levels: []Mark{{At: 10, Name: "bound of the p99"}},
		}},
		Tables: []Table{{
			Title: "Each step", Columns: []string{"rate", "p50", "p99", "p99.9", "failed", "remark"},
			Rows: [][]string{{"1,000/s", "1.1 ms", "4.2 ms", "8.8 ms", "0", ""}, {"20,000/s", "19 ms", "83 ms", "190 ms", "12", "beyond the limit"}},
		}},
		Notes: []string{"The load generator shares the two cores with the server. A server on its own machine reaches a higher rate."},
	}
}

func sampleDrain(at time.Time) Experiment {
	r := rand.New(rand.NewPCG(2, 2))
	var pool, runway [][2]float64
	keys := 30000.0
	for t := 0.0; t < 70; t += 0.1 {
		switch {
		case t < 30:
			keys = max(0, keys-100-10*r.NormFloat64())
		case t > 34:
			keys = min(30000, keys+150)
		}
		pool = append(pool, [2]float64{t, keys})
		runway = append(runway, [2]float64{t, keys / (1000 + 30*r.NormFloat64())})
	}
	marks := []Mark{{0.5, "worker stopped"}, {24, "restart signal"}, {27, "page"}, {29.9, "pool empty"}, {34, "worker back"}, {53, "full again"}}
	return Experiment{
		Name: "drain", Title: "The pool drains, alerts are sent, and the worker starts again", Started: at.Add(time.Minute), Seconds: 70,
		Summary: "The worker is stopped while links are still being created. The first tenth of the drain predicts when the pool is empty. " +
			"At 20 % the service must signal restart, and at 10 % it must signal page. Then the worker starts again.",
		Settings: map[string]string{"KGS_RESTART_BELOW": "20%", "KGS_PAGE_BELOW": "10%"},
		Claims: []Claim{
			{
				Name: "exhaustion", Text: "The pool runs dry within 2 % of the predicted time.", Kind: Speed, Outcome: Held,
				Predicted: ptr(30.12), Observed: ptr(29.94), Unit: "s",
				Why: "Predicted 30.12 s, observed 29.94 s, 0.6 % early. At full size, 100,000,000 keys at 1,000/s last 27.8 h.",
			},
			{
				Name: "page", Text: "The service signals page within two seconds after the pool has fallen below 10 %.", Kind: Correctness, Outcome: Failed,
				Predicted: ptr(2), Observed: ptr(4.4), Unit: "s",
				Why: "The pool fell below 3,000 keys at 26.9 s; the webhook was called at 31.3 s.",
			},
			{
				Name: "refill", Text: "The worker fills the pool faster than the drain empties it.", Kind: Speed, Outcome: Held,
				Predicted: ptr(1000), Observed: ptr(1503204.7), Unit: "keys/s", Why: "1,503,205 keys a second.",
			},
		},
		Controls: []Control{
			{Name: "without the page signal", Refutes: "page", Caught: true, Why: "the webhook was not called within 30 s"},
			{Name: "without the restart signal", Refutes: "exhaustion", Why: "the claim held: 29.8 s observed"},
		},
		Charts: []Chart{
			{
				Title: "The pool drains as predicted and fills again when the worker is back",
				X:     Axis{Label: "Time", Unit: "s"}, Y: Axis{Label: "Keys in the pool", Unit: "keys"},
				Series: []Series{{Name: "pool", XY: pool}, {Name: "exhaustion", Predicted: true, XY: [][2]float64{{0, 30000}, {30.12, 0}}}},
				Marks:  marks, Levels: []Mark{{6000, "20 %: restart"}, {3000, "10 %: page"}},
			},
			{
				Title: "Runway", X: Axis{Label: "Time", Unit: "s"}, Y: Axis{Label: "Runway", Unit: "s"},
				Series: []Series{{Name: "runway", XY: runway}}, Marks: marks,
			},
		},
	}
}

func sampleOutage(at time.Time) Experiment {
	return Experiment{
		Name: "outage", Title: "Redis is killed", Started: at.Add(2 * time.Minute), Seconds: 12,
		Summary: "Twenty servers hold 100 keys each when Redis is killed at 1,000 creations a second in all.",
		Claims: []Claim{{
			Name: "available", Text: "Every creation succeeds while Redis is down.", Kind: Correctness, Outcome: NotJudged, Why: "the run ended before this claim could be judged",
		}},
		Error: "start servers: listen tcp 127.0.0.1:8080: bind: address already in use",
	}
}

func sampleFallback(at time.Time) Experiment {
	var formula, measured, ledger [][2]float64
	var rows [][]string
	for f := 0.0; f < 0.95; f += 0.01 {
		formula = append(formula, [2]float64{f, 1 / (1 - f)})
	}
	for _, f := range []float64{0.0002, 0.25, 0.5, 0.71, 0.8, 0.9, 0.946} {
		attempts := 1 / (1 - f) * (1 + 0.02*math.Sin(40*f))
		measured = append(measured, [2]float64{f, attempts})
		ledger = append(ledger, [2]float64{f, 1})
		rows = append(rows, []string{fmt.Sprint(f), fmt.Sprintf("%.3f", 1/(1-f)), fmt.Sprintf("%.3f", attempts), "1.000"})
	}
	return Experiment{
		Name: "fallback", Title: "What the random fallback costs as the space fills", Started: at.Add(3 * time.Minute), Seconds: 44,
		Summary: "When the pool is empty, a server draws random codes until one of them is free. If a share f of all codes is in use, this takes 1/(1-f) attempts on average.",
		Claims: []Claim{{
			Name: "attempts-0.946", Text: "At f = 0.946 a creation needs 18.5 attempts, within 3 %.", Kind: Correctness, Outcome: Held,
			Predicted: ptr(1 / (1 - 0.946)), Observed: ptr(18.61), Unit: "attempts", Why: "18.61 attempts over 20,000 creations; the formula says 18.52.",
		}},
		Charts: []Chart{{
			Title: "Attempts follow 1/(1-f); the ledger always needs one", X: Axis{Label: "Share of the space that is assigned"}, Y: Axis{Label: "Attempts per creation"},
			Series: []Series{
				{Name: "1/(1-f)", Predicted: true, XY: formula}, {Name: "random", Points: true, XY: measured}, {Name: "ledger", Points: true, XY: ledger},
			},
		}},
		Tables: []Table{{Title: "Attempts", Columns: []string{"f", "formula", "random", "ledger"}, Rows: rows}},
	}
}

func sampleBars(at time.Time) Experiment {
	return Experiment{
		Name: "bars/create", Title: "Durable creations beside a bare server", Started: at, Seconds: 9,
		Summary: "Keypool and a bare HTTP server answer the same load in the same rounds.",
		Claims: []Claim{
			{Name: "sqlite", Text: "Creations on SQLite reach 0.7 of a bare server.", Kind: Bar, Outcome: Failed, Predicted: ptr(0.7), Observed: ptr(0.46), Why: "28,800/s beside 63,100/s."},
			{Name: "redirects", Text: "Cached redirects reach 0.9 of a bare server.", Kind: Bar, Outcome: Held, Predicted: ptr(0.9), Observed: ptr(1.07), Why: "52,500/s beside 50,600/s."},
		},
	}
}

func sampleFault(at time.Time) Experiment {
	return Experiment{
		Name: "fault/10", Title: "PostgreSQL is frozen in the middle of a load", Started: at, Seconds: 31,
		Summary:  "PostgreSQL stops answering for ten seconds.",
		Claims:   []Claim{{Name: "lost", Text: "No acknowledged link is lost.", Kind: Correctness, Outcome: Held, Predicted: ptr(0), Observed: ptr(0), Unit: "links", Why: "9,431 links."}},
		Controls: []Control{{Name: "without the unique constraint", Refutes: "lost", Caught: true, Why: "12 links lead to the target of another link"}},
	}
}
