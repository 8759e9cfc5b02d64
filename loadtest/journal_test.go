package loadtest

import "testing"

func TestJournalPanicsOnSecondOutcomeOfCreation(t *testing.T) {
	t.Parallel()
	journal := NewJournal()
	entry := journal.Intend()
	journal.Settle(entry.N, Outcome{State: Unknown})
	defer func() {
		if recover() == nil {
			t.Error("a creation was settled twice")
		}
	}()
	journal.Settle(entry.N, Outcome{State: Acknowledged, Code: "x"})
}
