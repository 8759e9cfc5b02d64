package sqlite

// CloseAnchor closes the connection that Close leaves open if Close fails with ErrMoved.
func CloseAnchor(db *DB) error { return db.anchor.close() }

// IsMounted reports whether path is a mount point.
func IsMounted(path string) bool { return isMounted(path) }
