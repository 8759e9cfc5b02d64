# CONTRIBUTING.md describes the targets. docs/testing.md describes experiments, claims, controls and suites.

VERSION  ?= $(shell git describe --always --dirty 2>/dev/null || echo unknown)
COMMIT   ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
FUZZTIME ?= 1m
# The fuzz targets, each with its package.
FUZZ     ?= shortener/destination/FuzzURL,shortener/FuzzAlias,web/FuzzCreateBody,web/api/FuzzLinkJSON,web/FuzzPatch,web/FuzzBulk,web/FuzzIdempotencyKey,kgs/codespace/FuzzRank,shortener/transfer/FuzzImportCSV,shortener/transfer/FuzzImportNDJSON,shortener/transfer/FuzzImportShlink,shortener/transfer/FuzzImportYOURLS,shortener/transfer/FuzzImportKutt,shortener/transfer/FuzzImportGolink
# The size of each experiment of `make drill`, `make citus-drill` and `make compare`. Size 1 is the full size, for
# example 200 kills in fault/1 or a minute without Redis in fault/6.
SCALE    ?= 1
# More flags for `loadtest all`, such as --full, --only=drain or --controls.
LOADTEST ?=
# More flags for `make compare`, such as --controls.
COMPARE  ?=
# The key sources that `make conformance` tests, and the fault rows that `make drill` runs, such as SOURCE=ticket
# and ROW=10. If they are empty, all run.
SOURCE   ?=
ROW      ?=
# With 1/2, each target that runs experiments, such as `make drill` and `make conformance`, runs every second
# experiment, beginning with the first.
SHARE    ?=
# With --strict, a failed speed claim fails the run. `make nightly` sets it.
STRICT   ?=
# A bar is an aim of the project. FULL=1 measures the bars at full size. ONLY=redirect,keys runs only
# bars/redirect and bars/keys.
FULL     ?=
ONLY     ?=

golangci-lint := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.13.2
buf := go run github.com/bufbuild/buf/cmd/buf@v1.75.0
helm := go run helm.sh/helm/v3/cmd/helm@v3.19.5
# The keeper finds or starts the databases that tests use. At the end it stops those that it started.
# `keeper need` installs programs.
keeper := bin/keeper
# Only the race detector needs cgo. All other builds work without cgo, so that they share the build cache.
export CGO_ENABLED := 0
share := $(addprefix --share=,$(SHARE))
experiments := bin/loadtest experiments $(share)
comma := ,

.PHONY: build run test lint generate rules helm model controls bench bench-parts fuzz drill loadtest conformance compare compose-test citus citus-test citus-drill ways smoke nightly keeper

# The linker sets the version, because Go's own stamp (-buildvcs) fails in a directory that git does not trust.
build:
	go build -trimpath -buildvcs=false -o bin/ \
		-ldflags '-X keypool/cmd/internal/version.number=$(VERSION) -X keypool/cmd/internal/version.commit=$(COMMIT)' ./cmd/...

# On a terminal, bash runs the server as a job (-m). So Ctrl-C reaches only the server, and make ends with the exit
# status of the server. If make gets SIGTERM, it ends bash, and then the server gets SIGTERM.
run: build
	@if [ -t 0 ]; then exec bash -mc 'setpriv --pdeathsig TERM bin/shortener; exit $$?'; else exec bin/shortener; fi

# The race detector checks all code except SQLite, which is C code translated to Go. SQLite starts no
# goroutines, and its check would take most of the time of the tests.
test: keeper
	$(keeper) need gcc chromium redis-server postgres pgbouncer wrk python3 fincore zbarimg systemd-analyze promtool
	$(keeper) run env CGO_ENABLED=1 go test -race -timeout 20m -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc/...=-race=false ./...

# golangci-lint includes go vet. With the flags of `make build`, it uses the same build cache.
lint:
	@files=$$(gofmt -l .); [ -z "$$files" ] || { echo "not formatted by gofmt: $$files" >&2; exit 1; }
	@files=$$(grep -rl 'time\.Sleep(' --include='*_test.go' . | xargs -r grep -L '"testing/synctest"'); \
	[ -z "$$files" ] || { echo "these tests sleep outside of testing/synctest: $$files" >&2; exit 1; }
	GOFLAGS="$$GOFLAGS -trimpath" $(golangci-lint) run

# Generates the Go code of the key service from its .proto file. `.ci/run` fails if this changes the code.
generate:
	cd kgs/keyserver && $(buf) generate

# Checks and tests the alert rules for Prometheus.
rules: keeper
	$(keeper) need promtool
	promtool check config deploy/prometheus/prometheus.yml
	promtool test rules deploy/prometheus/alerts_test.yml

# Checks and tests the Helm chart.
helm:
	$(helm) lint --strict --set image.tag=v1,secretName=keypool deploy/helm/keypool
	HELM="$(helm)" go test -tags helm -count 1 -run TestHelmChart ./deploy

# Proves the model of the protocol between workers, servers, ledger and pool (docs/model/keypool.pml). It also
# removes the protections of the model, one at a time, and shows that the proof then fails.
model: keeper
	$(keeper) need gcc spin
	docs/model/check

# Removes some protections from the product, one at a time, and runs the unit tests of each. These tests must
# then fail.
controls: keeper
	$(keeper) need redis-server postgres
	go test -tags drill -count 1 -parallel 4 -timeout 20m ./loadtest/controls

# Measures the bars of the group bars, which concern speed, memory and growth, and runs load/create.
bench: build keeper
	$(keeper) need redis-server postgres wrk nginx fincore
	go test -c -o bin/ ./kgs ./kgs/codespace
	$(experiments) $(if $(ONLY),$(subst $(comma), ,$(ONLY)),bars load/create) $(if $(FULL),--full) --report loadtest/report/bench --markdown bin/bench.md

# Runs the Go benchmarks, which measure single functions.
bench-parts: keeper
	$(keeper) need redis-server postgres
	$(keeper) run go test -run '^$$' -bench . ./shortener/... ./kgs/... ./web/...

# Runs the fuzz targets, each for FUZZTIME. `go test -fuzz` would link two programs for each target.
fuzz-programs := $(patsubst %/,bin/fuzz/%.test,$(sort $(dir $(subst $(comma), ,$(FUZZ)))))
.PHONY: $(fuzz-programs)
$(fuzz-programs): bin/fuzz/%.test:
	go test -c -fuzz . -o $@ ./$*

fuzz: $(fuzz-programs)
	@for target in $(subst $(comma), ,$(FUZZ)); do \
		package=$${target%/*}; name=$${target##*/}; program=$(CURDIR)/bin/fuzz/$$package.test; \
		"$$program" -test.list "^$$name\$$" | grep -qx "$$name" || { echo "no fuzz target $$target" >&2; exit 1; }; \
		(cd "$$package" && set -x && "$$program" -test.run '^$$' -test.fuzz "^$$name\$$" -test.fuzztime $(FUZZTIME) \
			-test.fuzzcachedir "$$(go env GOCACHE)/fuzz/keypool/$$package") || exit 1; \
	done

# Runs the fault rows: they kill, freeze and overload running programs, with and without each protection.
drill: build keeper
	$(keeper) need redis-server postgres pgbouncer iptables
	$(experiments) $(if $(ROW),$(addprefix fault/,$(subst $(comma), ,$(ROW))),fault) $(STRICT) --controls --scale $(SCALE) --report loadtest/report/drill --markdown bin/drill.md

# Checks the rules of key sources on real processes. As controls, it runs programs that are broken on purpose,
# which must break a rule.
conformance: build keeper
	$(keeper) need redis-server postgres
	$(experiments) $(if $(SOURCE),$(addprefix keysource/,$(subst $(comma), ,$(SOURCE))),keysource) $(STRICT) --controls --parallel 3 --report loadtest/report/conformance

# Runs the tests of links on Citus, the fault rows of Citus, and the measurement of the cost of a creation. It also
# runs the controls of the rows and of the measurement. The target needs Citus or a Docker engine.
citus: citus-test citus-drill

citus-test: keeper
	$(keeper) need redis-server postgres citus
	CGO_ENABLED=1 go test -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc/...=-race=false -tags citus -count 1 -timeout 20m -run Citus ./shortener/citusstore ./cmd/internal/server

citus-drill: build keeper
	$(keeper) need redis-server postgres citus
	$(experiments) citus $(STRICT) --controls --scale $(SCALE) --report loadtest/report/citus --markdown bin/citus.md

compose-test:
	go test -tags compose -count 1 -timeout 30m -v ./deploy

# Runs the load test: creations, redirects, a pool that runs dry, a kill of Redis, a space that fills
# up, and clients that guess codes.
loadtest: build keeper
	$(keeper) need redis-server postgres
	bin/loadtest all $(share) $(STRICT) $(LOADTEST)

# Compares all key sources. With SCALE=0.1, as in the suite nightly, the comparison has one round instead of three.
compare: build keeper
	$(keeper) need redis-server postgres wrk
	$(experiments) compare $(STRICT) --scale $(SCALE) --report loadtest/report/compare --markdown bin/compare.md $(COMPARE)

# Runs the experiments of the suite change: creations, a pool that runs dry, an outage of Redis, and
# seven fault rows.
smoke: build keeper
	$(keeper) need redis-server postgres
	$(experiments) --suite change --controls --scale 0.1 --report loadtest/report/smoke

# Tests the four ways in which tests get databases (CONTRIBUTING.md).
ways: keeper
	TEST_SERVERS=apt go test -count 1 -run TestKeeperFindsWorkingServerOfEachEngine ./internal/testenv/keeper
	TEST_SERVERS=machine go test -count 1 -run TestKeeperFindsWorkingServerOfEachEngine ./internal/testenv/keeper
	TEST_SERVERS=docker go test -count 1 -run TestKeeperFindsWorkingServerOfEachEngine ./internal/testenv/keeper
	$(keeper) run go test -count 1 -run TestKeeperFindsWorkingServerOfEachEngine ./internal/testenv/keeper
	go test -count 1 ./internal/testenv

# Runs the suite nightly: every group in .ci/groups.
nightly:
	.ci/nightly

keeper:
	go build -buildvcs=false -o $(keeper) ./internal/testenv/keeper
