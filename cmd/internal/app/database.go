package app

import (
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

// databaseURL is a DATABASE_URL that was found to be sound.
type databaseURL struct {
	sqlitePath string          // "" for PostgreSQL
	postgres   *pgxpool.Config // nil for SQLite
}

func (p *parser) database(name, text string) databaseURL {
	const takes = "sqlite:PATH or postgres://user:password@host:port/database"
	if path, ok := strings.CutPrefix(text, "sqlite:"); ok {
		if path == "" || strings.Contains(path, ":memory:") {
			p.refuse(name, text, takes+"; a database in memory would lose every link")
		}
		return databaseURL{sqlitePath: path}
	}
	if !strings.HasPrefix(text, "postgres://") && !strings.HasPrefix(text, "postgresql://") {
		p.refuse(name, withoutSecrets(text), takes)
		return databaseURL{}
	}
	cfg, err := pgxpool.ParseConfig(text)
	if err != nil {
		p.refuse(name, withoutSecrets(text), takes)
		return databaseURL{}
	}
	return databaseURL{postgres: cfg}
}
