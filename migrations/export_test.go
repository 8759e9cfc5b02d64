package migrations

import "context"

// WhenUnlocked is whenUnlocked.
func WhenUnlocked(ctx context.Context, f func() error) error { return whenUnlocked(ctx, f) }
