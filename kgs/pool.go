package kgs

// PoolStatus is the state of a pool, in the form that every kind of pool reports.
type PoolStatus struct {
	Keys   int64 // keys in the pool now
	Taken  int64 // keys that servers have taken from the pool in this epoch
	Pushed int64 // keys that workers have pushed to the pool in this epoch
	Epoch  int64 // the pool's epoch; 0 for a pool without epochs
}

// PoolEntry is a code that a shared pool has on record.
type PoolEntry struct {
	Code    string
	InBatch bool // whether the code is in a batch; otherwise it is in the pool itself
}
