package schemes

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"keypool/loadtest/testbed"

	"github.com/jackc/pgx/v5"
)

// supplyStatements are all statements but those on links: BEGIN and COMMIT too.
const supplyStatements = `SELECT coalesce(sum(s.calls), 0)::float8
	FROM pg_stat_statements AS s JOIN pg_database AS d ON d.oid = s.dbid
	WHERE d.datname = ANY($1) AND s.query !~ '\mlinks\M'`

// calls is how often the supply of a scheme has been called so far, as those tell it who are
// called: PostgreSQL counts statements, Redis its reads from sockets, which a pipeline or a
// script needs one of, and the key service its requests. What the Redis of all schemes
// was asked by others is in it.
func (g *stage) calls(ctx context.Context, r *running) (n float64, err error) {
	err = testbed.Query(ctx, g.postgres.URL, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, supplyStatements, r.supply).Scan(&n)
	})
	if err == nil && r.redis != "" {
		var reads float64
		reads, err = g.reads(ctx)
		n += reads
	}
	if err == nil && r.service != nil {
		var requests float64
		requests, err = requestsOf(ctx, r.service)
		n += requests
	}
	return n, err
}

// reads is how often Redis has read from a socket, but for these questions themselves.
func (g *stage) reads(ctx context.Context) (float64, error) {
	g.asked++
	info := g.meter.InfoMap(ctx, "stats")
	if err := info.Err(); err != nil {
		return 0, err
	}
	n, err := strconv.ParseFloat(info.Item("Stats", "total_reads_processed"), 64)
	return n - float64(g.asked), err
}

// requestsOf is how many requests a key service has answered.
func requestsOf(ctx context.Context, service *testbed.Program) (sum float64, err error) {
	const name = "kgs_service_requests_total"
	metrics, err := testbed.AskMetrics(ctx, service.Admin)
	if err != nil {
		return 0, err
	}
	if metrics[name] == nil {
		return 0, fmt.Errorf("the key service does not tell %s", name)
	}
	for _, m := range metrics[name].GetMetric() {
		sum += m.GetCounter().GetValue()
	}
	return sum, nil
}

// idling is how many calls a second each scheme makes while there is nothing to do.
func (e *experiment) idling(ctx context.Context, runs []*running) (map[string]float64, error) {
	e.enter("what everybody calls while idle")
	before, begun := make(map[string]float64), time.Now()
	for _, r := range runs {
		var err error
		if before[r.name], err = e.stage.calls(ctx, r); err != nil {
			return nil, err
		}
	}
	select {
	case <-time.After(e.idle):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	rate := make(map[string]float64)
	for _, r := range runs {
		after, err := e.stage.calls(ctx, r)
		if err != nil {
			return nil, err
		}
		rate[r.name] = (after - before[r.name]) / time.Since(begun).Seconds()
	}
	return rate, nil
}

// perCreation is how many calls a creation took, when an idle server would have made so
// many a second meanwhile; what comes out below 0 is noise.
func perCreation(calls, idle float64, took time.Duration, creations int64) float64 {
	return max(0, calls-idle*took.Seconds()) / float64(creations)
}
