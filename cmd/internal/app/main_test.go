package app

import (
	"io"
	"testing"

	"keypool/cmd/internal/config"
	"keypool/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// settings returns the settings of a server with this database.
func settings(t *testing.T, database string) config.Server {
	t.Helper()
	var f struct {
		config.Server `embed:""`
	}
	_, err := config.Program{Name: "test", KeySources: KeySources(), Out: io.Discard, Errors: io.Discard}.Parse(&f, []string{"--database-url=" + database})
	if err == nil {
		err = f.Complete(config.Rules{KeySources: KeySources(), Origin: func(string) (string, bool) { return "", false }})
	}
	if err != nil {
		t.Fatal(err)
	}
	return f.Server
}
