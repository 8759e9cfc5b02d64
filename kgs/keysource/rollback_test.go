package keysource

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"keypool/internal/testenv"
	"keypool/internal/testenv/logbuffer"
	"keypool/kgs"
	"keypool/kgs/codespace"
	"keypool/kgs/kgstest"
)

// process stands for a process that takes numbers from a counter.
type process struct {
	kgs.Generator
	log *logbuffer.Buffer
}

// skips returns the WARN lines about skipped numbers.
func (h process) skips() (lines []string) {
	for line := range strings.Lines(h.log.String()) {
		if strings.Contains(line, "level=WARN") && strings.Contains(line, "skipped=") {
			lines = append(lines, line)
		}
	}
	return lines
}

func ticketProcess(db TicketDatabase, length int) process {
	log := new(logbuffer.Buffer)
	tickets := NewTickets(db, db, length, slog.New(slog.NewTextHandler(log, nil)))
	tickets.timeout = time.Minute
	return process{tickets, log}
}

func incrProcess(client redis.UniversalClient, length int) process {
	log := new(logbuffer.Buffer)
	r := NewRedisIncr(client, "keypool", "test", length, slog.New(slog.NewTextHandler(log, nil)))
	r.timeout = time.Minute
	return process{r, log}
}

// issued contains the numbers that all processes got. It is safe for concurrent use.
type issued struct {
	mu      sync.Mutex
	numbers map[int64]bool
	highest int64
}

// take draws n keys. It reports an error if a number was issued before.
func (i *issued) take(t *testing.T, h process, n int) {
	t.Helper()
	for range n {
		k, err := h.Next(t.Context(), "", 0)
		if err != nil {
			t.Error(err)
			return
		}
		_, number, err := codespace.Plain().Number(k.Code)
		if err != nil {
			t.Error(err)
			return
		}
		i.mu.Lock()
		if i.numbers == nil {
			i.numbers = make(map[int64]bool)
		}
		if i.numbers[number] {
			t.Errorf("the number %d was issued twice", number)
		}
		i.numbers[number] = true
		i.highest = max(i.highest, number)
		i.mu.Unlock()
	}
}

// testRollback rolls a counter back while two processes run. The process low has a lower high-water mark
// than the process high.
func testRollback(t *testing.T, low, high process, rollBack func()) {
	t.Helper()
	var seen issued
	for _, order := range [][]process{{low, high}, {high, low}} {
		seen.take(t, low, 100)
		seen.take(t, high, 300)
		before := seen.highest
		rollBack()
		logged := len(low.skips()) + len(high.skips())
		seen.take(t, order[0], 1)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() { seen.take(t, order[i%2], 100) })
		}
		all.Wait()
		if most := before + margin(3, before) + 4*1000; seen.highest > most {
			t.Errorf("the counter is at %d, so the processes skipped more than one margin above %d", seen.highest, before)
		}
		if len(low.skips())+len(high.skips()) == logged {
			t.Error("no process logged that numbers were skipped")
		}
	}
}

func TestTicketsRepeatNoNumberAfterRollback(t *testing.T) {
	onTicketDatabases(t, func(t *testing.T, db counter) {
		testRollback(t, ticketProcess(db.open(), 3), ticketProcess(db.open(), 3), func() {
			db.set(t, Odd, 1)
			db.set(t, Even, 2)
		})
	})
}

// TestTicketsRepeatNoNumberAfterFilesAreRestored replaces the files of a PostgreSQL server with older files.
func TestTicketsRepeatNoNumberAfterFilesAreRestored(t *testing.T) {
	t.Parallel()
	server := testenv.StartPostgres(t)
	db := postgresCounter(t, server.URL)
	low, high := ticketProcess(db.open(), 6), ticketProcess(db.open(), 6)
	copyDir := func(from, to string) {
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
			t.Fatalf("cp: %v: %s", err, out)
		}
	}
	answers := func() {
		kgstest.Await(t, "the database answers", func() bool { return db.TicketDatabase.(*PostgresTickets).pool.Ping(t.Context()) == nil })
	}
	var seen issued
	seen.take(t, low, 10)
	backup := filepath.Join(t.TempDir(), "backup")
	server.Stop()
	copyDir(server.Dir(), backup)
	server.Restart()
	answers()
	seen.take(t, low, 100)
	seen.take(t, high, 1000)
	server.Stop()
	copyDir(backup, server.Dir())
	server.Restart()
	answers()
	seen.take(t, low, 1000)
	seen.take(t, high, 1000)
	if n := len(low.skips()); n != 2 || len(high.skips()) != 0 {
		t.Errorf("the log has %d lines about skipped tickets, want one for each parity: %v %v", n, low.skips(), high.skips())
	}
}

func TestTicketSkipAheadKeepsParityAndMargin(t *testing.T) {
	onTicketDatabases(t, func(t *testing.T, db counter) {
		h := ticketProcess(db, 3)
		db.set(t, Odd, 9001)
		db.set(t, Even, 9002)
		for p, want := range map[Parity]int64{Odd: 9003, Even: 9004} {
			tickets := h.Generator.(*Tickets)
			for _, tt := range []struct {
				attempt int
				want    int64
				back    int64 // the value to which the test then sets the counter back
			}{
				{0, want, 1},
				{0, want + 2382 + 2, want + 2382 - 98}, // the next step begins below the mark and ends above it
				{8, want + 2*2382 + 2 + 2<<8, 0},
			} {
				n, err := tickets.take(t.Context(), p, tt.attempt, time.Minute)
				if err != nil || n != tt.want {
					t.Errorf("took %d (error %v), want %d", n, err, tt.want)
				}
				db.set(t, p, max(tt.back, 2-int64(p)))
			}
		}
		if lines := h.skips(); len(lines) != 4 || !strings.Contains(lines[0], "a counter returned to an older value") {
			t.Errorf("the log has the lines %q, want 4 lines about skipped tickets", lines)
		}
	})
}

// TestTicketSkipAheadWaitsForRunningTakes holds the lock of a Take or of a SkipTo in a transaction.
// Without the lock, a SkipTo could move the counter back below the numbers of a concurrent Take.
func TestTicketSkipAheadWaitsForRunningTakes(t *testing.T) {
	t.Parallel()
	db := postgresCounter(t, testenv.PostgresURL(t)).TicketDatabase.(*PostgresTickets)
	take := func(ctx context.Context) error { _, err := db.Take(ctx, Odd, 1); return err }
	skip := func(ctx context.Context) error { _, err := db.SkipTo(ctx, Odd, 1001); return err }
	for _, tt := range []struct {
		held string
		call func(context.Context) error
		wait bool
	}{
		{ofParity(takeTickets, Odd), skip, true},
		{ofParity(skipTickets, Odd), take, true},
		{ofParity(takeTickets, Odd), take, false},
	} {
		err := pgx.BeginFunc(t.Context(), db.pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(t.Context(), tt.held, 1); err != nil {
				return err
			}
			limit := time.Minute
			if tt.wait {
				limit = 300 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			if err := tt.call(ctx); errors.Is(err, context.DeadlineExceeded) != tt.wait {
				t.Errorf("while a transaction holds the lock of %s: error %v, want the call to wait: %t", tt.held, err, tt.wait)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestTicketSkipNeverMovesCounterBack calls SkipTo with a number that the counter has passed.
func TestTicketSkipNeverMovesCounterBack(t *testing.T) {
	onTicketDatabases(t, func(t *testing.T, db counter) {
		for _, to := range []int64{1001, 501} {
			if n, err := db.SkipTo(t.Context(), Odd, to); err != nil || (n > 0) != (to == 1001) {
				t.Errorf("SkipTo(%d) skipped %d tickets, error %v", to, n, err)
			}
		}
		if n := takeTicket(t, db); n < 1003 || n > 1005 {
			t.Errorf("took %d, want a number directly above 1001", n)
		}
		other := db.open()
		if n, err := other.SkipTo(t.Context(), Odd, 501); err != nil || n != 0 {
			t.Errorf("SkipTo(501) of another process skipped %d tickets, error %v", n, err)
		}
		if n, err := other.Take(t.Context(), Odd, 1); err != nil || n <= 1003 {
			t.Errorf("another process took %d, error %v; want a number above 1003", n, err)
		}
	})
}

// TestRedisIncrRepeatsNoNumberAfterRollback uses a Redis user with the documented rights.
func TestRedisIncrRepeatsNoNumberAfterRollback(t *testing.T) {
	t.Parallel()
	server := testenv.StartRedis(t)
	admin := connect(t, server.URL)
	err := admin.Do(t.Context(), "ACL", "SETUSER", "few", "on", ">hunter2", "~keypool:*", "resetchannels",
		"-@all", "+eval", "+evalsha", "+info", "+incrby", "+ping").Err()
	if err != nil {
		t.Fatal(err)
	}
	client := connect(t, "redis://few:hunter2@"+server.Addr)
	low, high := incrProcess(client, 3), incrProcess(client, 3)
	testRollback(t, low, high, func() { setCounter(t, newTestIncr(admin, "test", 3), 7) })
}

// TestRedisIncrSkipsAheadFromNumbersAbovePrecisionOfLua uses numbers above 2^53, which Lua cannot represent exactly.
func TestRedisIncrSkipsAheadFromNumbersAbovePrecisionOfLua(t *testing.T) {
	t.Parallel()
	const mark = 1<<59 + 12_345
	r := newTestIncr(testenv.Redis(t), "test", 3)
	next := func() int64 {
		k, err := r.Next(t.Context(), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		_, n, err := codespace.Plain().Number(k.Code)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	setCounter(t, r, mark-1)
	next()
	for _, back := range []int64{0, mark - 1000} {
		setCounter(t, r, back)
		from := r.seen.mark.Load()
		if n := next(); n < from+skipMargin-1000 || n > from+skipMargin+1000 {
			t.Errorf("after a rollback to %d, the number is %d above the mark, want about %d", back, n-from, skipMargin)
		}
	}
}

func TestSkipMarginIsSmallPartOfCodeSpace(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		length     int
		mark, want int64
	}{
		{3, 0, 2382}, {3, codespace.Size(3) - 1, 2382}, {3, codespace.Size(3), 147_762},
		{6, 0, skipMargin}, {codespace.MaxLength, codespace.Size(codespace.MaxLength) + 1, skipMargin},
	} {
		if got := margin(tt.length, tt.mark); got != tt.want {
			t.Errorf("margin(%d, %d) = %d, want %d", tt.length, tt.mark, got, tt.want)
		}
	}
}
