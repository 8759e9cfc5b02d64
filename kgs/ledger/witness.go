package ledger

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"keypool/internal/diskfile"
	"keypool/kgs"
)

// ErrWitness means that the witness of an SQLite database exists and cannot be read, or is damaged and cannot be
// replaced. Without the witness, the ledger cannot detect that the database was restored from an older file. Therefore
// the ledger does not open.
var ErrWitness = errors.New("cannot use the witness of the database; give the account that runs this program the right to read and write the file")

// witness is a small file beside an SQLite database that repeats the high-water mark of its ledger. If the database is
// replaced by an older file, the witness still has the mark, and the ledger skips ahead. The witness does not help if
// it is replaced by an older file too. The name of the witness contains the name of the ledger, so the ledger of
// another database at the same path has another witness.
//
// A process writes the witness after the commit of each change that assigns ids, and before it uses the numbers of the
// change. The process holds the lock of the database while it writes, so that no process writes an older mark over a
// newer mark. If a process crashes between the commit and the write, the witness lacks only numbers that no process has
// used.
type witness struct {
	database string // path of the SQLite file
	log      *slog.Logger
	failed   func() // called after each write that fails

	mu       sync.Mutex
	ledger   string // name of the ledger; empty while the ledger is not open
	written  int64  // the last id in the file
	due      bool   // whether the file must be written even if it contains the last id
	failures kgs.FailureLog
}

// witnessInfix is between the path of the database and the name of the ledger.
const witnessInfix = ".witness-"

const (
	witnessTimeout  = 5 * time.Second // limits one write, including the wait for the lock of the database
	witnessReminder = time.Minute     // interval between two warnings about writes that fail
)

// KeepWitness makes the ledger keep a witness beside the SQLite file at path. The caller must call KeepWitness before
// it uses the ledger. Open reads the witness and replaces a file that is missing, damaged or older than the database. A
// ledger that was not opened does not use the file. If a write fails, the change still succeeds, and the next change
// writes again. After each failed write, the ledger calls the function failed, which must not block and must not use
// the ledger. The ledger logs a warning about failed writes at most once a minute.
func (l *Ledger) KeepWitness(path string, log *slog.Logger, failed func()) {
	l.witness = &witness{database: path, log: log, failed: failed, failures: kgs.NewReminder(log, "write the witness of the database", witnessReminder)}
}

// openWitness compares the witness with the database under the lock of the database, and writes the witness after the
// commit. It skips ahead if the database is older than the witness. It also skips ahead if the witness is damaged and
// the database has issued numbers, because the database may then be older.
func (l *Ledger) openWitness(ctx context.Context) error {
	w := l.witness
	if w == nil {
		return nil
	}
	w.use(l.Name())
	path, problem := w.path(), ""
	err := l.update(ctx, "witness", func(ctx context.Context, t *tx) error {
		mark, err := readWitness(path, l.Name())
		switch {
		case t.last == 0 && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, errDamaged)):
			return nil // the database has issued no numbers
		case errors.Is(err, fs.ErrNotExist):
			problem = witnessMissing
			return nil
		case errors.Is(err, errDamaged):
			problem = witnessDamaged
			return t.skipDamaged(ctx, w)
		case err != nil:
			return fmt.Errorf("%w: %w", ErrWitness, err)
		}
		l.Remember(mark)
		below, err := t.counterBelow(ctx, mark) // after Restored, the last id is above the mark, but a counter may be below the mark
		if err != nil {
			return err
		}
		if t.behind() || below {
			return t.skipAhead(ctx)
		}
		if mark.ID < t.last && t.rolledBack == 0 { // a skip-ahead raises the last id above the mark, so the witness need not be old
			problem = witnessOld
		}
		return nil
	})
	if err != nil {
		w.use("")
		return err
	}
	if problem != "" {
		w.log.Warn("the witness cannot show whether the database was restored from an older file", slog.String("why", problem), slog.String("path", path))
	}
	return nil
}

// use selects the witness of the given ledger, and marks the file as due. If ledger is empty, the process then uses no
// witness.
func (w *witness) use(ledger string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ledger, w.written, w.due = ledger, 0, true
}

// These are the reasons why a witness cannot show whether the database was restored from an older file.
const (
	witnessMissing = "the witness of the database is missing: if the database was restored from an older file, the ledger repeats the codes that it issued after that file was made"
	witnessDamaged = "the witness of the database is damaged: the ledger skips ahead as after a rollback"
	witnessOld     = "the witness of the database lacks the last changes of the database: " +
		"if the database was restored from a file that is newer than the witness, the ledger repeats the codes that it issued after that file was made"
)

// skipDamaged skips ahead and replaces a damaged witness before the commit. If the file cannot be replaced, the change
// fails, because each later start would otherwise skip ahead again. If the process crashes before the commit, the new
// witness makes the next start skip ahead.
func (t *tx) skipDamaged(ctx context.Context, w *witness) error {
	t.everyLength = true // the mark of the damaged file is unknown
	if err := t.skipAhead(ctx); err != nil {
		return err
	}
	next, err := nextIn(ctx, t.Tx)
	if err == nil {
		err = w.replace(HighWaterMark{ID: t.last, Next: next})
	}
	if err != nil {
		return fmt.Errorf("%w: replace the damaged file: %w", ErrWitness, err)
	}
	return nil
}

// path returns the path of the file.
func (w *witness) path() string { return w.database + witnessInfix + w.ledger }

// keepWitness writes the witness after a change. grown reports whether the change has assigned new ids, and last is the
// last id. If the file is not due, keepWitness writes it only if the change has assigned ids that the file does not
// cover. keepWitness writes even if ctx has ended, because the change is committed, and the caller uses the numbers of
// the change.
func (l *Ledger) keepWitness(ctx context.Context, last int64, grown bool) {
	w := l.witness
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if covered := !grown || last <= w.written; w.ledger == "" || covered && !w.due {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), witnessTimeout)
	defer cancel()
	err := l.writeWitness(ctx)
	w.failures.Note(err)
	w.due = err != nil
	if err != nil {
		w.failed()
	}
}

func (l *Ledger) writeWitness(ctx context.Context) error {
	tx, err := l.write.BeginTx(ctx, nil) // on SQLite, this takes the lock of the database
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // the transaction only reads
	var mark HighWaterMark
	if err := tx.QueryRowContext(ctx, `SELECT last_range FROM kgs_ledger WHERE id = 1`).Scan(&mark.ID); err != nil {
		return err
	}
	if mark.Next, err = nextIn(ctx, tx); err != nil {
		return err
	}
	if err := l.witness.replace(mark); err != nil {
		return err
	}
	l.witness.written = mark.ID
	return nil
}

// nextIn returns the counters that are above 0, by code length.
func nextIn(ctx context.Context, tx *sql.Tx) (next map[int]int64, err error) {
	spaces, err := collect(ctx, tx, scanSpace, selectSpaces)
	next = make(map[int]int64)
	for _, s := range spaces {
		if s.Next > 0 {
			next[s.Length] = s.Next
		}
	}
	return next, err
}

// witnessText is the first line of the file, as JSON. The second line is the CRC-32 of the first line.
type witnessText struct {
	Ledger string        `json:"ledger"`
	LastID int64         `json:"last_id"`
	Next   map[int]int64 `json:"next"` // counters by code length
}

var errDamaged = errors.New("the file is damaged")

// readWitness returns the high-water mark in the file at path. It fails with errDamaged if the file is damaged or is the
// witness of a ledger with another name.
func readWitness(path, ledger string) (HighWaterMark, error) {
	info, err := os.Stat(path)
	if err != nil {
		return HighWaterMark{}, err
	}
	if !info.Mode().IsRegular() { // reading a named pipe would block
		return HighWaterMark{}, fmt.Errorf("%s is not a regular file", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return HighWaterMark{}, err
	}
	first, second, _ := bytes.Cut(text, []byte("\n"))
	if string(second) != checksum(first) {
		return HighWaterMark{}, errDamaged
	}
	var w witnessText
	if err := json.Unmarshal(first, &w); err != nil {
		return HighWaterMark{}, fmt.Errorf("%w: %w", errDamaged, err)
	}
	if w.Ledger != ledger {
		return HighWaterMark{}, errDamaged
	}
	return HighWaterMark{ID: w.LastID, Next: w.Next}, nil
}

func checksum(line []byte) string {
	return strconv.FormatUint(uint64(crc32.ChecksumIEEE(line)), 16) + "\n"
}

// replace replaces the file with a file that contains mark. After a crash of the machine, the file has either the old or
// the new content. The caller has the lock of the database, so no other process writes the draft.
func (w *witness) replace(mark HighWaterMark) error {
	line, err := json.Marshal(witnessText{w.ledger, mark.ID, mark.Next})
	if err != nil {
		return err
	}
	path := w.path()
	draft := path + draftSuffix
	// A draft exists if a process was killed before it renamed the file.
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := diskfile.CreateBeside(w.database, draft)
	if err != nil {
		return err
	}
	_, err = file.Write(append(append(line, '\n'), checksum(line)...))
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	return diskfile.SyncFolder(filepath.Dir(path))
}

// IsBeside reports whether suffix ends the name of a file that the ledger creates beside an SQLite file. Such a name
// consists of the name of the SQLite file and the suffix.
func IsBeside(suffix string) bool {
	return strings.HasPrefix(suffix, witnessInfix) || strings.HasPrefix(suffix, presenceInfix)
}
