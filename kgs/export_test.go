package kgs

import "testing"

// For the conformance tests of supplies that are outside of this package.

// SuppliedTo is a supply under test; see suppliedTo.
type SuppliedTo = suppliedTo

// LedgerOfTest is a ledger under test.
type LedgerOfTest = books

// CheckSupply holds a supply to its contract; see testSupply.
func CheckSupply(t *testing.T, newSupply func(t *testing.T, keys int) SuppliedTo) {
	t.Helper()
	testSupply(t, newSupply)
}

// OnEngines runs a test with a maker of ledgers of each engine.
func OnEngines(t *testing.T, test func(t *testing.T, newBooks func(*testing.T) LedgerOfTest)) {
	t.Helper()
	onEngines(t, test)
}

// OpenWith leaves exactly so many numbers in the ledger.
func OpenWith(t *testing.T, l LedgerOfTest, keys int) *Space {
	t.Helper()
	return openWith(t, l, keys)
}
