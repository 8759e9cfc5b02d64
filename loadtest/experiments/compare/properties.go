package compare

import (
	"context"
	"fmt"
	"math/big"

	"keypool/internal/golines"
	"keypool/loadtest/controls"
	"keypool/loadtest/experiments/keysource/sources"
)

// failure returns the single point of failure: the component, besides the database of the links,
// whose failure stops the key source when its local keys are used up. For key sources other than
// rivals, the experiment confirms the result with outages.
func (f *found) failure() string {
	switch {
	case f.Class == "":
		return ""
	case f.Redis:
		return theRedis
	case f.Service:
		return theService
	}
	return "none"
}

// embedsTime describes whether a code contains the time of its creation.
func (f *found) embedsTime() string {
	switch f.Class {
	case "":
		return ""
	case sources.Time:
		return "yes"
	}
	return "no"
}

// bits says whether the number of a code fits into a column of 64 bits, and how many bits the number needs.
func (f *found) bits() string {
	if f.Class == "" {
		return ""
	}
	size := sources.FormOf(f.Class).Size
	bits := new(big.Int).Sub(size, big.NewInt(1)).BitLen()
	if bits <= 64 {
		return fmt.Sprintf("yes, %d bits", bits)
	}
	return fmt.Sprintf("no, %d bits", bits)
}

// The files that several key sources share.
const (
	ledgerFiles = "kgs/ledger/*.go"
	spaceFiles  = "kgs/codespace/*.go"
	refillFiles = "kgs/refill/*.go"
	batchFiles  = "kgs/source*.go"
	breakerFile = "kgs/breaker.go"
	plainFile   = "kgs/keysource/keysource.go"
)

// sourceFiles returns the files that a key source needs, without the files that a server needs with any key source.
func sourceFiles(name string) []string {
	switch name {
	case "redis-pool":
		return []string{"kgs/redispool/*.go", refillFiles, ledgerFiles, spaceFiles, batchFiles, breakerFile}
	case "memory-pool":
		return []string{"kgs/mempool/*.go", refillFiles, ledgerFiles, spaceFiles, batchFiles}
	case "ledger", "ledger-in-order":
		return []string{"kgs/mempool/ledger_supply.go", ledgerFiles, spaceFiles, batchFiles}
	case "postgres-pool-delete", "postgres-pool-reserve":
		return []string{"kgs/pgpool/*.go", refillFiles, batchFiles, "kgs/keysource/random.go"}
	case "kgs":
		return []string{"kgs/keyserver/*.go", ledgerFiles, spaceFiles, batchFiles, breakerFile}
	case "redis-incr":
		return []string{"kgs/keysource/redis_incr.go", plainFile, breakerFile}
	case "ticket":
		return []string{"kgs/keysource/tickets.go", plainFile, breakerFile}
	case "snowflake":
		return []string{"kgs/keysource/snowflake*.go", "kgs/keysource/machine_ids.go"}
	case "hash":
		return []string{"kgs/keysource/hash.go"}
	case "uuid":
		return []string{"kgs/keysource/uuid.go"}
	case random:
		return []string{"kgs/keysource/random.go"}
	case lockedTable, redisSet:
		return []string{"loadtest/experiments/compare/rivals/rivals.go"}
	}
	return nil
}

// countLines counts the lines of code of each key source in the source tree of the working directory.
func (r *record) countLines(ctx context.Context) error {
	root, err := controls.ModuleRoot(ctx)
	if err != nil {
		return err
	}
	for _, f := range r.found {
		if f.lines, err = golines.Count(root, sourceFiles(f.Name)...); err != nil {
			return err
		}
	}
	return nil
}

// code returns the lines of code of the key source, or "" if they were not counted.
func (f *found) code() string {
	switch {
	case f.lines == 0:
		return ""
	case isRival(&f.Source):
		return fmt.Sprintf("%d (both rivals together)", f.lines)
	}
	return fmt.Sprint(f.lines)
}
