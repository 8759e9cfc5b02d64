package schemes

import (
	"context"
	"errors"
	"fmt"

	"keypool/loadtest/testbed"

	"github.com/redis/go-redis/v9"
)

// memoryFound is what a scheme keeps in Redis.
type memoryFound struct {
	bytes int64
	keys  int64 // that wait in lists; 0 where there is nothing but a counter
}

// String says it in a cell.
func (m memoryFound) String() string {
	if m.keys == 0 {
		return commas(m.bytes) + " bytes in all"
	}
	return fmt.Sprintf("%.2f bytes a key that waits", float64(m.bytes)/float64(m.keys))
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
		bytes, err := client.MemoryUsage(ctx, name, 0).Result() // 0: look at every element
		if err != nil {
			return m, err
		}
		m.bytes += bytes
	}
	m.keys, err = testbed.ListedKeys(ctx, client)
	return m, err
}
