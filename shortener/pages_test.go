package shortener

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// numbered returns a read function for Pages. The read function returns rows with the codes "0" to n-1, in
// pages of size rows. After the last row, the read function fails with err if err is not nil.
func numbered(n, size int, err error) func(context.Context) ([]Row, error) {
	next := 0
	return func(context.Context) (page []Row, _ error) {
		for ; next < n && len(page) < size; next++ {
			page = append(page, Row{Code: fmt.Sprint(next)})
		}
		if len(page) == 0 && err != nil {
			return nil, err
		}
		return page, nil
	}
}

func TestPagesIteratorYieldsEachRowOnce(t *testing.T) {
	t.Parallel()
	const size = 4
	for n := range 3*size + 1 {
		got := 0
		for row, err := range Pages(t.Context(), size, numbered(n, size, nil)) {
			if err != nil || row.Code != fmt.Sprint(got) {
				t.Fatalf("of %d rows, row %d is %q, error %v", n, got, row.Code, err)
			}
			got++
		}
		if got != n {
			t.Errorf("Pages yields %d rows, want %d", got, n)
		}
	}
}

// If the caller stops early, the sequence must end. The sequence waits for its goroutine, so the
// goroutine must end too.
func TestPagesIteratorEndsWhenCallerStops(t *testing.T) {
	t.Parallel()
	for range Pages(t.Context(), 2, numbered(1000, 2, nil)) {
		break
	}
}

func TestPagesIteratorYieldsErrorOfReadOrOfContext(t *testing.T) {
	t.Parallel()
	errRead := errors.New("connection reset")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name string
		ctx  context.Context
		want error
	}{{"read", t.Context(), errRead}, {"context", ended, context.Canceled}} {
		var got error
		for _, err := range Pages(tt.ctx, 2, numbered(4, 2, errRead)) {
			got = err
		}
		if !errors.Is(got, tt.want) {
			t.Errorf("%s: error %v, want %v", tt.name, got, tt.want)
		}
	}
}
