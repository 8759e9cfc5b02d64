package citusstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// placement describes on which nodes the links live. It is the result of one reading of the metadata of Citus, and is
// immutable.
type placement struct {
	version          string
	ranked, unranked shards
	nodes            map[int]*node // by the number of the part; this number is the groupid of the node in Citus
}

// shards are the shards of a table, in the order of their hash values. Each hash value belongs to exactly one shard.
type shards struct {
	max  []int32 // the greatest hash value of each shard
	part []int   // the part in which the shard is
}

// partOf returns the part that contains the rows with a hash value.
func (s *shards) partOf(hash int32) int {
	at, _ := slices.BinarySearch(s.max, hash)
	return s.part[at]
}

// address is the address of a node of the cluster, as the other nodes use it.
type address struct {
	part int
	host string
	port uint16
	own  bool // whether the node can plan statements by itself: it has the metadata of the cluster
}

func (a address) String() string { return net.JoinHostPort(a.host, strconv.Itoa(int(a.port))) }

// IsDistributed reports whether the links of the database are in distributed tables of Citus.
func IsDistributed(ctx context.Context, pool *pgxpool.Pool) (distributed bool, err error) {
	err = pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')`).Scan(&distributed)
	if err == nil && distributed {
		err = pool.QueryRow(ctx, `SELECT count(*) = 2 FROM pg_dist_partition
			WHERE logicalrelid IN ('ranked_links'::regclass, 'unranked_links'::regclass) AND partmethod = 'h'`).Scan(&distributed)
	}
	if err != nil {
		return false, fmt.Errorf("look for distributed tables of links: %w", err)
	}
	return distributed, nil
}

const (
	// readVersion reads a digest that changes if a shard moves, or if the list of nodes changes.
	readVersion = `SELECT coalesce((SELECT md5(string_agg(format('%s %s %s', placementid, shardid, groupid), ',' ORDER BY placementid)) FROM pg_dist_placement), '')
		|| coalesce((SELECT md5(string_agg(format('%s %s %s %s', groupid, nodename, nodeport, metadatasynced), ',' ORDER BY nodeid)) FROM pg_dist_node), '')`
	readNodes  = `SELECT groupid, nodename, nodeport, hasmetadata AND metadatasynced FROM pg_dist_node WHERE noderole = 'primary' AND isactive`
	readShards = `SELECT s.logicalrelid = 'ranked_links'::regclass, s.shardmaxvalue::integer, p.groupid
		FROM pg_dist_shard AS s JOIN pg_dist_placement AS p USING (shardid)
		WHERE s.logicalrelid IN ('ranked_links'::regclass, 'unranked_links'::regclass) AND p.shardstate = 1 ORDER BY 2`
)

// errNoShards reports that the metadata of Citus does not show where the links are.
var errNoShards = errors.New("the metadata of Citus has no shards for the tables of links, or a shard without a node")

// readPlacement reads on which nodes the links live. It returns known if nothing has changed since known was read. The
// parameter nodeAt returns the node at an address.
func readPlacement(ctx context.Context, db *pgxpool.Pool, known *placement, nodeAt func(address) (*node, error)) (*placement, error) {
	p := &placement{nodes: make(map[int]*node)}
	var batch pgx.Batch
	batch.Queue(readVersion).QueryRow(func(row pgx.Row) error { return row.Scan(&p.version) })
	if err := db.SendBatch(ctx, &batch).Close(); err != nil || known != nil && p.version == known.version {
		return known, err
	}
	var addresses []address
	batch = pgx.Batch{}
	batch.Queue(readNodes).Query(func(rows pgx.Rows) error {
		var a address
		_, err := pgx.ForEachRow(rows, []any{&a.part, &a.host, &a.port, &a.own}, func() error { addresses = append(addresses, a); return nil })
		return err
	})
	batch.Queue(readShards).Query(func(rows pgx.Rows) error {
		var ranked bool
		var hash int32
		var part int
		_, err := pgx.ForEachRow(rows, []any{&ranked, &hash, &part}, func() error {
			of := &p.unranked
			if ranked {
				of = &p.ranked
			}
			of.max, of.part = append(of.max, hash), append(of.part, part)
			return nil
		})
		return err
	})
	if err := db.SendBatch(ctx, &batch).Close(); err != nil {
		return known, err
	}
	return p.withNodes(addresses, nodeAt)
}

// withNodes adds to p the nodes that have shards.
func (p *placement) withNodes(addresses []address, nodeAt func(address) (*node, error)) (_ *placement, err error) {
	if len(p.ranked.max) == 0 || len(p.unranked.max) == 0 {
		return nil, errNoShards
	}
	for _, part := range slices.Concat(p.ranked.part, p.unranked.part) {
		if p.nodes[part] != nil {
			continue
		}
		at := slices.IndexFunc(addresses, func(a address) bool { return a.part == part })
		if at < 0 {
			return nil, errNoShards
		}
		if p.nodes[part], err = nodeAt(addresses[at]); err != nil {
			return nil, err
		}
	}
	return p, nil
}
