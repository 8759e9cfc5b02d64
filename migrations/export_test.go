package migrations

import "context"

// WhenUnlocked exports whenUnlocked to the tests in package migrations_test.
func WhenUnlocked(ctx context.Context, f func() error) error { return whenUnlocked(ctx, f) }
