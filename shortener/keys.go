package shortener

import "context"

// Keys supplies the keys of new links. A key source that takes keys from a pool ignores the
// URL and the attempt. The key source hash computes the key from the URL and the attempt.
type Keys interface {
	// Next returns a key for url. For the first key of a creation, the attempt is 0. The creation adds
	// 1 to the attempt after each of these keys:
	//
	//   - a key that is in conflict;
	//   - a key that equals a path of this service;
	//   - a key that has no batch and that the creation drops. The creation drops such a key if the part of the
	//     store to which the key belongs does not answer or did not store the link, or if another part suits
	//     the creation better.
	//
	// Next may be called concurrently. If a local batch has keys, Next returns at once. Otherwise Next
	// may block, and returns at the latest when ctx ends. If no key is available, Next fails with
	// ErrKeysExhausted.
	Next(ctx context.Context, url string, attempt int) (Key, error)
}

// Key is a key that a creation drew. If Batch is not nil, the creation settles the key
// with exactly one call of one method of Batch.
type Key struct {
	Code   string
	Source string // the Source of the link and a metric label
	Batch  Batch  // nil for a key source that has no batches
	Again  bool   // whether an earlier creation drew the key and returned it
}

// Batch records what happened to the keys of one batch. Its methods do not block and
// may be called concurrently.
type Batch interface {
	// Used records that the store has a row with a code of this batch.
	Used()
	// Returned records that the creation stored no row with code. The key source may hand the
	// code out again.
	Returned(code string)
	// Lost records that the store may have a row with code. The key source never hands the
	// code out again.
	Lost(code string)
}
