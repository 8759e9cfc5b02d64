package ledger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"keypool/kgs"
)

// witness is a small file beside an SQLite database that repeats the high-water mark of its ledger. If the database is replaced by an
// older file, the witness still has the mark, and the ledger skips ahead as after every other rollback. It does not help if both files
// are replaced.
//
// A process writes the witness after the commit of each new row, and before it uses the numbers of the row. It writes while it holds the
// lock of the database, so that two processes never write an older mark over a newer one. If a process crashes between the commit and
// the write, the witness lacks numbers that no process has used.
type witness struct {
	path string
	log  *slog.Logger

	mu       sync.Mutex
	ledger   string // name of the ledger; empty until the file was read
	problem  string // why the file could not be used; logged before the first write
	due      bool   // the file has to be written
	failures kgs.FailureLog
}

// WitnessSuffix is the end of the name of the witness of an SQLite file.
const WitnessSuffix = ".witness"

// KeepWitness makes the ledger keep a witness at path. The caller must call KeepWitness before it uses the ledger. An existing
// witness is read by Open and Identify. If the file of an existing ledger is missing or damaged, or is the witness of another ledger,
// the first change logs a warning and writes a new file. If a write fails, the change succeeds nevertheless, the ledger logs a
// warning, and the next change writes again.
func (l *Ledger) KeepWitness(path string, log *slog.Logger) {
	l.witness = &witness{path: path, log: log, failures: kgs.NewFailureLog(log, "write the witness of the database")}
}

// loadWitness reads the witness of the ledger with this name. last is the last id of a range that the database has assigned.
func (l *Ledger) loadWitness(name string, last int64) {
	w := l.witness
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ledger, w.problem, w.due = name, "", true
	mark, of, err := readWitness(w.path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && last == 0: // a new database
	case errors.Is(err, fs.ErrNotExist):
		w.problem = "the file is missing"
	case err != nil:
		w.problem = err.Error()
	case of != name:
		w.problem = "the file is of another database"
	default:
		w.due = false
		l.Remember(mark)
	}
}

// keepWitness writes the witness if the database has new rows, or if an earlier write failed.
func (l *Ledger) keepWitness(ctx context.Context, grown bool) {
	w := l.witness
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ledger == "" || !grown && !w.due { // a ledger that was not opened does not know whether the file is newer
		return
	}
	if w.problem != "" {
		w.log.Warn("no witness beside the database: if the database was restored from an older file, the codes issued since then are issued again",
			slog.String("path", w.path), slog.String("problem", w.problem))
		w.problem = ""
	}
	err := l.writeWitness(ctx)
	w.failures.Note(err)
	w.due = err != nil
}

func (l *Ledger) writeWitness(ctx context.Context) error {
	tx, err := l.write.BeginTx(ctx, nil) // takes the lock
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // the transaction only reads
	mark := HighWaterMark{Next: make(map[int]int64)}
	if err := tx.QueryRowContext(ctx, `SELECT last_range FROM kgs_ledger WHERE id = 1`).Scan(&mark.ID); err != nil {
		return err
	}
	spaces, err := collect(ctx, tx, scanSpace, selectSpaces)
	if err != nil {
		return err
	}
	for _, s := range spaces {
		if s.Next > 0 {
			mark.Next[s.Length] = s.Next
		}
	}
	return replaceWitness(l.witness.path, mark, l.witness.ledger)
}

// dropWitness deletes the witness of a ledger that was replaced.
func (l *Ledger) dropWitness() error {
	if l.witness == nil {
		return nil
	}
	if err := os.Remove(l.witness.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// witnessText is the first line of the file, as JSON. The second line is its CRC-32.
type witnessText struct {
	Ledger string        `json:"ledger"`
	LastID int64         `json:"last_id"`
	Next   map[int]int64 `json:"next"` // by code length
}

var errWitness = errors.New("the file is damaged")

func readWitness(path string) (mark HighWaterMark, ledger string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return HighWaterMark{}, "", err
	}
	first, second, _ := bytes.Cut(text, []byte("\n"))
	if string(second) != checksum(first) {
		return HighWaterMark{}, "", errWitness
	}
	var w witnessText
	if err := json.Unmarshal(first, &w); err != nil {
		return HighWaterMark{}, "", fmt.Errorf("%w: %w", errWitness, err)
	}
	return HighWaterMark{ID: w.LastID, Next: w.Next}, w.Ledger, nil
}

func checksum(line []byte) string {
	return strconv.FormatUint(uint64(crc32.ChecksumIEEE(line)), 16) + "\n"
}

// replaceWitness replaces the file. After a crash of the machine, the file has either the old or the new content.
func replaceWitness(path string, mark HighWaterMark, ledger string) error {
	line, err := json.Marshal(witnessText{ledger, mark.ID, mark.Next})
	if err != nil {
		return err
	}
	next := path + ".new" // only the process that has the lock of the database writes it
	if err := writeSynced(next, append(append(line, '\n'), checksum(line)...)); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func writeSynced(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
