package app

import (
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
)

// Flags are the settings as text, from the command line or the environment, in the
// order in which --help shows them. Parse reads them into Settings, as those of
// ServeFlags and KGSFlags do into ServeSettings and KGSSettings, and refuses every
// value that a setting cannot take.
type Flags struct {
	AdminAddr    string `env:"ADMIN_ADDR" default:"127.0.0.1:8081" help:"Admin listener: metrics, health, dashboard, profiles. Never public."`
	DatabaseURL  string `env:"DATABASE_URL" default:"sqlite:data/shortener.db" help:"Where links and the key ledger live: sqlite:PATH or postgres://..."`
	RedisURL     string `env:"REDIS_URL" help:"Redis for the key pool: redis:// or rediss://; several addresses separated by commas make a Cluster, or Sentinels with ?master_name=."`
	KGSSecret    string `env:"KGS_SECRET" help:"The FF1 key, 16 or 32 bytes as hex; only its fingerprint is kept. Made once and kept in the ledger when not given."`
	KGSPermute   string `env:"KGS_PERMUTE" default:"true" help:"false keeps codes in counter order, which anyone can walk."`
	CodeLength   string `env:"CODE_LENGTH" default:"6" help:"Characters in a code, 3 to 10."`
	PoolCapacity string `name:"kgs-pool-capacity" env:"KGS_POOL_CAPACITY" default:"1000000" help:"Keys in a full pool."`
	RestartBelow string `name:"kgs-restart-below" env:"KGS_RESTART_BELOW" default:"20%" help:"Dead man's switch: restart the worker below this level of the pool, in percent or keys."`
	PageBelow    string `name:"kgs-page-below" env:"KGS_PAGE_BELOW" default:"10%" help:"Dead man's switch: page a human below this level."`
	AlertWebhook string `name:"alert-webhook-url" env:"ALERT_WEBHOOK_URL" help:"Where each change of state (restart, page, ok again) is POSTed as JSON, again and again until taken."`
	Migrate      string `env:"MIGRATE" default:"true" help:"Bring the schema up to date at start."`
	LogLevel     string `env:"LOG_LEVEL" default:"info" help:"debug, info, warn or error."`
	LogFormat    string `env:"LOG_FORMAT" help:"text or json; text on a terminal, else json."`
}

// ServeFlags are the settings that only the server has.
type ServeFlags struct {
	ListenAddr     string `env:"LISTEN_ADDR" default:":8080" help:"Public listener."`
	BaseURL        string `env:"BASE_URL" help:"Prefix of short URLs, such as https://go.example; from the request's Host when not given."`
	TrustedProxies string `env:"TRUSTED_PROXIES" help:"CIDRs, separated by commas, whose X-Forwarded-For and -Proto are believed."`
	KeySource      string `env:"KEY_SOURCE" help:"${key_sources}; redis-pool with a Redis, else memory-pool."`
	KGSURL         string `name:"kgs-url" env:"KGS_URL" help:"Where KEY_SOURCE=kgs takes its keys: http://client:token@host:port or https://..."`
	KGSTake        string `name:"kgs-take" env:"KGS_TAKE" default:"delete" help:"How KEY_SOURCE=postgres-pool takes keys: delete moves them to used_keys at once; reserve only marks them, and they come back when they were not used in time."`
	TicketURLs     string `name:"ticket-database-urls" env:"TICKET_DATABASE_URLS" help:"The two databases of KEY_SOURCE=ticket, separated by a comma: the first gives odd numbers, the second even ones. DATABASE_URL for both when not given."`
	MachineID      string `name:"machine-id" env:"MACHINE_ID" help:"Of KEY_SOURCE=snowflake, 0 to 1023; leased from the database when not given."`
	HashAlgorithm  string `env:"HASH_ALGORITHM" default:"sha256" help:"Of KEY_SOURCE=hash: sha256 or md5."`
	KGSWorker      string `env:"KGS_WORKER" default:"true" help:"Run the refill worker inside the server."`
	BatchMin       string `name:"kgs-batch-min" env:"KGS_BATCH_MIN" default:"100" help:"Fewest keys in a local batch."`
	BatchMax       string `name:"kgs-batch-max" env:"KGS_BATCH_MAX" default:"100000" help:"Most keys in a local batch."`
	Fallback       string `env:"FALLBACK" default:"random" help:"When the pool gives nothing: random, ledger or none."`
}

// Settings are what both programs go by.
type Settings struct {
	AdminAddr               string
	Database                databaseURL
	RedisURL                string
	Secret                  []byte
	Permute                 bool
	CodeLength              int
	PoolCapacity            int64
	RestartBelow, PageBelow int64  // keys
	AlertWebhook            string // a URL with secrets in it; "" for none
	Migrate                 bool
	LogLevel                slog.Level
	LogFormat               string
}

// ServeSettings are what the server goes by.
type ServeSettings struct {
	Settings
	ListenAddr         string
	BaseURL            string // without a slash at the end
	TrustedProxies     []netip.Prefix
	KeySource          string
	KGSURL             string         // with a token in it
	KGSTake            string         // "delete" or "reserve"
	Tickets            [2]databaseURL // of odd and of even numbers
	MachineID          int            // leasedMachine to have one leased
	HashAlgorithm      string
	Worker             bool
	BatchMin, BatchMax int
	Fallback           string
}

// leasedMachine is the MachineID of who has none of its own.
const leasedMachine = -1

// SettingError says which setting has a value that it cannot take.
type SettingError struct {
	Name  string // of the environment variable
	Got   string // never with a secret in it
	Takes string
}

func (e *SettingError) Error() string {
	flag := "--" + strings.ReplaceAll(strings.ToLower(e.Name), "_", "-")
	return fmt.Sprintf("%s (%s): got %q, takes %s", e.Name, flag, e.Got, e.Takes)
}
