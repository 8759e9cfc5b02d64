package compare

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"

	"github.com/jackc/pgx/v5"
)

const (
	indexRounds = 5   // as many links of each kind of code in each
	indexBatch  = 64  // links in a transaction, as in a group commit of as many clients
	mostSmaller = 0.9 // of the bytes that codes without order take
)

// kind is a kind of code: its class, and how the key sources of the class make the i-th code.
type kind struct {
	class sources.Class
	title string
	code  func(i uint64) string
}

func kinds() []kind {
	const base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_" // RFC 4648, section 5
	drawn := func(alphabet string) func(uint64) string {
		return func(uint64) string { // 2^128 is so much larger than 64^6 that the bias is not observable
			hi, lo := random128()
			return encode(alphabet, hi, lo, 6)
		}
	}
	return []kind{
		{sources.Counter, "a counter, six digits", func(i uint64) string { return encode(digits, 0, i, 6) }},
		{sources.Time, "time first, eleven digits", func(i uint64) string {
			const day, perMilli, machine = 86_400_000, 4, 7 // a busy server makes four links in a millisecond
			return encode(digits, 0, (300*day+i/perMilli)<<22|machine<<12|i%perMilli, 11)
		}},
		{sources.Random, "no order, six digits", drawn(digits)},
		{sources.Hash, "no order, six digits of base64url", drawn(base64url)},
		{sources.UUID, "no order, 22 digits", func(uint64) string {
			hi, lo := random128()
			return encode(digits, hi, lo, 22)
		}},
	}
}

func random128() (hi, lo uint64) {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	return binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
}

// encode writes the last digits of a number of 128 bits.
func encode(alphabet string, hi, lo uint64, length int) string {
	code, base := make([]byte, length), uint64(len(alphabet))
	for i := length - 1; i >= 0; i-- {
		var digit uint64
		lo, digit = bits.Div64(hi%base, lo, base)
		hi /= base
		code[i] = alphabet[digit]
	}
	return string(code)
}

// indexed is what the links of a kind cost the store.
type indexed struct {
	bytes float64        // of the index of codes, per link
	wal   float64        // of the write-ahead log, per link
	rate  measure.Series // links per second, by one connection
}

// filling is a table of links that is being filled with codes of a kind.
type filling struct {
	kind
	conn *pgx.Conn
	each int64 // links in a round
	next int64 // links made so far
	wal  float64
}

func smallerIndex() experiment.Claim[record] {
	return experiment.Claim[record]{
		Name: "codes in order need less space", Unit: "ratio", Kind: report.Correctness,
		Text: fmt.Sprintf("The index of codes in order takes at most %.1f of the bytes that codes of the same length without order take.", mostSmaller),
		Judge: func(r *record) experiment.Verdict {
			counter, random := r.index[sources.Counter], r.index[sources.Random]
			if counter == nil || random == nil {
				return experiment.Verdict{}
			}
			return experiment.AtMost(mostSmaller, counter.bytes/random.bytes, "%.1f and %.1f bytes per link", counter.bytes, random.bytes)
		},
	}
}

// fill fills a table like that of the links with each kind of code, in turns.
func (r *record) fill(t *experiment.T, stage *sources.Stage) {
	t.Phase(0.85, "%s links of each kind of code", report.Number(float64(r.links)))
	_, url := stage.Database("")
	if out, err := lab.Command(t, "shortener", t.TempDir(), []string{"DATABASE_URL=" + url}, "migrate").CombinedOutput(); err != nil {
		t.Fatalf("make the tables: %w: %s", err, out)
	}
	conn, err := pgx.Connect(t.Context(), url)
	t.Must(err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }() // nothing is written any more
	_, err = conn.Exec(t.Context(), `SET synchronous_commit = off`)
	t.Must(err)
	var tables []*filling
	var subjects []measure.Subject
	for _, k := range kinds() {
		_, err := conn.Exec(t.Context(), `CREATE TABLE index_`+string(k.class)+` (LIKE links INCLUDING ALL)`)
		t.Must(err)
		tables = append(tables, &filling{kind: k, conn: conn, each: r.links / indexRounds})
		subjects = append(subjects, measure.Subject{Name: k.title, Unit: measure.PerSecond, Measure: tables[len(tables)-1].load})
	}
	figures, err := measure.Alternate(t.Context(), indexRounds, func(line string) { t.Phase(0.9, "%s", line) }, subjects...)
	t.Must(err)
	r.index = make(map[sources.Class]*indexed)
	for i, table := range tables {
		r.index[table.class], err = table.measured(t.Context(), figures[i])
		t.Must(err)
	}
}

// load makes the links of one round and returns how many per second. It is the statement of the
// store, which sorts the codes of a batch too. PostgreSQL makes a checkpoint before, so that none of
// its own comes in between and each round finds the log in the same state.
func (f *filling) load(ctx context.Context) (perSecond float64, err error) {
	var batches [][]string
	for made := int64(0); made < f.each; {
		var codes []string
		for range min(indexBatch, f.each-made) {
			codes = append(codes, f.code(uint64(f.next)))
			f.next++
			made++
		}
		slices.Sort(codes)
		batches = append(batches, codes)
	}
	if _, err := f.conn.Exec(ctx, `CHECKPOINT`); err != nil {
		return 0, err
	}
	before, err := f.position(ctx)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	for _, codes := range batches {
		_, err := f.conn.Exec(ctx, `INSERT INTO index_`+string(f.class)+` (code, url, source, created_at)
			SELECT code, 'https://loadtest.example/an/ordinary/path?with=a&parameter=' || code, 'pool', now() FROM unnest($1::text[]) AS c (code)
			ON CONFLICT (code) DO NOTHING`, codes)
		if err != nil {
			return 0, err
		}
	}
	took := time.Since(begun)
	after, err := f.position(ctx)
	f.wal += after - before
	return float64(f.each) / took.Seconds(), err
}

// position is how many bytes PostgreSQL has ever written to its log.
func (f *filling) position(ctx context.Context) (bytes float64, err error) {
	err = f.conn.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - '0/0')::float8`).Scan(&bytes)
	return bytes, err
}

func (f *filling) measured(ctx context.Context, rate measure.Series) (*indexed, error) {
	var size, rows float64
	err := f.conn.QueryRow(ctx, fmt.Sprintf(`SELECT pg_relation_size('index_%[1]s_pkey')::float8, count(*)::float8 FROM index_%[1]s`, f.class)).Scan(&size, &rows)
	if err == nil && rows < 0.999*float64(f.next) {
		err = fmt.Errorf("of %d links of class %s the table has %.0f", f.next, f.class, rows)
	}
	return &indexed{bytes: size / rows, wal: f.wal / rows, rate: rate}, err
}

func (r *record) showIndex(e *report.Experiment) {
	e.Notes = append(e.Notes,
		fmt.Sprintf("Index: a table like that of the links gets %s links of each kind of code, %d in each transaction, all kinds in turn, by statement, as the store makes them; a million over "+
			"HTTP from each key source would take an hour. The codes are drawn as the key sources draw them; that each key source makes codes of its kind is a claim of compare/guess. "+
			"With synchronous_commit=off the figures leave out the wait for the disk, which is the same for all.", report.Number(float64(r.links)), indexBatch),
		fmt.Sprintf("Bytes of the log hold images of whole pages, which PostgreSQL writes when it first changes a page after a checkpoint: codes without order change all of them. There is one "+
			"checkpoint before every %s links, outside of their time, and no other.", report.Number(float64(r.links/indexRounds))),
		"A million links of some 200 bytes fit into memory. Beyond it, codes without order cost reads as well.")
	table := report.Table{
		Title:   fmt.Sprintf("After %s links", report.Number(float64(r.links))),
		Columns: []string{"codes", "key sources", "index, bytes per link", "log, bytes per link", "links made by one connection"},
	}
	bytes := points{"bytes of the index per link", make(map[string][]float64)}
	for _, k := range kinds() {
		f := r.index[k.class]
		if f == nil {
			continue
		}
		var names []string
		for _, s := range sources.Compared() {
			if s.Class == k.class {
				names = append(names, s.Name)
				bytes.values[s.Name] = []float64{f.bytes}
			}
		}
		table.Rows = append(table.Rows, []string{k.title, strings.Join(names, ", "), fmt.Sprintf("%.1f", f.bytes), fmt.Sprintf("%.0f", f.wal), spread(f.rate, measure.PerSecond)})
	}
	e.Tables = append(e.Tables, table)
	e.Charts = append(e.Charts, chart("The index of codes", "bytes", "per link", bytes))
}
