package bench

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"keypool/internal/testenv/machine"
	"keypool/loadtest/testbed"
	"keypool/loadtest/wrk"
)

// creation is the one that a server is loaded with.
func creation(server string) wrk.Exchange {
	return wrk.Exchange{
		Method: http.MethodPost, URL: server + "/shorten", Status: http.StatusCreated,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: `{"url":"` + target + `"}`,
	}
}

// visit follows a link of the code to target.
func visit(server, code string) wrk.Exchange {
	return wrk.Exchange{Method: http.MethodGet, URL: server + "/" + code, Status: http.StatusFound, Location: target}
}

// up is a ping that succeeds when the exchange does.
func up(e wrk.Exchange) func(context.Context, string) error {
	return func(ctx context.Context, _ string) error { return e.Try(ctx) }
}

// startBare starts the bare handlers as a process and returns their URL.
func (r *run) startBare(ctx context.Context, bed *testbed.Bed) (url string, err error) {
	addr, err := machine.FreeAddr(ctx)
	if err != nil {
		return "", err
	}
	url = "http://" + addr
	path, err := filepath.Abs(r.program("loadtest"))
	if err != nil {
		return "", err
	}
	_, err = bed.Other(ctx, machine.Program{
		Path: path, Args: []string{"bench", "bare", "--listen", addr}, URL: url, Ping: up(visit(url, "any")),
	})
	return url, err
}

// nginxConf lets nginx write nothing but its temporary files, into the directory that it
// is told, and keep connections open for ever.
const nginxConf = `daemon off;
worker_processes auto;
pid %[1]s/nginx.pid;
error_log stderr;
events { worker_connections 1024; }
http {
	access_log off;
	client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
	keepalive_requests 1000000000;
	server { listen %[2]s; location / { return 302 %[3]s; } }
}
`

// startNginx starts an nginx that always answers with the same redirect.
func (r *run) startNginx(ctx context.Context, bed *testbed.Bed) (url string, err error) {
	path, err := machine.LookPath("nginx")
	if err != nil {
		return "", err
	}
	addr, err := machine.FreeAddr(ctx)
	if err != nil {
		return "", err
	}
	conf := filepath.Join(r.dir, "nginx.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, nginxConf, r.dir, addr, target), 0o600); err != nil {
		return "", err
	}
	url = "http://" + addr
	_, err = bed.Other(ctx, machine.Program{Path: path, Args: []string{"-p", r.dir, "-c", conf}, URL: url, Ping: up(visit(url, "any"))})
	return url, err
}

// resident are the lines of /proc/PID/status that tell of memory, in bytes.
type resident struct{ now, most float64 }

// residentOf reads how much memory a process has, and had at the most.
func residentOf(pid int) (resident, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return resident{}, err
	}
	now, err := bytesOf(string(status), "VmRSS:")
	if err != nil {
		return resident{}, err
	}
	most, err := bytesOf(string(status), "VmHWM:")
	return resident{now, most}, err
}

// bytesOf reads "NAME   1234 kB", and gives bytes.
func bytesOf(status, name string) (float64, error) {
	for line := range strings.Lines(status) {
		fields := strings.Fields(line)
		if len(fields) == 3 && fields[0] == name && fields[2] == "kB" {
			n, err := strconv.ParseInt(fields[1], 10, 64)
			return float64(n) * 1024, err
		}
	}
	return 0, fmt.Errorf("the system does not tell %s", name)
}

// mebi is a MiB in bytes.
const mebi = 1 << 20
