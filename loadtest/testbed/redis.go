package testbed

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// ListedKeys is how many elements the lists of a Redis have that is there for a pool alone.
func ListedKeys(ctx context.Context, client *redis.Client) (n int64, err error) {
	names, err := client.Keys(ctx, "*").Result() // a handful
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		kind, err := client.Type(ctx, name).Result()
		if err != nil {
			return 0, err
		}
		if kind != "list" {
			continue
		}
		length, err := client.LLen(ctx, name).Result()
		if err != nil {
			return 0, err
		}
		n += length
	}
	return n, nil
}
