package schemes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"keypool/loadtest/report"
	"keypool/loadtest/rounds"

	"github.com/jackc/pgx/v5"
)

const (
	indexRounds = 5  // in which they are made, so many of each class in each
	indexBatch  = 64 // rows in a transaction, as a group commit of as many clients has
)

// The claim of the part.
const (
	claimSmaller = "what ascends needs less room"
	mostSmaller  = 0.9 // of the room that codes without order take
)

// indexFound is what a million links of a class cost the store.
type indexFound struct {
	bytes float64       // of the index of codes, a link
	wal   float64       // of the log, a link
	rate  rounds.Series // links a second, by one connection
}

// loading is a table of links that is being filled with codes of a class.
type loading struct {
	class
	conn *pgx.Conn
	each int64 // links in a round
	next int64 // links made so far
	wal  float64
}

// index fills a table like that of the links with codes of each class, as the schemes of
// that class would, in turns.
func (e *experiment) index(ctx context.Context) (err error) {
	e.enterIndex()
	_, url, err := e.stage.database(ctx, e.stage.postgres.URL, "")
	if err != nil {
		return err
	}
	if err := e.schema(ctx, url); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if _, err := conn.Exec(ctx, `SET synchronous_commit = off`); err != nil {
		return err
	}
	var tables []*loading
	var subjects []rounds.Subject
	for _, c := range e.classesOfSchemes() {
		l := &loading{class: c, conn: conn, each: e.indexLinks / indexRounds}
		if _, err := conn.Exec(ctx, `CREATE TABLE index_`+c.name+` (LIKE links INCLUDING ALL)`); err != nil {
			return err
		}
		tables = append(tables, l)
		subjects = append(subjects, rounds.Subject{Name: c.title, Unit: rounds.PerSecond, Measure: l.load})
	}
	figures, err := rounds.Alternate(ctx, indexRounds, func(line string) { e.enter("%s", line) }, subjects...)
	if err != nil || ctx.Err() != nil {
		return err
	}
	found := make(map[string]*indexFound)
	for i, l := range tables {
		if found[l.name], err = l.measured(ctx, figures[i]); err != nil {
			return err
		}
	}
	for _, s := range e.schemes {
		e.found[s.name].index = found[s.class]
	}
	e.judgeIndex()
	e.drawIndex()
	return nil
}

// classesOfSchemes are those that any scheme is of.
func (e *experiment) classesOfSchemes() []class {
	return slices.DeleteFunc(classes(), func(c class) bool {
		return !slices.ContainsFunc(e.schemes, func(s scheme) bool { return s.class == c.name })
	})
}

// load makes the links of one round, in transactions of indexBatch, and returns how many a
// second. It is the statement of the store, which sorts the codes of a batch too. Before it
// PostgreSQL makes a checkpoint, so that none of its own comes in between, and each round
// finds the log as every other one does.
func (l *loading) load(ctx context.Context) (perSecond float64, err error) {
	batches := make([][]string, 0, l.each/indexBatch+1)
	for l.next%l.each != 0 || len(batches) == 0 {
		var codes []string
		for range min(indexBatch, l.each-l.next%l.each) {
			code, _ := l.code(l.number(l.next))
			codes = append(codes, code)
			l.next++
		}
		slices.Sort(codes)
		batches = append(batches, codes)
	}
	if _, err := l.conn.Exec(ctx, `CHECKPOINT`); err != nil {
		return 0, err
	}
	before, err := l.position(ctx)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	for _, codes := range batches {
		_, err := l.conn.Exec(ctx, `INSERT INTO index_`+l.name+` (code, url, source, created_at)
			SELECT code, 'https://loadtest.example/an/ordinary/path?with=a&parameter=' || code, 'pool', now() FROM unnest($1::text[]) AS c (code)
			ON CONFLICT (code) DO NOTHING`, codes)
		if err != nil {
			return 0, err
		}
	}
	took := time.Since(begun)
	after, err := l.position(ctx)
	l.wal += after - before
	return float64(l.each) / took.Seconds(), err
}

// position is how many bytes PostgreSQL has ever written to its log.
func (l *loading) position(ctx context.Context) (bytes float64, err error) {
	err = l.conn.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - '0/0')::float8`).Scan(&bytes)
	return bytes, err
}

func (l *loading) measured(ctx context.Context, rate rounds.Series) (*indexFound, error) {
	var size, rows float64
	err := l.conn.QueryRow(ctx, fmt.Sprintf(`SELECT pg_relation_size('index_%[1]s_pkey')::float8, count(*)::float8 FROM index_%[1]s`, l.name)).Scan(&size, &rows)
	if err == nil && rows < 0.999*float64(l.next) {
		err = fmt.Errorf("of %d links of class %s there are %.0f", l.next, l.name, rows)
	}
	return &indexFound{bytes: size / rows, wal: l.wal / rows, rate: rate}, err
}

func (e *experiment) enterIndex() {
	e.Summary = fmt.Sprintf("What codes look like decides what an index of them costs. A table like that of the links gets %s links of each kind of code, %d in each transaction, "+
		"all kinds in turn.", commas(e.indexLinks), indexBatch)
	e.Claim(claimSmaller, fmt.Sprintf("Codes in order take no more than %.1f of the index that codes of the same length without an order take.", mostSmaller), "ratio")
	e.Settings = map[string]string{"synchronous_commit": "off, so that waiting for the disk, which is the same for all, is in none of the figures"}
	e.Notes = []string{
		"The links are made by statement, as the store makes them; a million over HTTP from each scheme would take an hour. The codes are drawn as the schemes of the class draw them; " +
			"that those which each scheme really makes are of its class is a claim of the first part.",
		fmt.Sprintf("Bytes of the log hold the images of whole pages that PostgreSQL writes when it first touches a page after a checkpoint: codes without order touch all of them. There is one "+
			"checkpoint before every %s links, outside of their time, and no other.", commas(e.indexLinks/indexRounds)),
		"A million links of some 200 bytes fit into memory. Beyond it, codes without order cost reads as well.",
	}
}

// indexOf is what was found out about a class, nil for nothing.
func (e *experiment) indexOf(class string) *indexFound {
	for _, s := range e.schemes {
		if s.class == class {
			return e.found[s.name].index
		}
	}
	return nil
}

func (e *experiment) judgeIndex() {
	if counter, random := e.indexOf("counter"), e.indexOf("random"); counter != nil && random != nil {
		e.AtMost(claimSmaller, mostSmaller, counter.bytes/random.bytes)
	}
	e.leave(claimSmaller)
}

func (e *experiment) drawIndex() {
	t := report.Table{
		Title: fmt.Sprintf("After %s links", commas(e.indexLinks)), Columns: []string{"codes", "schemes", "index, bytes a link", "log, bytes a link", "links made by one connection"},
	}
	bytes := row{name: "bytes of the index a link"}
	for _, c := range e.classesOfSchemes() {
		f := e.indexOf(c.name)
		if f == nil {
			continue
		}
		var names []string
		for _, s := range e.schemes {
			if s.class == c.name {
				names = append(names, s.name)
				bytes.add(s.name, f.bytes)
			}
		}
		t.Rows = append(t.Rows, []string{
			c.title, strings.Join(names, ", "), fmt.Sprintf("%.1f", f.bytes), fmt.Sprintf("%.0f", f.wal), f.rate.Spread(rounds.PerSecond),
		})
	}
	e.Tables = []report.Table{t}
	e.Charts = []report.Chart{e.rows("The index of codes", "bytes", "a link", bytes)}
}
