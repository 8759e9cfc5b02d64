package schemes

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// memoryFound is what a scheme keeps in Redis.
type memoryFound struct {
	listed int64 // bytes of lists
	keys   int64 // that wait in these; 0 where there is nothing but a counter
	rest   int64 // bytes of all else: of a pool, mostly batches that servers hold
}

// String says it in a cell.
func (m memoryFound) String() string {
	if m.keys == 0 {
		return commas(m.listed+m.rest) + " bytes in all"
	}
	return fmt.Sprintf("%.2f bytes a key that waits, and %s bytes for batches that servers hold", float64(m.listed)/float64(m.keys), commas(m.rest))
}

// keepMemory asks Redis what the keys of one scheme take.
func (e *experiment) keepMemory(ctx context.Context, r *running) {
	m, err := memoryOf(ctx, r.redis)
	if err != nil {
		e.fail(r.name, fmt.Errorf("memory of Redis: %w", err))
		return
	}
	e.found[r.name].memory = &m
}

func memoryOf(ctx context.Context, url string) (m memoryFound, err error) {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return m, err
	}
	client := redis.NewClient(opts)
	defer func() { err = errors.Join(err, client.Close()) }()
	names, err := client.Keys(ctx, "*").Result() // a handful
	if err != nil {
		return m, err
	}
	for _, name := range names {
		if err := m.add(ctx, client, name); err != nil {
			return m, err
		}
	}
	return m, nil
}

// add looks up one key; a list's length and memory at the same moment.
func (m *memoryFound) add(ctx context.Context, client *redis.Client, name string) error {
	kind, err := client.Type(ctx, name).Result()
	if err != nil {
		return err
	}
	var bytes, length *redis.IntCmd
	_, err = client.TxPipelined(ctx, func(p redis.Pipeliner) error {
		bytes = p.MemoryUsage(ctx, name, 0) // 0: look at every element
		if kind == "list" {
			length = p.LLen(ctx, name)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case length == nil:
		m.rest += bytes.Val()
	default:
		m.listed, m.keys = m.listed+bytes.Val(), m.keys+length.Val()
	}
	return nil
}
