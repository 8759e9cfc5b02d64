package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"keypool/cmd/internal/app"
	"keypool/cmd/internal/config"
	"keypool/cmd/internal/program"
	"keypool/internal/testenv/machine"
	"keypool/kgs/keyserver"
)

const kgsToken = "token-of-the-tests"

// startKeyService starts a key service in this process and returns the KGS_URL of its client.
func startKeyService(t *testing.T, database string) (_ *program.Program, url string) {
	t.Helper()
	return startKeyServiceWith(t, settings(t, database, "").Common)
}

// startKeyServiceWith starts a key service with these settings. If the settings name a Redis, the program also fills
// the pool.
func startKeyServiceWith(t *testing.T, common config.Common) (_ *program.Program, url string) {
	t.Helper()
	p, err := app.StartKGS(t.Context(), config.KGS{
		Common: common,
		KeyService: config.KeyService{
			ListenAddr: "127.0.0.1:0", ClientRate: 1_000_000, Clients: []keyserver.Client{{Name: "tests", Token: kgsToken}},
		},
	}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Errorf("stop the key service: %v", err)
		}
	})
	return p, fmt.Sprintf("http://tests:%s@%s", kgsToken, p.Addr())
}

// kgsProcess is a key service in a separate process, which a test can kill.
type kgsProcess struct {
	t        *testing.T
	addr     string
	database string
	cmd      *exec.Cmd
	client   *http.Client
}

func startKGSProcess(t *testing.T, database string) *kgsProcess {
	t.Helper()
	addr, err := machine.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	k := &kgsProcess{t: t, addr: addr, database: database, client: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(k.client.CloseIdleConnections)
	t.Cleanup(k.kill)
	k.start()
	return k
}

// start starts the program and returns when it answers.
func (k *kgsProcess) start() {
	k.t.Helper()
	k.cmd = exec.Command(os.Args[0])
	k.cmd.Env = append(os.Environ(), childVariable+"=1", "DATABASE_URL="+k.database, "ADMIN_ADDR=127.0.0.1:0",
		"KGS_LISTEN_ADDR="+k.addr, "KGS_TOKENS=tests="+kgsToken)
	k.cmd.Stderr = k.t.Output()
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := k.cmd.Start(); err != nil {
		k.t.Fatal(err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		_, err := k.call("Status", map[string]any{})
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			k.t.Fatalf("the key service does not answer: %v", err)
		}
	}
}

// kill sends SIGKILL to the program, unless the test has already killed it.
func (k *kgsProcess) kill() {
	if k.cmd.ProcessState == nil {
		_ = k.cmd.Process.Kill() // the process may have exited by itself
		_ = k.cmd.Wait()         // "signal: killed"
	}
}

func (k *kgsProcess) url() string { return fmt.Sprintf("http://tests:%s@%s", kgsToken, k.addr) }

// call calls a procedure of the key service with JSON over HTTP. It may be called from any goroutine.
func (k *kgsProcess) call(procedure string, request map[string]any) (answer struct {
	LeaseID string   `json:"leaseId"`
	Codes   []string `json:"codes"`
}, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return answer, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(k.t.Context()), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"http://"+k.addr+"/keypool.kgs.v1.KeyService/"+procedure, bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+kgsToken)
	resp, err := k.client.Do(req)
	if err != nil {
		return answer, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer, err
	}
	if resp.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("%s: %s", resp.Status, text)
	}
	err = json.Unmarshal(text, &answer)
	return answer, err
}
