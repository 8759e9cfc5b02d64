package kgs

// PoolStatus is the state of a pool as every kind of pool reports it.
type PoolStatus struct {
	Keys   int64 // keys that the pool holds
	Taken  int64 // keys that servers ever took from it in this epoch
	Pushed int64 // keys that workers ever brought into it in this epoch
	Epoch  int64 // the epoch that it was opened for; 0 for a pool without epochs
}

// PoolEntry is a code that a shared pool has on record.
type PoolEntry struct {
	Code    string
	InBatch bool // it is in a batch; otherwise in the pool itself
}
