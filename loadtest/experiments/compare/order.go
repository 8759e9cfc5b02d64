package compare

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

const (
	mostLog = 0.7 // greatest ratio of the log bytes of links by rank to the log bytes of links by code

	orderLinks      = 1_000_000
	leastOrderLinks = 400_000 // least number of links at any scale; in a smaller index, two inserts often change the same page
	fullOrderLinks  = 10_000_000
	orderRounds     = 3      // rounds of measured inserts
	orderInserts    = 64_000 // links of a round
	orderBatch      = 64     // links in a transaction, as in a group commit of 64 clients
)

// Statements that insert links. The parameters are the codes and the number of the first link. insertByRank gives the
// links consecutive ranks. insertByCode does not use the number.
const (
	insertByCode = `INSERT INTO by_code (code, url, source, created_at)
		SELECT code, ` + linkURL + `, 'pool', now() FROM unnest($1::text[]) AS c (code) WHERE $2::bigint IS NOT NULL ON CONFLICT (code) DO NOTHING`
	insertByRank = `INSERT INTO by_rank (rank, code, url, source, created_at)
		SELECT $2::bigint + i, code, ` + linkURL + `, 'pool', now() FROM unnest($1::text[]) WITH ORDINALITY AS c (code, i) ON CONFLICT (rank) DO NOTHING`
	linkURL = `'https://loadtest.example/an/ordinary/path?with=a&parameter=' || code` // an SQL expression for the URL of a link
)

// orderRecord holds a table of links by code and a table of links by rank.
type orderRecord struct {
	links  int64
	tables []*ordered
}

// ordered holds the observations of one table.
type ordered struct {
	name, table, statement string
	index, log, micro      measure.Series // bytes of the index and of the log for a link, and microseconds for an insert of a link
}

// order compares a table of links whose primary key is the code with a table of links whose primary
// key is the rank of the code.
func order() *experiment.Experiment {
	return experiment.Define(experiment.Definition[orderRecord]{
		Name: "compare/order", Title: "Links by code and by rank",
		Summary: "Keys that are made one after the other have codes in random order, but consecutive ranks. If the code is the primary key of the links, each new link changes a different page of the index, " +
			"and PostgreSQL logs this page. If the rank is the primary key, the links of a commit are neighbours in the index. " +
			"Each of two tables gets the same number of links, in transactions of 64 links. Each transaction is an INSERT with ON CONFLICT. The store uses this form only after a conflict. The plain INSERT that it usually uses is not measured.",
		Suites: []experiment.Suite{experiment.Nightly}, Alone: true, Run: runOrder, Show: showOrder,
		Claims: []experiment.Claim[orderRecord]{{
			Name: "links by rank need less log", Unit: "ratio", Kind: report.Correctness, Judge: judgeOrder,
			Text: fmt.Sprintf("Links whose primary key is the rank take at most %.1f times as many bytes of PostgreSQL's log (WAL) as links whose primary key is the code.", mostLog),
		}},
	})
}

func runOrder(t *experiment.T, r *orderRecord) {
	r.links = int64(max(t.Times(orderLinks), leastOrderLinks))
	if t.Full {
		r.links = fullOrderLinks
	}
	r.tables = []*ordered{{name: "by code", table: "by_code", statement: insertByCode}, {name: "by rank", table: "by_rank", statement: insertByRank}}
	url := lab.Postgres(t).URL
	if out, err := lab.Command(t, "shortener", t.TempDir(), []string{"DATABASE_URL=" + url}, "migrate").CombinedOutput(); err != nil {
		t.Fatalf("create the tables: %w; the output of shortener migrate:\n%s", err, out)
	}
	conn, err := pgx.Connect(t.Context(), url)
	t.Must(err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }() // no write is pending
	exec := func(statement string) {
		_, err := conn.Exec(t.Context(), statement)
		t.Must(err)
	}
	exec(`CREATE TABLE by_code (LIKE unranked_links INCLUDING ALL)`)
	exec(`CREATE TABLE by_rank (LIKE ranked_links INCLUDING ALL)`)
	exec(`SET synchronous_commit = off`) // the experiment measures the work of an insert, and not the disk
	for i, o := range r.tables {
		t.Phase(float64(i)/4, "inserting %s links %s", report.Number(float64(r.links)), o.name)
		t.Must(o.insert(t.Context(), conn, 0, r.links))
	}
	for round := range int64(orderRounds) {
		t.Phase(0.5+float64(round)/6, "round %d of %d", round+1, orderRounds)
		for _, o := range r.tables {
			exec(`CHECKPOINT`) // so that PostgreSQL starts no checkpoint during the inserts
			t.Must(o.measure(t.Context(), conn, url, r.links+round*orderInserts))
		}
	}
	for _, o := range r.tables {
		var size, rows float64
		t.Must(conn.QueryRow(t.Context(), fmt.Sprintf(`SELECT pg_relation_size('%[1]s_pkey')::float8, count(*)::float8 FROM %[1]s`, o.table)).Scan(&size, &rows))
		if want := r.links + orderRounds*orderInserts; rows < 0.999*float64(want) {
			t.Fatalf("table %s has %.0f rows, want about %d", o.table, rows, want)
		}
		o.index = measure.Series{size / rows}
	}
}

// measure inserts the links of one round. It records the log bytes and the time of a link.
func (o *ordered) measure(ctx context.Context, conn *pgx.Conn, url string, first int64) error {
	before, err := lab.LogPosition(ctx, url)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := o.insert(ctx, conn, first, first+orderInserts); err != nil {
		return err
	}
	o.micro = append(o.micro, float64(time.Since(begun).Microseconds())/orderInserts)
	after, err := lab.LogPosition(ctx, url)
	o.log = append(o.log, float64(after-before)/orderInserts)
	return err
}

// insert makes the links with the numbers [lo, hi). Like the store, it sorts the links of a transaction.
func (o *ordered) insert(ctx context.Context, conn *pgx.Conn, lo, hi int64) error {
	for first := lo; first < hi; first += orderBatch {
		codes := make([]string, min(orderBatch, hi-first))
		for i := range codes {
			codes[i] = drawn()
		}
		slices.Sort(codes)
		if _, err := conn.Exec(ctx, o.statement, codes, first); err != nil {
			return err
		}
	}
	return nil
}

// drawn returns a random code of eight characters. Some characters are slightly more frequent than others, but this does
// not change the size of an index.
func drawn() string {
	code := make([]byte, 8)
	_, _ = rand.Read(code) // rand.Read never returns an error
	for i, b := range code {
		code[i] = sources.Base62[int(b)%len(sources.Base62)]
	}
	return string(code)
}

func judgeOrder(r *orderRecord) experiment.Verdict {
	if len(r.tables) != 2 || len(r.tables[0].log) == 0 || len(r.tables[1].log) == 0 {
		return experiment.Verdict{}
	}
	code, rank := r.tables[0].log.Median(), r.tables[1].log.Median()
	return experiment.AtMost(mostLog, rank/code, "a link takes %.0f bytes of log if the rank is the primary key, and %.0f bytes if the code is the primary key", rank, code)
}

func showOrder(r *orderRecord, e *report.Experiment) {
	table := report.Table{Title: "Links by the code and by the rank as primary key", Columns: []string{"primary key", "index per link", "PostgreSQL log (WAL) per link", "time per link"}}
	for _, o := range r.tables {
		table.Rows = append(table.Rows, []string{o.name, figure(o.index, "bytes"), figure(o.log, "bytes"), figure(o.micro, "µs")})
	}
	e.Tables = append(e.Tables, table)
	e.Notes = append(e.Notes, fmt.Sprintf("Each table has %s links before the measured inserts. Each round begins with a checkpoint, so the log includes an image of each changed page, made at the first change of the page after the checkpoint.", report.Number(float64(r.links))))
}
