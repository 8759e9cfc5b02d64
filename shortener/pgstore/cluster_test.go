package pgstore

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"keypool/shortener"
)

func TestAnsweredReturnsFalseIfServerCannotExecuteStatements(t *testing.T) {
	t.Parallel()
	reply := func(severity, code string) error {
		return fmt.Errorf("insert links: %w", &pgconn.PgError{SeverityUnlocalized: severity, Code: code})
	}
	for _, test := range []struct {
		name string
		err  error
		want bool
	}{
		{"success", nil, true},
		{"no link", shortener.ErrNotFound, true},
		{"another version of the link", shortener.ErrChanged, true},
		{"a damaged row", shortener.ErrDetails, true},
		{"a conflict", reply("ERROR", stateUniqueViolation), true},
		{"a full disk", reply("ERROR", stateDiskFull), true},
		{"too many connections", reply("FATAL", "53300"), false},
		{"a server that is stopping", reply("ERROR", "57P01"), false},
		{"a server that does not reach another one", reply("ERROR", "08006"), false},
		{"a timeout", context.DeadlineExceeded, false},
	} {
		if got := Answered(test.err); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
