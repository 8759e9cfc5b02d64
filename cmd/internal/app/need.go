package app

// need is a setting that a key source cannot do without, in the words of who is told so.
type need string

const (
	needsRedis    need = "REDIS_URL"
	needsKGS      need = "KGS_URL"
	needsPostgres need = "a PostgreSQL DATABASE_URL"
)

// met reports whether s has what is needed.
func (n need) met(s ServeSettings) bool {
	switch n {
	case "":
		return true
	case needsRedis:
		return s.RedisURL != ""
	case needsKGS:
		return s.KGSURL != ""
	case needsPostgres:
		return s.Database.postgres != nil
	}
	panic("it is not known when " + string(n) + " is there")
}
