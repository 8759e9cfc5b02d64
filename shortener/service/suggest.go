package service

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"keypool/shortener"
)

const (
	// suggestions is the maximum number of aliases that Suggest returns.
	suggestions = 3
	// suggestLookups is the maximum number of aliases that Suggest looks up.
	suggestLookups = 8
	// suggestTimeout is the time limit of all look-ups of one call of Suggest.
	suggestTimeout = 900 * time.Millisecond
)

// Suggest returns up to three free aliases that resemble alias, which is taken. An alias is free if the store has no
// row for it. Another client may take a suggested alias first. So a suggestion is only advice. The insert of Create
// decides whether the alias is still free.
//
// Suggest makes at most eight look-ups and blocks for at most 0.9 s. If it finds fewer free aliases
// within these limits, or if the store does not answer, Suggest returns the aliases that it has found.
func (s *Service) Suggest(ctx context.Context, alias string) []string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), suggestTimeout) // a client that leaves does not cancel the look-ups
	defer cancel()
	var free []string
	for _, candidate := range variants(alias) {
		_, err := s.store.Lookup(ctx, candidate)
		switch {
		case errors.Is(err, shortener.ErrNotFound):
			free = append(free, candidate)
		case err != nil:
			return free
		}
		if len(free) == suggestions {
			break
		}
	}
	return free
}

// variants returns suggestLookups different aliases that resemble alias. The first variants end with small numbers. If
// the alias is popular, these variants are often taken already. So the other variants end with random numbers of growing
// length.
func variants(alias string) []string {
	numbers := []int{2, 3, 4}
	for limit := 100; len(numbers) < suggestLookups; limit *= 10 {
		numbers = append(numbers, limit/10+rand.N(limit-limit/10)) //nolint:gosec // an alias is not a secret
	}
	all := make([]string, len(numbers))
	for i, n := range numbers {
		suffix := "-" + strconv.Itoa(n)
		all[i] = strings.TrimRight(alias[:min(len(alias), shortener.MaxAlias-len(suffix))], "-_") + suffix
	}
	return all
}
