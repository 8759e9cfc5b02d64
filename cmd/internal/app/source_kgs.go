package app

import (
	"context"

	"keypool/kgs"
	"keypool/kgs/keyserver"
)

// openRemote: the key service of KGS_URL, breaker, local batch.
func (ch *chain) openRemote(context.Context) error {
	supply, err := keyserver.NewRemoteSupply(ch.settings.KGSURL)
	if err != nil {
		return &SettingError{
			Name: "KGS_URL", Got: withoutSecrets(ch.settings.KGSURL), Takes: "http://client:token@host[:port], or https",
		}
	}
	ch.life.onStop("key service", ch.handBack(supply.Close))
	breaker := kgs.NewBreaker(supply, ch.log)
	ch.breaker = breaker
	ch.openLocal(breaker)
	return nil
}
