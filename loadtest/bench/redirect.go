package bench

import (
	"context"
	"fmt"

	"keypool/loadtest/rounds"
	"keypool/loadtest/testbed"
	"keypool/loadtest/wrk"
)

// redirect measures redirects of a link that is in the cache.
func redirect(ctx context.Context, r *run) ([]Bar, error) {
	return r.onBed(func(bed *testbed.Bed) ([]Bar, error) {
		bare, err := r.startBare(ctx, bed)
		if err != nil {
			return nil, err
		}
		cached, err := r.cachedRedirects(ctx, bed)
		if err != nil {
			return nil, err
		}
		echo := load{Load: wrk.Load{URL: visit(bare, "alias").URL, Script: "get"}}
		figures, err := r.alternate(ctx, r.wrk("bare echo", echo), cached, r.nginxRedirects(bed))
		bars := []Bar{
			{What: "redirects, in the cache", Measured: figures[1], Aim: AtLeast(0.9)},
			{What: "redirects, nginx that returns 302", Measured: figures[2]},
		}
		return beside(bars, rounds.PerSecond, "bare echo", figures[0]), err
	})
}

// cachedRedirects is the embedded server with one link that is asked for over and over.
func (r *run) cachedRedirects(ctx context.Context, bed *testbed.Bed) (rounds.Subject, error) {
	server, err := bed.Server(ctx)
	if err != nil {
		return rounds.Subject{}, err
	}
	link := creation(server.Public)
	link.Body = `{"url":"` + target + `","alias":"alias"}`
	if err := link.Try(ctx); err != nil {
		return rounds.Subject{}, err
	}
	once := visit(server.Public, "alias")
	if err := once.Try(ctx); err != nil {
		return rounds.Subject{}, err
	}
	check, err := redirectsCounted(ctx, server)
	return r.wrk("Keypool", load{Load: wrk.Load{URL: once.URL, Script: "get"}, check: check}), err
}

// nginxRedirects is nginx, started when it is first measured.
func (r *run) nginxRedirects(bed *testbed.Bed) rounds.Subject {
	url := ""
	return rounds.Subject{Name: "nginx", Unit: rounds.PerSecond, Yardstick: true, Measure: func(ctx context.Context) (figure float64, err error) {
		if url == "" {
			if url, err = r.startNginx(ctx, bed); err != nil {
				return 0, err
			}
		}
		return r.wrk("", load{Load: wrk.Load{URL: visit(url, "alias").URL, Script: "get"}}).Measure(ctx)
	}}
}

// redirectsCounted makes a check that the server led so many clients on since the last one:
// wrk itself would take a 200 for an answer too.
func redirectsCounted(ctx context.Context, server *testbed.Program) (func(context.Context, int64) error, error) {
	before, err := redirects(ctx, server)
	return func(ctx context.Context, answers int64) error {
		after, err := redirects(ctx, server)
		if err == nil && after-before < float64(answers) {
			err = fmt.Errorf("%d answers, and only %.0f of them were redirects", answers, after-before)
		}
		before = after
		return err
	}, err
}

// redirects is how many the server says that it has answered with a 302.
func redirects(ctx context.Context, server *testbed.Program) (float64, error) {
	metrics, err := testbed.AskMetrics(ctx, server.Admin)
	if err != nil {
		return 0, err
	}
	for _, m := range metrics["shortener_redirects_total"].GetMetric() {
		for _, label := range m.GetLabel() {
			if label.GetName() == "result" && label.GetValue() == "found" {
				return m.GetCounter().GetValue(), nil
			}
		}
	}
	return 0, nil // none so far
}
