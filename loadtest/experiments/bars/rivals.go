package bars

import (
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"keypool/loadtest"
	"keypool/loadtest/experiment"
	"keypool/loadtest/lab"
	"keypool/loadtest/measure"
)

// Environment variables that name the programs of other projects. Keypool does not contain these
// programs.
const (
	golinkProgram    = "PEER_GOLINK"    // https://github.com/tailscale/golink
	wormholesProgram = "PEER_WORMHOLES" // https://github.com/noquark/wormholes
)

// rivals returns an experiment that measures creations of Keypool and of the other programs that the
// environment names. It returns nothing if the environment names none.
func rivals() []*experiment.Experiment {
	others := []struct {
		program string
		bar     bar
		start   func(*experiment.T, string) measure.Subject
	}{
		{golinkProgram, bar{name: "creations, against golink", unit: measure.PerSecond, versus: "golink", least: 20, note: "golink commits each link in its own transaction of SQLite",
			text: "On SQLite, Keypool creates at least 20 times as many links per second as golink."}, startGolink},
		{wormholesProgram, bar{name: "creations, against wormholes", unit: measure.PerSecond, versus: "wormholes", least: 0.6, note: "wormholes answers before it stores a link, so a crash loses acknowledged links",
			text: "On SQLite, Keypool creates at least 0.6 times as many links per second as wormholes, which answers before a link is durable."}, startWormholes},
	}
	var bars []bar
	var starts []func(*experiment.T) measure.Subject
	for _, other := range others {
		if program := os.Getenv(other.program); program != "" {
			bars = append(bars, other.bar)
			starts = append(starts, func(t *experiment.T) measure.Subject { return other.start(t, program) })
		}
	}
	if bars == nil {
		return nil
	}
	return []*experiment.Experiment{define("rivals", "Creations beside other programs",
		"64 connections create links as fast as the server answers, in turn on Keypool with SQLite and on each of the other programs.",
		bars, func(t *experiment.T, r *record) {
			embedded, _ := creations(t, "Keypool", "sqlite:"+filepath.Join(t.TempDir(), "create.db"))
			subjects := []measure.Subject{embedded}
			for _, start := range starts {
				subjects = append(subjects, start(t))
			}
			figures := alternate(t, subjects...)
			for i, b := range bars {
				r.put(b.name, figures[0], figures[i+1])
			}
		})}
}

// answers returns an error if no server answers at url.
func answers(ctx context.Context, url string) error {
	client := loadtest.NewClient(url, 0)
	defer client.Close()
	_, err := client.Send(ctx, http.MethodGet, "/", nil, nil)
	return err
}

// named returns a load that creates links with names that no other load uses. The body of a request
// consists of before, the name and after.
func named(name, method, url, media, before, after string) measure.Subject {
	args := []string{method, media, before, after, rand.Text()}
	load := measure.Wrk{URL: url, Script: "named", Duration: each}
	return measure.Subject{Name: name, Unit: measure.PerSecond, Measure: func(ctx context.Context) (float64, error) {
		args[4] = rand.Text()
		load.Args = args
		tally, err := load.Run(ctx)
		return tally.PerSecond(), err
	}}
}

func startGolink(t *experiment.T, program string) measure.Subject {
	url := lab.Other(t, nil, func(addr string) (string, []string) {
		return program, []string{"-dev-listen", addr, "-sqlitedb", filepath.Join(t.TempDir(), "golink.db")}
	}, answers)
	return named("golink", http.MethodPost, url+"/", "application/x-www-form-urlencoded", "long="+measure.Target+"&short=", "")
}

func startWormholes(t *experiment.T, program string) measure.Subject {
	generator, err := lab.FreeAddr()
	t.Must(err)
	_, generatorPort, err := net.SplitHostPort(generator)
	t.Must(err)
	env := []string{"GEN_PORT=" + generatorPort, "PG_URI=" + lab.Postgres(t).URL, "PG_MAX_CONN=50", "REDIS_URI=" + lab.Redis(t).URL, "BUCKET_SIZE=4"}
	url := lab.Other(t, env, func(addr string) (string, []string) {
		_, port, err := net.SplitHostPort(addr)
		t.Must(err)
		return "/usr/bin/env", []string{"PORT=" + port, program}
	}, answers)
	return named("wormholes", http.MethodPut, url+"/api/", "application/json", `{"target":"`+measure.Target+`","tag":"`, `"}`)
}
