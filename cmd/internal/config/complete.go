package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"keypool/kgs/refill"
)

// Rules holds functions of other packages that check settings, and the key sources that these packages provide.
// Package config does not import these packages.
type Rules struct {
	KeySources []KeySource // key sources that KEY_SOURCE may name
	// Origin returns scheme://host[:port] with the host in ASCII. ok is false if no link
	// can begin with this origin, for example because the port is out of range.
	Origin func(text string) (ascii string, ok bool)
	// Host reports whether a link could lead to a host.
	Host func(text string) bool
	// URL returns a URL as a redirect sends it. ok is false if a link could not have this URL.
	URL func(text string) (ascii string, ok bool)
}

// KeySource is a key source that a server can use.
type KeySource struct {
	Name  string
	Needs Need
}

// Need names a setting that a key source requires. If the setting is missing, the text of the error contains this name.
// The zero value means that the key source requires no setting.
type Need string

// Settings that key sources require.
const (
	NeedsRedis    Need = "REDIS_URL"
	NeedsKGS      Need = "KGS_URL"
	NeedsPostgres Need = "a PostgreSQL DATABASE_URL"
)

func (n Need) satisfied(s *Server) bool {
	switch n {
	case "":
		return true
	case NeedsRedis:
		return s.RedisURL != ""
	case NeedsKGS:
		return s.KGSURL != ""
	case NeedsPostgres:
		return s.Database.Postgres != nil
	}
	panic("config: unknown need " + string(n))
}

// Complete checks the levels of the dead man's switch against each other, and against the capacity and the low-water mark of
// the pool.
func (s *Common) Complete() error {
	for _, level := range []struct {
		name string
		Level
	}{{"KGS_RESTART_BELOW", s.RestartBelow}, {"KGS_PAGE_BELOW", s.PageBelow}} {
		if level.Keys(s.PoolCapacity) > s.PoolCapacity {
			return &Error{level.name, level.String(), fmt.Sprintf("%s of %d", takesLevel, s.PoolCapacity)}
		}
	}
	restart, page := s.RestartBelow.Keys(s.PoolCapacity), s.PageBelow.Keys(s.PoolCapacity)
	if mark := refill.LowWater(s.PoolCapacity); restart > mark {
		return &Error{"KGS_RESTART_BELOW", s.RestartBelow.String(),
			fmt.Sprintf("at most 90%%, that is %d keys: the worker begins no refill while the pool is above this level", mark)}
	}
	if page > restart {
		return &Error{"KGS_PAGE_BELOW", s.PageBelow.String(), "a level that is not above KGS_RESTART_BELOW, " + s.RestartBelow.String()}
	}
	return nil
}

// Complete checks the settings against each other and against rules, and fills in the defaults
// that depend on other settings.
func (s *Server) Complete(rules Rules) error {
	if err := s.Common.Complete(); err != nil {
		return err
	}
	if err := s.BaseURL.normalize(rules.Origin); err != nil {
		return err
	}
	if err := s.completeDestinations(rules); err != nil {
		return err
	}
	if s.UI == UIHeader && len(s.TrustedProxies) == 0 {
		return &Error{"UI", s.UI, "header only if TRUSTED_PROXIES is set: without trusted proxies, any client can send the header " + string(s.UIUserHeader)}
	}
	if len(s.Replicas) > 0 && s.Database.Postgres == nil {
		return &Error{"DATABASE_READ_URLS", fmt.Sprintf("%d URLs", len(s.Replicas)), "no value while DATABASE_URL is an SQLite database, because only PostgreSQL has replicas"}
	}
	if s.Tickets == (DatabasePair{}) {
		s.Tickets = DatabasePair{s.Database, s.Database}
	}
	if err := s.completeKeySource(rules.KeySources); err != nil {
		return err
	}
	if s.BatchMax < s.BatchMin {
		return &Error{"KGS_BATCH_MAX", fmt.Sprint(s.BatchMax), fmt.Sprintf("a number that is not below KGS_BATCH_MIN, %d", s.BatchMin)}
	}
	return nil
}

// completeDestinations checks the hosts and the pages that the settings name.
func (s *Server) completeDestinations(rules Rules) error {
	for _, host := range s.OwnHosts {
		if !rules.Host(host) {
			return &Error{"OWN_HOSTS", host, takesOwnHosts}
		}
	}
	if err := s.ReportURL.normalize("REPORT_URL", rules.URL, true); err != nil {
		return err
	}
	if err := s.HomeURL.normalize("HOME_URL", rules.URL, false); err != nil {
		return err
	}
	return s.NotFoundURL.normalize("NOT_FOUND_URL", rules.URL, false)
}

// CompleteOffline completes and checks the settings that the commands without a server need. These are the common settings
// and the name of the key source. The commands need the name because it determines the order in which links are stored.
func (s *Server) CompleteOffline(known []KeySource) error {
	if err := s.Common.Complete(); err != nil {
		return err
	}
	s.defaultKeySource()
	if !slices.ContainsFunc(known, s.uses) {
		return unknownKeySource(s.KeySource, known)
	}
	return nil
}

// CompleteImport completes and checks the settings that an import needs. These are the settings of CompleteOffline,
// BASE_URL, and the settings that name hosts and pages.
func (s *Server) CompleteImport(rules Rules) error {
	if err := s.CompleteOffline(rules.KeySources); err != nil {
		return err
	}
	if err := s.BaseURL.normalize(rules.Origin); err != nil {
		return err
	}
	return s.completeDestinations(rules)
}

func (s *Server) uses(k KeySource) bool { return k.Name == s.KeySource }

func unknownKeySource(name string, known []KeySource) error {
	return &Error{"KEY_SOURCE", name, names(known)}
}

// defaultKeySource sets the key source if the settings name none.
func (s *Server) defaultKeySource() {
	byDefault := "memory-pool"
	if s.RedisURL != "" {
		byDefault = "redis-pool"
	}
	s.KeySource = cmp.Or(s.KeySource, byDefault)
}

func (s *Server) completeKeySource(known []KeySource) error {
	s.defaultKeySource()
	at := slices.IndexFunc(known, s.uses)
	switch {
	case at < 0:
		return unknownKeySource(s.KeySource, known)
	case !known[at].Needs.satisfied(s):
		return &Error{"KEY_SOURCE", s.KeySource, s.KeySource + " only together with " + string(known[at].Needs)}
	case s.KeySource == "memory-pool" && !s.Worker.On:
		return &Error{"KGS_WORKER", "false", "true with KEY_SOURCE=memory-pool, because only the server itself can fill this pool"}
	}
	return nil
}

// Complete checks the levels of the pool, and that the program has a pool to fill or clients to
// serve.
func (s *KGS) Complete() error {
	if err := s.Common.Complete(); err != nil {
		return err
	}
	if s.RedisURL == "" && len(s.Clients) == 0 {
		return &Error{"REDIS_URL", "", "the address of the Redis whose pool this program fills; it may be empty if KGS_TOKENS is set"}
	}
	return nil
}

// names lists the names of key sources as alternatives.
func names(sources []KeySource) string {
	var all []string
	for _, s := range sources {
		all = append(all, s.Name)
	}
	return either(all)
}

// either joins words to a list of alternatives, such as "a, b or c".
func either(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
