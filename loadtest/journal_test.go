package loadtest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestReadJournalReturnsWhatTheJournalWrote(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	journal, err := CreateJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	outcomes := []Outcome{
		{State: Acknowledged, Code: "004C92"},
		{State: Acknowledged, Code: "a code with \"quotes\"\nand lines"},
		{State: Refused, Detail: "503 Service Unavailable"},
		{State: Unknown, Detail: "read: connection reset\nby peer"},
		{State: Unsent, Detail: "connection refused"},
		{State: Intended},
	}
	for n, outcome := range outcomes {
		entry, err := journal.Intend()
		if err != nil {
			t.Fatal(err)
		}
		if got := readFile(t, path); len(got) != n+1 || got[n].URL != entry.URL || got[n].State != Intended {
			t.Fatalf("the file does not contain the intent of creation %d before the request: %+v", n, got)
		}
		if outcome.State == Intended {
			continue
		}
		if err := journal.Settle(entry.N, outcome); err != nil {
			t.Fatal(err)
		}
	}
	// The journal is not closed yet, because the file must be complete even if this process crashes.
	if diff := cmp.Diff(journal.Entries(), readFile(t, path), cmpopts.EquateApproxTime(0)); diff != "" {
		t.Errorf("(-in memory +in the file):\n%s", diff)
	}
	if err := journal.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := CreateJournal(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v for an existing journal, want fs.ErrExist", err)
	}
}

func readFile(t *testing.T, path string) []Entry {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	entries, err := ReadJournal(f)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func TestJournalRefusesASecondOutcome(t *testing.T) {
	t.Parallel()
	journal, err := CreateJournal("")
	if err != nil {
		t.Fatal(err)
	}
	entry, err := journal.Intend()
	if err != nil {
		t.Fatal(err)
	}
	if err := journal.Settle(entry.N, Outcome{State: Unknown}); err != nil {
		t.Fatal(err)
	}
	if err := journal.Settle(entry.N, Outcome{State: Acknowledged, Code: "x"}); err == nil {
		t.Error("a creation was settled twice")
	}
}

func TestReadJournal(t *testing.T) {
	t.Parallel()
	const (
		intent  = `2026-01-02T03:04:05.6Z 0 intended "https://loadtest.example/"` + "\n"
		outcome = `2026-01-02T03:04:06Z 0 acknowledged "abc"` + "\n"
	)
	at := time.Date(2026, 1, 2, 3, 4, 5, 6e8, time.UTC)
	entry := Entry{URL: "https://loadtest.example/", At: at, Outcome: Outcome{State: Acknowledged, Code: "abc"}}
	open := entry
	open.Outcome = Outcome{State: Intended}
	tests := []struct {
		name, text string
		want       []Entry
		err        string
	}{
		{"empty", "", nil, ""},
		{"complete", intent + outcome, []Entry{entry}, ""},
		{"incomplete intent", intent[:len(intent)-5], nil, ""},
		{"incomplete outcome", intent + outcome[:len(outcome)-1], []Entry{open}, ""},
		{"second outcome", intent + outcome + outcome, nil, "line 3"},
		{"outcome without an intent", outcome, nil, "line 1"},
		{"second intent", intent + intent, nil, "line 2"},
		{"unknown state", strings.Replace(intent, "intended", "sent", 1), nil, `cannot become "sent"`},
		{"not a journal", "hello\n", nil, "line 1"},
		{"no quotes", strings.ReplaceAll(intent, `"`, ""), nil, "line 1"},
		{"negative number", intent + strings.Replace(outcome, " 0 ", " -1 ", 1), nil, "line 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := ReadJournal(strings.NewReader(tt.text))
			if (err == nil) != (tt.err == "") || (err != nil && !strings.Contains(err.Error(), tt.err)) {
				t.Fatalf("error %v, want an error with %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
