package app

import (
	"context"

	"keypool/cmd/internal/config"
	"keypool/kgs"
	"keypool/kgs/keyserver"
)

// openRemote: the key service of KGS_URL, breaker, local batch.
func (ch *Chain) openRemote(context.Context) error {
	supply, err := keyserver.NewRemoteSupply(string(ch.settings.KGSURL))
	if err != nil {
		return &config.Error{Name: "KGS_URL", Got: config.Redacted(string(ch.settings.KGSURL)), Takes: config.TakesKGSURL}
	}
	ch.life.onStop("key service", ch.returnKeys(supply.Close))
	breaker := kgs.NewBreaker(supply, ch.Log)
	ch.breaker = breaker
	ch.openLocal(breaker)
	return nil
}
