package shortener

import (
	"context"
	"fmt"
	"iter"
	"sync"
)

// Pages yields the links of a store that reads them page by page, as [Store.All] does. read returns the
// next page. It must stop when its context ends. The last page is the first one with fewer than size links.
// While the caller handles a page, a goroutine reads the next one. It ends before the sequence does.
// The sequence can be used once, because read has a position.
func Pages(ctx context.Context, size int, read func(ctx context.Context) ([]Link, error)) iter.Seq2[Link, error] {
	type page struct {
		links []Link
		err   error
	}
	return func(yield func(Link, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		pages := make(chan page)
		var reader sync.WaitGroup
		defer reader.Wait()
		defer cancel()
		reader.Go(func() {
			defer close(pages)
			for {
				links, err := read(ctx)
				select {
				case pages <- page{links, err}:
				case <-ctx.Done():
					return
				}
				if err != nil || len(links) < size {
					return
				}
			}
		})
		for p := range pages {
			if p.err != nil {
				yield(Link{}, fmt.Errorf("read all links: %w", p.err))
				return
			}
			for _, link := range p.links {
				if !yield(link, nil) {
					return
				}
			}
		}
		if err := ctx.Err(); err != nil {
			yield(Link{}, fmt.Errorf("read all links: %w", err))
		}
	}
}
