package server

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"keypool/cmd/internal/app"
	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/kgs"
	"keypool/shortener"
	"keypool/shortener/citusstore"
	"keypool/shortener/pgstore"
	"keypool/shortener/service"
)

// openReplicas returns the function with which redirects look up links, and a description of the replicas that this function
// reads. If the settings name no replicas, the function is the method Lookup of the store, and the description is the zero
// value. If the settings name replicas and the links are on a Citus cluster, openReplicas fails.
func openReplicas(ctx context.Context, p *program.Program, c *app.Core, store shortener.Store, s config.Serve) (service.Lookup, service.Replicas, error) {
	primary, ok := store.(*pgstore.Store)
	if _, distributed := store.(*citusstore.Store); distributed && len(s.Replicas) > 0 {
		return nil, service.Replicas{}, &config.Error{
			Name: "DATABASE_READ_URLS", Got: "replicas, although the links are distributed over a Citus cluster",
			Takes: "no replicas, because the nodes of the cluster answer the look-ups",
		}
	}
	if !ok || len(s.Replicas) == 0 {
		return store.Lookup, service.Replicas{}, nil
	}
	var pools []*pgxpool.Pool
	var failures []kgs.FailureLog
	for i, replica := range s.Replicas {
		pool, err := c.OpenReplicaPool(ctx, replica.Postgres)
		if err != nil {
			return nil, service.Replicas{}, err
		}
		pools = append(pools, pool)
		failures = append(failures, kgs.NewFailureLog(c.Log, fmt.Sprintf("measure the lag of replica %d of DATABASE_READ_URLS", i+1)))
	}
	maxLag := time.Duration(s.MaxLag)
	replicas := pgstore.NewReplicas(primary, pools, maxLag, pgstore.NewReplicaMetrics(c.Registry))
	p.Background("replicas", p.Fail, func(ctx context.Context) error {
		return replicas.Watch(ctx, func(replica int, err error) { failures[replica].Note(err) })
	})
	return replicas.Lookup, service.Replicas{MaxLag: maxLag, Answered: replicas.Answered}, nil
}
