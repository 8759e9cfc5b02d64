package program

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"keypool/cmd/internal/config"
)

func TestErrorOfTooSlowStartStatesTimeLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := Start(t.Context(), config.Address("127.0.0.1:0"), nil, slog.New(slog.DiscardHandler), func(ctx context.Context, _ *Program) error {
			<-ctx.Done()
			return fmt.Errorf("read the tokens: %w", ctx.Err())
		})
		if err == nil || !strings.Contains(err.Error(), "longer than 30s: read the tokens: ") {
			t.Errorf("got the error %v", err)
		}
	})
}
