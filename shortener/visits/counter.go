package visits

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// shardCount is the number of shards of the table of counts.
	shardCount = 64
	// DefaultMaxRows is the default of Config.MaxRows.
	DefaultMaxRows = 1 << 18
	// facetBytes limits the memory for the counts of facets: all of them together use at most facetBytes times Config.MaxRows
	// bytes.
	facetBytes = 64
	// facetOverhead is the memory of one count of a facet without the texts of its key, in bytes.
	facetOverhead = 96
)

// Config holds the settings of a Counter. Store is required.
type Config struct {
	Store      Applier
	Detail     bool             // whether visits are counted by facet
	Flush      time.Duration    // time between two flushes, one second if 0
	MaxRows    int              // maximum number of rows in memory, DefaultMaxRows if 0; a flush in progress may hold the same number of rows in addition
	PartFacets int              // maximum length of Part.Facets, 4096 if 0; see Store.PartFacets
	Metrics    *Metrics         // if nil, the metrics are not exported
	Note       func(error)      // gets the result of each flush of Run, except the flush at the end; may be nil
	Now        func() time.Time // if nil, time.Now
}

// Counter counts visits in memory and stores the counts. All its methods may be called concurrently.
type Counter struct {
	Config

	agents agents
	seed   maphash.Seed
	shards [shardCount]shard
	flusher
}

// New returns a counter. The counter stores nothing until Run or FlushNow is called.
func New(cfg Config) *Counter {
	if cfg.Flush == 0 {
		cfg.Flush = time.Second
	}
	if cfg.MaxRows == 0 {
		cfg.MaxRows = DefaultMaxRows
	}
	if cfg.PartFacets == 0 {
		cfg.PartFacets = partRows
	}
	if cfg.Metrics == nil {
		cfg.Metrics = NewMetrics(prometheus.NewRegistry())
	}
	if cfg.Note == nil {
		cfg.Note = func(error) {}
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	c := &Counter{Config: cfg, seed: maphash.MakeSeed(), agents: agents{seed: maphash.MakeSeed()}}
	for i := range c.shards {
		c.shards[i].reset()
	}
	c.start()
	return c
}

// shard holds a share of the counts, and has a lock. Visits in different shards do not wait for each
// other.
type shard struct {
	mu     sync.Mutex
	rows   map[rowKey]*tally // pointers, because an assignment to an element would replace its cloned key by a key that shares memory with a URL
	facets map[facetKey]*Count
	bytes  int // memory of facets

	_ [64]byte // keeps the locks of two shards in different cache lines
}

type rowKey struct {
	code string
	hour int64
}

type facetKey struct {
	code  string
	value string
	day   int64
	facet Facet
}

type tally struct {
	owner int64
	Count
}

func (s *shard) reset() {
	s.rows, s.facets, s.bytes = make(map[rowKey]*tally), make(map[facetKey]*Count), 0
}

// take removes the counts of the shard and returns them.
func (s *shard) take() (map[rowKey]*tally, map[facetKey]*Count) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rows) == 0 { // a shard without rows has no facets
		return nil, nil
	}
	rows, facets := s.rows, s.facets
	s.reset()
	return rows, facets
}

// Count counts one visit. It never waits for the database. If the count of the link does not fit in memory, it drops
// the visit. If a count of a facet does not fit, it drops only this count. Count allocates memory only for the first
// visit of a link in an hour or after a flush, for a new value of a facet, for a user agent that is not in memory, and
// to change the letter case of a referrer or a country.
func (c *Counter) Count(v Visit) {
	agent := c.agents.of(v.Agent)
	one := Count{Human: 1}
	if v.Prefetch || agent.bot {
		one = Count{Bot: 1}
	}
	hour := hourOf(c.Now())
	s := &c.shards[maphash.String(c.seed, v.Code)%shardCount]
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.count(rowKey{v.Code, hour}, v.Owner, one, max(1, c.MaxRows/shardCount)) {
		c.Metrics.dropped.Inc()
		return
	}
	if !c.Detail {
		return
	}
	limit := facetBytes * c.MaxRows / shardCount
	for _, f := range [...]struct {
		facet Facet
		value string
	}{{Referrers, referrerHost(v.Referrer)}, {Countries, countryCode(v.Country)}, {Devices, agent.device}} {
		if f.value != "" && !s.countFacet(facetKey{v.Code, f.value, hour / hoursPerDay, f.facet}, one, limit) {
			c.Metrics.droppedDetails.Inc()
		}
	}
}

// count adds a visit to the row with this key. The parameter one counts this visit as human or as bot. If the shard has no room
// for a new row, count returns false.
func (s *shard) count(key rowKey, owner int64, one Count, limit int) bool {
	t := s.rows[key]
	if t == nil {
		if len(s.rows) >= limit {
			return false
		}
		key.code = strings.Clone(key.code) // the code shares memory with the URL of the link
		t = &tally{owner: owner}
		s.rows[key] = t
	}
	t.Add(one)
	return true
}

// countFacet adds a visit to the count of the facet with this key. The parameter one counts this visit as human or as bot. If
// the shard has no room for a new key, countFacet returns false.
func (s *shard) countFacet(key facetKey, one Count, limit int) bool {
	n := s.facets[key]
	if n == nil {
		size := facetOverhead + len(key.code) + len(key.value)
		if s.bytes+size > limit {
			return false
		}
		s.bytes += size
		key.code, key.value = strings.Clone(key.code), strings.Clone(key.value) // the texts share memory with a request
		n = new(Count)
		s.facets[key] = n
	}
	n.Add(one)
	return true
}

// drain removes all counts and returns them in the order that [Part] requires.
func (c *Counter) drain() (rows []Row, facets []FacetRow) {
	for i := range c.shards {
		s := &c.shards[i]
		counted, byFacet := s.take()
		for key, t := range counted {
			rows = append(rows, Row{key.code, key.hour, t.owner, t.Count})
		}
		for key, n := range byFacet {
			facets = append(facets, FacetRow{key.code, key.facet, key.day, key.value, *n})
		}
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Hour, b.Hour)) })
	slices.SortFunc(facets, func(a, b FacetRow) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Facet, b.Facet), cmp.Compare(a.Day, b.Day), cmp.Compare(a.Value, b.Value))
	})
	return rows, facets
}

// counted returns the number of visits in the shards, without the visits of a flush in progress.
func (c *Counter) counted() (visits int64) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for _, t := range s.rows {
			visits += t.Sum()
		}
		s.mu.Unlock()
	}
	return visits
}

// size returns the number of rows in the shards, without the rows of a flush in progress.
func (c *Counter) size() (n int) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		n += len(s.rows)
		s.mu.Unlock()
	}
	return n
}
