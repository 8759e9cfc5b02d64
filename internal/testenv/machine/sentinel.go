package machine

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// StartSentinel starts a Sentinel that watches the Redis at the address master under the name main.
// lines are additional lines of its configuration. If the Redis has not answered for half a second,
// the Sentinel considers it down. The caller closes the server.
func StartSentinel(ctx context.Context, master string, lines ...string) (*Server, error) {
	host, masterPort, err := net.SplitHostPort(master)
	if err != nil {
		return nil, err
	}
	return Setup{}.startRedis(ctx, func(dir, port string) ([]string, error) {
		config := filepath.Join(dir, "sentinel.conf") // Sentinel also writes to this file
		text := strings.Join(append([]string{
			"port " + port, "bind " + loopback, "sentinel monitor main " + host + " " + masterPort + " 1",
			"sentinel down-after-milliseconds main 500", "sentinel failover-timeout main 1000",
		}, lines...), "\n") + "\n"
		return []string{config, "--sentinel"}, os.WriteFile(config, []byte(text), 0o600)
	})
}
