package compare

import (
	"context"
	"crypto/rand"
	"fmt"
	"math/big"
	"slices"

	"github.com/jackc/pgx/v5"

	"keypool/loadtest/experiment"
	"keypool/loadtest/experiments/keysource/sources"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
	"keypool/loadtest/report"
)

const (
	indexRounds = 5  // rounds of inserts, each of which begins with a checkpoint
	indexBatch  = 64 // links in a transaction, as in a group commit of 64 clients
)

// kinds returns a function for each class of key sources. The function makes the code with index i in the same way
// as the key sources of the class.
func kinds() map[sources.Class]func(i int64) string {
	number := func(c sources.Class) func(n int64) string {
		form := sources.FormOf(c)
		return func(n int64) string { return form.Code(big.NewInt(n)) }
	}
	ofTime := number(sources.Time)
	return map[sources.Class]func(int64) string{
		sources.Counter: number(sources.Counter),
		sources.Time: func(i int64) string {
			const day, perMilli, machine = 86_400_000, 4, 7 // a busy server makes four links in a millisecond
			return ofTime((300*day+i/perMilli)<<22 | machine<<12 | i%perMilli)
		},
		sources.Random: func(int64) string { return drawn(sources.Base62, 6) },
		sources.Hash:   func(int64) string { return drawn(sources.Base64URL, 6) },
		sources.UUID:   func(int64) string { return drawn(sources.Base62, 22) },
	}
}

// drawn returns a random code. Some characters are slightly more frequent than others, but this does not
// change the size of an index.
func drawn(alphabet string, length int) string {
	code := make([]byte, length)
	_, _ = rand.Read(code) // rand.Read never returns an error
	for i, b := range code {
		code[i] = alphabet[int(b)%len(alphabet)]
	}
	return string(code)
}

// fill inserts links into one table for each kind of code, and records the size of the index and of
// the log. The primary key of each table is the code.
func (r *record) fill(t *experiment.T, stage *sources.Stage) {
	_, url := stage.Database("")
	if out, err := lab.Command(t, "shortener", t.TempDir(), []string{"DATABASE_URL=" + url}, "migrate").CombinedOutput(); err != nil {
		t.Fatalf("create the tables: %w; the output of shortener migrate:\n%s", err, out)
	}
	conn, err := pgx.Connect(t.Context(), url)
	t.Must(err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }() // no write is pending
	_, err = conn.Exec(t.Context(), `SET synchronous_commit = off`)
	t.Must(err)
	for class, code := range kinds() {
		t.Phase(0.9, "inserting %s links with codes of the class %s", report.Number(float64(r.links)), class)
		table := "index_" + string(class)
		_, err := conn.Exec(t.Context(), `CREATE TABLE `+table+` (LIKE unranked_links INCLUDING ALL)`)
		t.Must(err)
		log := 0.0
		for round := range int64(indexRounds) {
			written, err := insert(t.Context(), conn, byCode(table), round*r.links/indexRounds, (round+1)*r.links/indexRounds, code)
			t.Must(err)
			log += written
		}
		var size, rows float64
		t.Must(conn.QueryRow(t.Context(), fmt.Sprintf(`SELECT pg_relation_size('%[1]s_pkey')::float8, count(*)::float8 FROM %[1]s`, table)).Scan(&size, &rows))
		if rows < 0.999*float64(r.links) {
			t.Fatalf("table %s has %.0f rows, want about %d", table, rows, r.links)
		}
		for _, f := range r.found {
			if f.Class == class {
				f.index, f.log = measure.Series{size / rows}, measure.Series{log / rows}
			}
		}
	}
}

// layout is a table of links and the statement that inserts links into it. The parameters of the
// statement are the codes, and the number of the first link.
type layout struct{ table, insert string }

// linkURL is an SQL expression for the URL of a link.
const linkURL = `'https://loadtest.example/an/ordinary/path?with=a&parameter=' || code`

// byCode returns a layout whose primary key is the code.
func byCode(table string) layout {
	return layout{table, `INSERT INTO ` + table + ` (code, url, source, created_at)
		SELECT code, ` + linkURL + `, 'pool', now() FROM unnest($1::text[]) AS c (code) WHERE $2::bigint IS NOT NULL ON CONFLICT (code) DO NOTHING`}
}

// byRank returns a layout whose primary key is the rank. The ranks of links are consecutive.
func byRank(table string) layout {
	return layout{table, `INSERT INTO ` + table + ` (rank, code, url, source, created_at)
		SELECT $2::bigint + i, code, ` + linkURL + `, 'pool', now() FROM unnest($1::text[]) WITH ORDINALITY AS c (code, i) ON CONFLICT (rank) DO NOTHING`}
}

// insert makes the links with the indexes [lo, hi), with an INSERT like that of the store. Like the store, it
// sorts the codes of a batch. It returns how many bytes of the log the links take. It begins with a
// checkpoint. PostgreSQL therefore starts no checkpoint during the inserts, and the log of each round
// includes an image of each changed page, made at the first change of the page after the checkpoint.
func insert(ctx context.Context, conn *pgx.Conn, into layout, lo, hi int64, code func(int64) string) (log float64, err error) {
	var before, after float64
	position := func(n *float64) error { // reads how many bytes PostgreSQL has written to its log in total
		return conn.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - '0/0')::float8`).Scan(n)
	}
	if _, err := conn.Exec(ctx, `CHECKPOINT`); err != nil {
		return 0, err
	}
	if err := position(&before); err != nil {
		return 0, err
	}
	for i := lo; i < hi; {
		first := i
		var codes []string
		for ; i < hi && len(codes) < indexBatch; i++ {
			codes = append(codes, code(i))
		}
		slices.Sort(codes)
		if _, err := conn.Exec(ctx, into.insert, codes, first); err != nil {
			return 0, err
		}
	}
	err = position(&after)
	return after - before, err
}
