package shortener

import (
	"context"
	"fmt"
	"iter"
	"sync"
)

// Pages yields the rows of a store that reads them page by page, as [Store.All] does. read returns the
// next page. It must stop when its context ends. The last page is the first one with fewer than size rows.
// While the caller handles a page, a goroutine reads the next one. This goroutine ends before the sequence
// ends. The sequence can be used only once, because read keeps a position.
func Pages(ctx context.Context, size int, read func(ctx context.Context) ([]Row, error)) iter.Seq2[Row, error] {
	type page struct {
		rows []Row
		err  error
	}
	return func(yield func(Row, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		pages := make(chan page)
		var reader sync.WaitGroup
		defer reader.Wait()
		defer cancel()
		reader.Go(func() {
			defer close(pages)
			for {
				rows, err := read(ctx)
				select {
				case pages <- page{rows, err}:
				case <-ctx.Done():
					return
				}
				if err != nil || len(rows) < size {
					return
				}
			}
		})
		for p := range pages {
			if p.err != nil {
				yield(Row{}, fmt.Errorf("read all links: %w", p.err))
				return
			}
			for _, row := range p.rows {
				if !yield(row, nil) {
					return
				}
			}
		}
		if err := ctx.Err(); err != nil {
			yield(Row{}, fmt.Errorf("read all links: %w", err))
		}
	}
}
