// Package config reads the settings of the programs from the command line and the environment.
//
// Each setting is a typed field of [Common], [Serve] or [KeyService]. The tags of the field state the
// environment variable, the default, the bounds and the group in --help. A flag takes precedence over
// the environment variable of the same name, and the variable takes precedence over the default. An
// empty variable counts as set, so the default does not apply. If a setting has no default, an empty
// variable sets the setting to the zero value.
//
// Invariant: an invalid value yields an [*Error]. The text of the error is one line that contains no
// secret and names the setting, the value and the valid values. [Program.Parse] checks each value by
// itself. The Complete methods check values against each other and fill in the defaults that depend on
// other settings.
package config

import (
	"fmt"
	"log/slog"
	"strings"
)

// Common are the settings of both programs.
type Common struct {
	AdminAddr  Address   `env:"ADMIN_ADDR" default:"127.0.0.1:8081" group:"listeners" help:"Admin listener: metrics, health, dashboard, profiles. Never make it public."`
	AdminHosts HostNames `name:"admin-hosts" env:"ADMIN_HOSTS" group:"listeners" placeholder:"HOST,..." help:"Host names under which clients reach the admin listener, without ports, separated by commas. IP addresses, localhost and the host of ADMIN_ADDR are always accepted. A request for another host gets status 421."`

	Database Database `name:"database-url" env:"DATABASE_URL" default:"sqlite:data/shortener.db" group:"database" help:"Database of the links and the key ledger: sqlite:PATH or postgres://user:password@host:port/database."`
	Migrate  Switch   `env:"MIGRATE" default:"true" group:"database" help:"Migrate the schema at start. With false, only check the schema."`

	CodeLength int    `env:"CODE_LENGTH" default:"6" min:"3" max:"10" group:"keys" help:"Characters in a code, 3 to 10."`
	Secret     Secret `name:"kgs-secret" env:"KGS_SECRET" group:"keys" placeholder:"HEX" help:"FF1 key that permutes the codes, 16 or 32 bytes as hex. If it is set before the first start, the ledger stores only its fingerprint. Default: generated once and stored in the ledger."`
	Permute    Switch `name:"kgs-permute" env:"KGS_PERMUTE" default:"true" group:"keys" help:"Permute the codes. With false, codes are in counter order, and anyone can enumerate them."`

	RedisURL     RedisURL `name:"redis-url" env:"REDIS_URL" group:"pool" placeholder:"URL" help:"Redis of the key pool: redis://host:port or rediss://... for TLS. Several hosts, separated by commas, are the nodes of a Cluster or, with ?master_name=, the Sentinels."`
	Prefix       Prefix   `name:"kgs-prefix" env:"KGS_PREFIX" default:"keypool" group:"pool" placeholder:"TEXT" help:"Prefix of the names of all keys in Redis. Deployments that share a Redis need different prefixes if their Redis users have permissions by prefix, or if one uses a copy of the database of the other."`
	PoolShards   int      `name:"kgs-pool-shards" env:"KGS_POOL_SHARDS" default:"1" min:"1" max:"64" group:"pool" help:"Number of lists of the Redis pool, 1 to 64. A Redis Cluster spreads them over its masters."`
	PoolCapacity int64    `name:"kgs-pool-capacity" env:"KGS_POOL_CAPACITY" default:"1000000" min:"100" max:"10000000000" group:"pool" help:"Keys in a full pool, in all lists together."`
	RestartBelow Level    `name:"kgs-restart-below" env:"KGS_RESTART_BELOW" default:"20%" group:"pool" help:"Dead man's switch: restart the worker below this level of the pool, in percent or keys."`
	PageBelow    Level    `name:"kgs-page-below" env:"KGS_PAGE_BELOW" default:"10%" group:"pool" help:"Dead man's switch: page the operator below this level of the pool, in percent or keys."`

	MaxConnections int `env:"MAX_CONNECTIONS" min:"1" max:"1000000" group:"limits" placeholder:"N" help:"Open connections of the public listener, or of the listener of the key service. Further connections are closed at once. Default: 10000, but at most half of the files that the process may open, and at most as many as fit into a quarter of the memory limit."`
	MaxPerAddress  int `name:"max-connections-per-address" env:"MAX_CONNECTIONS_PER_ADDRESS" min:"1" max:"1000000" group:"limits" placeholder:"N" help:"Open connections of an address. The limit does not apply to trusted proxies. Default: half of MAX_CONNECTIONS for every address except loopback addresses."`

	AlertWebhook WebhookURL `name:"alert-webhook-url" env:"ALERT_WEBHOOK_URL" group:"operation" placeholder:"URL" help:"Webhook that receives a JSON POST for each change of state (restart, page, ok again). The POST is repeated until the webhook accepts it."`
	LogLevel     slog.Level `env:"LOG_LEVEL" default:"info" oneof:"debug,info,warn,error" group:"operation" help:"debug, info, warn or error."`
	LogFormat    string     `env:"LOG_FORMAT" oneof:"text,json" group:"operation" placeholder:"FORMAT" help:"text or json. Default: text on a terminal, else json."`
}

// Serve are the settings that only the server has.
type Serve struct {
	ListenAddr     Address  `env:"LISTEN_ADDR" default:":8080" group:"listeners" help:"Public listener."`
	BaseURL        BaseURL  `env:"BASE_URL" group:"listeners" placeholder:"URL" help:"Prefix of short URLs, such as https://go.example. Default: from the Host header of the request."`
	TrustedProxies Networks `env:"TRUSTED_PROXIES" group:"listeners" placeholder:"CIDR,..." help:"Reverse proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted, as CIDRs separated by commas."`

	UI           string `name:"ui" env:"UI" default:"off" oneof:"off,token,header" group:"listeners" help:"Pages for the owners of links at /admin/ of the public listener: off, token (a person signs in with an API token) or header (a reverse proxy authenticates the person)."`
	UIUserHeader Header `name:"ui-user-header" env:"UI_USER_HEADER" default:"Remote-User" group:"listeners" help:"Header with the name of the person for UI=header. The person acts as the token with this name. The header is used only if a proxy in TRUSTED_PROXIES sends it."`

	OwnHosts    OwnHosts `env:"OWN_HOSTS" group:"destinations" placeholder:"HOST,..." help:"Further host names of this service, without ports, separated by commas. A link must not lead to them, on any port. Subdomains are not included."`
	BlockHosts  string   `name:"block-hosts-file" env:"BLOCK_HOSTS_FILE" group:"destinations" placeholder:"PATH" help:"Block list: a file with one host per line. Links must not lead to these hosts and their subdomains. The server reads the file again when it changes."`
	ReportURL   PageURL  `name:"report-url" env:"REPORT_URL" group:"destinations" placeholder:"URL" help:"Where people report a link. The preview page links to this URL. An http or https URL gets the parameter code. A mailto URL gets the short URL as its body."`
	HomeURL     PageURL  `name:"home-url" env:"HOME_URL" group:"destinations" placeholder:"URL" help:"Page to which / redirects a browser. Default: / is the page to create links."`
	NotFoundURL PageURL  `name:"not-found-url" env:"NOT_FOUND_URL" group:"destinations" placeholder:"URL" help:"Page to which an unknown code redirects a browser. Default: a page with status 404."`

	Visits        string    `env:"VISITS" default:"total" oneof:"off,total,detail" group:"visits" help:"off, total (count the visits of each link by hour) or detail (also by referrer, country and device)."`
	VisitsFlush   Interval  `env:"VISITS_FLUSH" default:"1s" group:"visits" help:"Time between two flushes of counts to the database, 100ms to 1m. A server that is killed loses the visits since its last flush."`
	VisitsKeep    Retention `env:"VISITS_KEEP" default:"400d" group:"visits" help:"How long the counts by hour and by detail are stored, such as 400d or 48h. The total of a link is stored forever."`
	CountryHeader Header    `env:"COUNTRY_HEADER" group:"visits" placeholder:"NAME" help:"Request header with the two letters of the client's country, such as CF-IPCountry. The header is used only if a proxy in TRUSTED_PROXIES sends it."`
	RedirectAge   int       `name:"redirect-max-age" env:"REDIRECT_MAX_AGE" default:"90" min:"0" max:"31536000" group:"visits" help:"Seconds for which browsers may cache a redirect. A browser that follows the link again in this time sends no request, so no visit is counted."`

	Replicas Replicas `name:"database-read-urls" env:"DATABASE_READ_URLS" group:"database" placeholder:"URL,..." help:"Replicas of a PostgreSQL DATABASE_URL, separated by commas. Redirects read them, and read the primary if a replica lacks a link. Each URL must name one server."`
	MaxLag   Lag      `name:"database-read-max-lag" env:"DATABASE_READ_MAX_LAG" default:"1s" group:"database" help:"Longest lag of a replica that the server reads, 500ms to 1m. Changes of links reach all redirects within this time plus one second."`

	KeySource     string       `env:"KEY_SOURCE" group:"keys" placeholder:"NAME" help:"Where codes come from: ${key_sources}. Default: redis-pool with a REDIS_URL, else memory-pool."`
	KGSURL        KGSURL       `name:"kgs-url" env:"KGS_URL" group:"keys" placeholder:"URL" help:"Key service of KEY_SOURCE=kgs: http://client:token@host:port or https://..."`
	KGSTake       string       `name:"kgs-take" env:"KGS_TAKE" default:"delete" oneof:"delete,reserve" group:"keys" help:"How KEY_SOURCE=postgres-pool takes keys: delete moves keys to the table used_keys at once. With reserve, the server only marks keys, and the marked keys of a dead server return to the pool after at least ten minutes."`
	Tickets       DatabasePair `name:"ticket-database-urls" env:"TICKET_DATABASE_URLS" group:"keys" placeholder:"ODD,EVEN" help:"Two databases of KEY_SOURCE=ticket, separated by a comma: the first issues odd numbers, the second even ones. Default: DATABASE_URL for both."`
	MachineID     Machine      `name:"machine-id" env:"MACHINE_ID" group:"keys" placeholder:"NUMBER" help:"Machine id of KEY_SOURCE=snowflake, 0 to 1023. Default: an id that the database reserves while the server runs."`
	HashAlgorithm string       `env:"HASH_ALGORITHM" default:"sha256" oneof:"sha256,md5" group:"keys" help:"Hash of KEY_SOURCE=hash: sha256 or md5."`

	Worker   Switch `name:"kgs-worker" env:"KGS_WORKER" default:"true" group:"pool" help:"Run the refill worker inside the server."`
	BatchMin int    `name:"kgs-batch-min" env:"KGS_BATCH_MIN" default:"100" min:"1" max:"1000000" group:"pool" help:"Fewest keys in a local batch."`
	BatchMax int    `name:"kgs-batch-max" env:"KGS_BATCH_MAX" default:"100000" min:"1" max:"1000000" group:"pool" help:"Most keys in a local batch."`

	Anonymous       Switch `env:"ANONYMOUS" default:"true" group:"limits" help:"Let clients without a token create links."`
	AnonymousRate   Rate   `env:"ANONYMOUS_RATE" group:"limits" placeholder:"N/s" help:"Creations that an address may request per second without a token. A burst may have ten times as many. The value off removes the limit. Default: 10/s for every address except loopback addresses."`
	AnonymousMaxAge Age    `env:"ANONYMOUS_MAX_AGE" group:"limits" placeholder:"DURATION" help:"Longest life of a link that is created without a token, such as 720h. A link without an expiry expires after this time. Default: no maximum."`
	MissRate        int    `env:"MISS_RATE" default:"50" min:"1" max:"1000000" group:"limits" help:"Misses that an address may have per second before it gets status 429. A miss is a request for an unknown code, a creation with a taken alias or a failed sign-in."`
	MissBurst       int    `env:"MISS_BURST" default:"200" min:"1" max:"1000000" group:"limits" help:"Misses that an address may have at once."`

	Fallback string `env:"FALLBACK" default:"random" oneof:"random,ledger,none" group:"fallback" help:"Source of codes when the key source has no key: random, ledger (small ranges) or none (answer 503)."`
}

// KeyService are the settings that only the program kgs has.
type KeyService struct {
	ListenAddr Address `name:"kgs-listen-addr" env:"KGS_LISTEN_ADDR" default:":8082" group:"listeners" help:"Listener where other programs take keys, over gRPC and HTTP. It is open only if KGS_TOKENS is set."`
	Clients    Clients `name:"kgs-tokens" env:"KGS_TOKENS" group:"limits" placeholder:"CLIENT=TOKEN,..." help:"Programs that may take keys, and their secrets: client=token,client2=token2."`
	ClientRate int64   `name:"kgs-client-rate" env:"KGS_CLIENT_RATE" default:"1000000" min:"1" max:"1000000000" group:"limits" help:"Keys a second that each client may take from this process."`
}

// Server are the settings of cmd/shortener.
type Server struct {
	Serve  `embed:""`
	Common `embed:""`
}

// KGS are the settings of cmd/kgs. The program fills the pool at RedisURL, serves keys to
// Clients, or both.
type KGS struct {
	KeyService `embed:""`
	Common     `embed:""`
}

// Error describes an invalid value of a setting.
type Error struct {
	Name  string // name of the environment variable, or of a flag without a variable, such as --rate
	Got   string // the value, without secrets
	Takes string // the valid values
}

func (e *Error) Error() string {
	if strings.HasPrefix(e.Name, "--") {
		return fmt.Sprintf("%s: got %q, takes %s", e.Name, e.Got, e.Takes)
	}
	flag := "--" + strings.ReplaceAll(strings.ToLower(e.Name), "_", "-")
	return fmt.Sprintf("%s (%s): got %q, takes %s", e.Name, flag, e.Got, e.Takes)
}
