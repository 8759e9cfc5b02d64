package main

import (
	"context"
	"errors"
	"time"

	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
	tcpostgres "github.com/testcontainers/testcontainers-go/modules/postgres"
	tcredis "github.com/testcontainers/testcontainers-go/modules/redis"
)

// docker-compose.yml uses the same images.
const (
	postgresImage = "postgres:17-alpine"
	redisImage    = "redis:7-alpine"
)

const (
	containerTimeout = 5 * time.Minute // for pulling an image and starting it
	removeTimeout    = time.Minute
)

func postgresContainer(ctx context.Context) (running, error) {
	ctx, cancel := context.WithTimeout(ctx, containerTimeout)
	defer cancel()
	var args []string
	for _, setting := range fastPostgres {
		args = append(args, "-c", setting)
	}
	container, err := tcpostgres.Run(ctx, postgresImage,
		tcpostgres.BasicWaitStrategies(),
		testcontainers.WithCmdArgs(args...),
		testcontainers.WithLogger(tclog.NewNoopLogger()))
	if err != nil {
		return running{}, errors.Join(err, remove(container))
	}
	url, err := container.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		return running{}, errors.Join(err, remove(container))
	}
	return running{url: url, stop: func() error { return remove(container) }}, nil
}

func redisContainer(ctx context.Context) (running, error) {
	ctx, cancel := context.WithTimeout(ctx, containerTimeout)
	defer cancel()
	container, err := tcredis.Run(ctx, redisImage,
		testcontainers.WithCmdArgs(fastRedis...),
		testcontainers.WithLogger(tclog.NewNoopLogger()))
	if err != nil {
		return running{}, errors.Join(err, remove(container))
	}
	url, err := container.ConnectionString(ctx)
	if err != nil {
		return running{}, errors.Join(err, remove(container))
	}
	return running{url: url, stop: func() error { return remove(container) }}, nil
}

// remove deletes a container and its volume. The container may be nil. remove uses its own
// context, because it also runs after the caller's context is cancelled.
func remove(container testcontainers.Container) error {
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	return testcontainers.TerminateContainer(container, testcontainers.StopContext(ctx))
}
