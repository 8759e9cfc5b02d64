package machine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// clusterSlots is the number of hash slots of a Redis Cluster.
const clusterSlots = 16384

// StartRedisCluster starts a Redis Cluster of the given number of masters, each with one replica. args
// are additional options ("--name", "value"). It waits until the Cluster accepts commands and every
// replica is in sync. It returns the masters, followed by their replicas in the same order. A replica
// replaces a master that has not answered for about a second. The caller closes the servers.
func StartRedisCluster(ctx context.Context, masters int, args ...string) (nodes []*Server, err error) {
	defer func() {
		if err != nil {
			for _, n := range nodes {
				err = errors.Join(err, n.Close())
			}
			nodes = nil
		}
	}()
	for range 2 * masters {
		bus, err := freePort() // the default is 10,000 above the port of the server and may be in use
		if err != nil {
			return nodes, err
		}
		node, err := StartRedis(ctx, append([]string{
			"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus), "--cluster-node-timeout", "1000",
			"--repl-diskless-sync-delay", "0",
		}, args...)...)
		if err != nil {
			return nodes, err
		}
		nodes = append(nodes, node)
	}
	return nodes, joinCluster(ctx, nodes, masters)
}

// joinCluster combines empty nodes into a Cluster.
func joinCluster(ctx context.Context, nodes []*Server, masters int) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ids := make([]string, len(nodes))
	for i, node := range nodes {
		client := redis.NewClient(&redis.Options{Addr: node.Addr})
		defer func() { _ = client.Close() }() //nolint:gocritic // deferInLoop: a Cluster has few nodes, and every command was answered
		if i < masters {
			lo, hi := clusterSlots*i/masters, clusterSlots*(i+1)/masters-1
			if err := client.Do(ctx, "CLUSTER", "ADDSLOTSRANGE", lo, hi).Err(); err != nil {
				return err
			}
		}
		// Each node needs a different configuration epoch. Otherwise the nodes would need time to agree
		// on the owners of the slots.
		if err := client.Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err(); err != nil {
			return err
		}
		if err := meet(ctx, client, nodes[0]); err != nil {
			return err
		}
		var err error
		if ids[i], err = client.Do(ctx, "CLUSTER", "MYID").Text(); err != nil {
			return err
		}
	}
	for i, node := range nodes[masters:] {
		if err := await(ctx, node, func(client *redis.Client) error {
			return client.ClusterReplicate(ctx, ids[i]).Err() // fails while the node does not know its master yet
		}); err != nil {
			return err
		}
	}
	for i, node := range nodes {
		if err := await(ctx, node, func(client *redis.Client) error { return clusterReady(ctx, client, len(nodes), i >= masters) }); err != nil {
			return err
		}
	}
	return nil
}

// meet introduces a node to another node.
func meet(ctx context.Context, client *redis.Client, other *Server) error {
	host, port, err := net.SplitHostPort(other.Addr)
	if err != nil {
		return err
	}
	bus := ""
	for i, arg := range other.args {
		if arg == "--cluster-port" {
			bus = other.args[i+1]
		}
	}
	return client.Do(ctx, "CLUSTER", "MEET", host, port, bus).Err()
}

// clusterReady returns nil if a node knows all nodes and reports that the Cluster works. A replica
// must also be in sync.
func clusterReady(ctx context.Context, client *redis.Client, nodes int, replica bool) error {
	info, err := client.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", nodes)) {
		return fmt.Errorf("the Cluster is not complete: %s", info)
	}
	role, err := client.Info(ctx, "replication").Result()
	if replica && err == nil && !strings.Contains(role, "master_link_status:up") {
		err = errors.New("a replica is not in sync")
	}
	return err
}

// await calls do with a client of the node until do succeeds. If ctx ends earlier, await returns the last error of do.
func await(ctx context.Context, node *Server, do func(*redis.Client) error) error {
	client := redis.NewClient(&redis.Options{Addr: node.Addr})
	defer func() { _ = client.Close() }() // do returns the errors of its commands
	for {
		err := do(client)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pollInterval):
		}
	}
}

// ClusterURL returns the URL of a Cluster for clients.
func ClusterURL(nodes []*Server) string {
	addrs := make([]string, len(nodes))
	for i, n := range nodes {
		addrs[i] = n.Addr
	}
	return "redis://" + strings.Join(addrs, ",")
}
