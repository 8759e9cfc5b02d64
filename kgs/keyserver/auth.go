package keyserver

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/time/rate"
)

// Client is a program that may take keys.
type Client struct {
	Name  string // label of the metrics and owner of the leases
	Token string // the secret of the client
}

// ClientsForm describes the text that ParseClients accepts.
const ClientsForm = "client=token,client2=token2, all different; names of a-z, 0-9 and -, at most 32, " +
	"tokens of 16 to 512 letters, digits and ._~+/-, with at most two = at the end"

// ParseClients parses client=token pairs that are separated by commas. A token is a bearer
// token (RFC 6750, section 2.1) of 16 to 512 characters, not counting any = at its end. The error never contains a token.
func ParseClients(text string) ([]Client, error) {
	name := regexp.MustCompile(`^[a-z0-9-]{1,32}$`)
	token := regexp.MustCompile(`^[A-Za-z0-9._~+/-]{16,512}={0,2}$`)
	var clients []Client
	for i, pair := range strings.Split(text, ",") {
		c := Client{}
		c.Name, c.Token, _ = strings.Cut(strings.TrimSpace(pair), "=")
		taken := func(other Client) bool { return other.Name == c.Name || other.Token == c.Token }
		if !name.MatchString(c.Name) || !token.MatchString(c.Token) || slices.ContainsFunc(clients, taken) {
			return nil, fmt.Errorf("client %d of KGS_TOKENS is not valid", i+1)
		}
		clients = append(clients, c)
	}
	return clients, nil
}

// maxUnderWay is the largest number of requests that one client may have in progress. More requests
// would not increase the throughput of the client.
const maxUnderWay = 64

// maxLarge is the largest number of large messages that the requests of one client may hold at a time. A message of
// maxRequest bytes that consists of empty strings takes up to 50 MB of memory.
const maxLarge = 2

// largeWait is the longest time for which a request with a large message waits until another such request of the client
// ends. The wait is for a client whose servers stop together: they return their keys in large messages at the same time.
const largeWait = time.Second

// largeMessage is the size in bytes above which a message is large.
const largeMessage = 32 << 10

// client is the server's state of one Client.
type client struct {
	name     string
	digest   [sha256.Size]byte // digest of the token
	limiter  *rate.Limiter     // limits the number of keys per second
	underWay chan struct{}     // holds a value for each request in progress
	open     chan struct{}     // holds a value for each request that is in progress or whose answer is being sent
	large    chan struct{}     // holds a value for each request with a large message
}

func newClients(configured []Client, perSecond int64) (clients []*client) {
	for _, c := range configured {
		clients = append(clients, &client{
			name: c.Name, digest: sha256.Sum256([]byte(c.Token)),
			limiter:  rate.NewLimiter(rate.Limit(perSecond), int(max(perSecond, MaxCount))),
			underWay: make(chan struct{}, maxUnderWay), open: make(chan struct{}, 2*maxUnderWay),
			large: make(chan struct{}, maxLarge),
		})
	}
	return clients
}

// clientKey is the context key of a request's client.
type clientKey struct{}

func clientOf(ctx context.Context) *client { return ctx.Value(clientKey{}).(*client) }

// gate refuses a request without a valid token, and a request of a client with too many requests in progress. It runs
// before the server reads any byte of the message, so the server holds at most maxUnderWay messages of a client.
func (s *server) gate(ctx context.Context, spec connect.Spec, peer connect.Peer, header http.Header) (context.Context, error) {
	c := s.whoHas(header.Get("Authorization"))
	if c == nil {
		s.metrics.answered(spec, connect.CodeUnauthenticated.String())
		err := connect.NewError(connect.CodeUnauthenticated, errors.New("no valid token; send Authorization: Bearer TOKEN"))
		if peer.Protocol == connect.ProtocolConnect { // gRPC would send the header as a trailer, and such a trailer has no meaning
			err.Meta().Set("WWW-Authenticate", "Bearer")
		}
		return nil, err
	}
	t := turnOf(ctx)
	t.answered = func(code string) { s.metrics.answered(spec, code) }
	t.refuse = func() error {
		t.count(connect.CodeResourceExhausted.String())
		return later(connect.CodeResourceExhausted, "this client has too many requests in progress", retryWhenCrowded)
	}
	if !t.begin(c) {
		return nil, t.refuse()
	}
	return context.WithValue(ctx, clientKey{}, c), nil
}

// whoHas returns the client whose token is in an Authorization header, or nil if there is no such
// client. It takes the same time for all tokens of the same length.
func (s *server) whoHas(authorization string) (found *client) {
	scheme, token, _ := strings.Cut(authorization, " ")
	digest := sha256.Sum256([]byte(token))
	for _, c := range s.clients {
		if subtle.ConstantTimeCompare(digest[:], c.digest[:]) == 1 && strings.EqualFold(scheme, "Bearer") {
			found = c
		}
	}
	return found
}
