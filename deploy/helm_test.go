//go:build helm

package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.yaml.in/yaml/v3"

	"keypool/web/admin"
)

// secrets are the settings that may contain a password.
var secrets = []string{
	"DATABASE_URL", "DATABASE_READ_URLS", "REDIS_URL", "KGS_SECRET", "KGS_TOKENS", "KGS_URL", "TICKET_DATABASE_URLS", "ALERT_WEBHOOK_URL",
}

// object is a Kubernetes object, with the members that the tests read.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Selector any // matchLabels, or the labels themselves in a Service
		Ports    []struct{ TargetPort string }
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct{ Containers []container }
		}
		Groups []any
	}
}

type container struct {
	Name  string
	Env   []struct{ Name, Value string }
	Ports []struct {
		Name          string
		ContainerPort int
	}
	EnvFrom []struct {
		ConfigMapRef, SecretRef struct{ Name string }
	}
	StartupProbe, LivenessProbe, ReadinessProbe struct {
		HTTPGet struct{ Path, Port string }
	}
}

// render runs `helm template` with args. The environment variable HELM is the command that runs Helm.
func render(t *testing.T, args ...string) ([]object, error) {
	t.Helper()
	command := strings.Fields(os.Getenv("HELM"))
	if len(command) == 0 {
		t.Fatal("HELM is not set; run the tests with `make helm`")
	}
	// The command names a version of Kubernetes, because a Helm that `go run` builds assumes an old version.
	command = append(command, "template", "links", "helm/keypool", "--kube-version", "1.31.0")
	cmd := exec.CommandContext(t.Context(), command[0], append(command[1:], args...)...)
	var problem bytes.Buffer
	cmd.Stderr = &problem
	out, err := cmd.Output()
	if err != nil {
		return nil, errors.New(problem.String())
	}
	var objects []object
	for decoder := yaml.NewDecoder(bytes.NewReader(out)); ; {
		var document any
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, convert[object](t, document))
	}
}

// convert converts a decoded YAML value to T. It uses package json, which matches names of members in any case.
func convert[T any](t *testing.T, value any) (to T) {
	t.Helper()
	text, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(text, &to)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

var valid = []string{"--set", "image.tag=v1,secretName=keypool-secrets"}

// rendered returns the objects of the chart with valid values and args.
func rendered(t *testing.T, args ...string) []object {
	t.Helper()
	objects, err := render(t, append(slices.Clone(valid), args...)...)
	if err != nil {
		t.Fatalf("helm template: %v", err)
	}
	return objects
}

func ofKind(objects []object, kind string) (found []object) {
	for _, o := range objects {
		if o.Kind == kind {
			found = append(found, o)
		}
	}
	return found
}

// The settings that may contain a password are only in the Secret of the operator. Each program reads this Secret and one
// ConfigMap.
func TestHelmChartKeepsSecretsOutOfConfigMap(t *testing.T) {
	t.Parallel()
	objects := rendered(t, "--set", "settings.BASE_URL=https://go.example,kgs.keyService=true")
	if n := len(ofKind(objects, "Secret")); n != 0 {
		t.Errorf("the chart creates %d Secrets, want none", n)
	}
	documented, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	settings := ofKind(objects, "ConfigMap")[0]
	for name := range settings.Data {
		if slices.Contains(secrets, name) || !strings.Contains(string(documented), "`"+name+"`") {
			t.Errorf("the ConfigMap has %s, which is a secret or no setting", name)
		}
	}
	deployments := ofKind(objects, "Deployment")
	if len(deployments) != 2 {
		t.Fatalf("the chart has %d Deployments, want two", len(deployments))
	}
	for _, d := range deployments {
		c := d.Spec.Template.Spec.Containers[0]
		for _, env := range c.Env {
			if slices.Contains(secrets, env.Name) {
				t.Errorf("%s has %s in its environment", d.Metadata.Name, env.Name)
			}
		}
		if len(c.EnvFrom) != 2 || c.EnvFrom[0].ConfigMapRef.Name != settings.Metadata.Name || c.EnvFrom[1].SecretRef.Name != "keypool-secrets" {
			t.Errorf("%s reads its settings from %+v", d.Metadata.Name, c.EnvFrom)
		}
	}
}

func TestHelmChartRefusesInvalidValuesAndInlineSecrets(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"image.tag=v1": "secretName",
		"secretName=s": "image.tag",
		"image.tag=v1,secretName=s,settings.DATABASE_URL=postgres://u:p@h/d": "DATABASE_URL",
		"image.tag=v1,secretName=s,settings.KGS_TOKENS=a\\=b":                "KGS_TOKENS",
		"image.tag=v1,secretName=s,pool.restartBelow=low":                    "restartBelow",
		"image.tag=v1,secretName=s,pool.restart=30%":                         "restart",
		"image.tag=v1,secretName=s,settings.ADMIN_ADDR=:1":                   "ADMIN_ADDR",
		"image.tag=v1,secretName=s,settings.KEY_SOURCE=postgres-pool":        "KEY_SOURCE",
		"image.tag=v1,secretName=s,monitoring.serviceMonitor=true":           "networkPolicy.adminFrom",
	} {
		if _, err := render(t, "--set", values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("helm template --set %s: %v; want an error that names %s", values, err, want)
		}
	}
}

// The test sends the probes to an admin listener that is ready.
func TestHelmChartProbePathsExistOnAdminListener(t *testing.T) {
	t.Parallel()
	listener := admin.New(admin.Config{
		Gatherer: prometheus.NewRegistry(), Ready: func(context.Context) error { return nil }, Status: func() admin.Status { return admin.Status{} },
	})
	for _, d := range ofKind(rendered(t), "Deployment") {
		c := d.Spec.Template.Spec.Containers[0]
		for name, get := range map[string]struct{ Path, Port string }{
			"startup": c.StartupProbe.HTTPGet, "liveness": c.LivenessProbe.HTTPGet, "readiness": c.ReadinessProbe.HTTPGet,
		} {
			w := httptest.NewRecorder()
			listener.ServeHTTP(w, httptest.NewRequest(http.MethodGet, get.Path, http.NoBody))
			if w.Code != http.StatusOK || get.Port != "admin" || !hasPort(c, "admin", 8081) {
				t.Errorf("%s: the %s probe GET %s of port %s has status %d", d.Metadata.Name, name, get.Path, get.Port, w.Code)
			}
		}
	}
}

// hasPort reports whether c has a port with the name and the number. The number 0 matches all numbers.
func hasPort(c container, name string, number int) bool {
	for _, p := range c.Ports {
		if p.Name == name && (number == 0 || p.ContainerPort == number) {
			return true
		}
	}
	return false
}

// Each Service and each PodDisruptionBudget selects the pods of exactly one Deployment, and each Service leads to a port
// of these pods.
func TestEachServiceAndDisruptionBudgetOfHelmChartSelectsOneDeployment(t *testing.T) {
	t.Parallel()
	objects := rendered(t, "--set", "kgs.keyService=true")
	selecting := slices.Concat(ofKind(objects, "Service"), ofKind(objects, "PodDisruptionBudget"))
	if len(selecting) != 6 {
		t.Errorf("the chart has %d Services and PodDisruptionBudgets, want 6", len(selecting))
	}
	for _, o := range selecting {
		selector := o.Spec.Selector.(map[string]any)
		if nested, ok := selector["matchLabels"]; ok {
			selector = nested.(map[string]any)
		}
		labels := convert[map[string]string](t, selector)
		var selected int
		for _, d := range ofKind(objects, "Deployment") {
			if !contains(d.Spec.Template.Metadata.Labels, labels) {
				continue
			}
			selected++
			for _, port := range o.Spec.Ports {
				if !hasPort(d.Spec.Template.Spec.Containers[0], port.TargetPort, 0) {
					t.Errorf("%s %s leads to the port %s, which %s does not have", o.Kind, o.Metadata.Name, port.TargetPort, d.Metadata.Name)
				}
			}
		}
		if selected != 1 {
			t.Errorf("%s %s selects %d Deployments, want one", o.Kind, o.Metadata.Name, selected)
		}
	}
}

func contains(all, some map[string]string) bool {
	for name, value := range some {
		if all[name] != value {
			return false
		}
	}
	return len(some) > 0
}

// Helm reads the numbers of a values file as float64. Without a conversion, a template would print large numbers with an
// exponent.
func TestHelmChartRendersNumbersOfValuesFileWithoutExponent(t *testing.T) {
	t.Parallel()
	values := filepath.Join(t.TempDir(), "values.yaml")
	text := `
pool: {capacity: 1000000000, restartBelow: 20000000, pageBelow: 10.5%}
settings: {MAX_CONNECTIONS: 1000000, FALLBACK_SHARE: 0.25, ANONYMOUS: false, BASE_URL: "https://go.example", CODE: "0012"}
`
	if err := os.WriteFile(values, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	data := ofKind(rendered(t, "-f", values), "ConfigMap")[0].Data
	for name, want := range map[string]string{
		"KGS_POOL_CAPACITY": "1000000000", "KGS_RESTART_BELOW": "20000000", "KGS_PAGE_BELOW": "10.5%",
		"MAX_CONNECTIONS": "1000000", "FALLBACK_SHARE": "0.25", "ANONYMOUS": "false", "BASE_URL": "https://go.example", "CODE": "0012",
	} {
		if data[name] != want {
			t.Errorf("%s is %q, want %q", name, data[name], want)
		}
	}
}

// The alert rules contain no levels of the pool. They read the levels from the metrics of the programs.
func TestHelmChartSetsPoolLevelsInProgramsButNotInAlertRules(t *testing.T) {
	t.Parallel()
	objects := rendered(t, "--set", "pool.restartBelow=50%,pool.pageBelow=1000,pool.capacity=100000000,monitoring.prometheusRule=true,monitoring.serviceMonitor=true,networkPolicy.adminFrom[0].podSelector.matchLabels.app=prometheus")
	data := ofKind(objects, "ConfigMap")[0].Data
	if data["KGS_RESTART_BELOW"] != "50%" || data["KGS_PAGE_BELOW"] != "1000" || data["KGS_POOL_CAPACITY"] != "100000000" {
		t.Errorf("the settings are %v", data)
	}
	text, err := os.ReadFile("prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var document any
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	file := convert[struct{ Groups []any }](t, document)
	rules := ofKind(objects, "PrometheusRule")
	if len(rules) != 1 || !reflect.DeepEqual(rules[0].Spec.Groups, file.Groups) || len(file.Groups) == 0 {
		t.Error("the PrometheusRule differs from prometheus/alerts.yml")
	}
	if len(ofKind(objects, "ServiceMonitor")) != 1 {
		t.Error("there is no ServiceMonitor")
	}
}
