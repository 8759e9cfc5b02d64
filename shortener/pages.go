package shortener

import (
	"context"
	"fmt"
	"iter"
	"sync"
)

// Pages implements [Store.All] for a store that reads its rows page by page. The function read returns the
// next page, and must stop when its context ends. A page with fewer than size rows is the last one. While
// the caller handles a page, a goroutine reads the next page. This goroutine ends before the sequence
// ends. The sequence can be used only once, because read remembers its position.
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
