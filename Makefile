# docs/testing.md describes the suites, CONTRIBUTING.md each target.

VERSION  ?= $(shell git describe --always --dirty 2>/dev/null || echo unknown)
COMMIT   ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
FUZZTIME ?= 1m
# How much of each fault row is done: 1 is 200 kills and a minute of load.
SCALE    ?= 1
# Further flags of `loadtest all`, such as --full, --only=drain or --controls.
LOADTEST ?=
# Further flags of the comparison.
COMPARE  ?=
# Key sources and fault rows to run (all when empty), such as SOURCE=ticket, ROW=10.
SOURCE   ?=
ROW      ?=
# --strict makes a speed claim that fails fail the run; the suite nightly sets it.
STRICT   ?=
# Bars: unscaled with FULL=1; only some with ONLY=create,redirect.
FULL     ?=
ONLY     ?=

golangci-lint := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.13.2
buf := go run github.com/bufbuild/buf/cmd/buf@v1.75.0
# Finds or starts the databases that tests use, and stops them again.
keeper := bin/keeper
experiments := bin/loadtest experiments
comma := ,

.PHONY: build run test lint generate rules model controls bench bench-parts fuzz drill loadtest conformance compare compose-test ways smoke nightly keeper

# The linker sets the version. Go's own stamp fails in a tree that git does not trust.
build:
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -o bin/ \
		-ldflags '-X keypool/cmd/internal/version.number=$(VERSION) -X keypool/cmd/internal/version.commit=$(COMMIT)' ./cmd/...

# On a terminal the server is a job of its own: Ctrl-C reaches the server only, and make ends
# with the server's exit status. When make is killed, the server gets SIGTERM.
run: build
	@if [ -t 0 ]; then bash -mc 'setpriv --pdeathsig TERM bin/shortener; exit $$?'; else exec bin/shortener; fi

# The race detector watches this project's code and what it calls, except SQLite's C code that was
# translated to Go: it starts no goroutines and took most of the time.
test: keeper
	$(keeper) need gcc chromium redis-server postgres wrk python3
	$(keeper) run go test -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc/...=-race=false ./...

lint:
	@files=$$(gofmt -l .); [ -z "$$files" ] || { echo "not formatted by gofmt: $$files" >&2; exit 1; }
	@files=$$(grep -rl 'time\.Sleep(' --include='*_test.go' . | xargs -r grep -L '"testing/synctest"'); \
	[ -z "$$files" ] || { echo "these tests sleep outside of testing/synctest: $$files" >&2; exit 1; }
	go vet ./...
	go vet -tags drill,compose ./...
	$(golangci-lint) run

# The code of the key service, from its definition. Up to date when this changes nothing.
generate:
	cd kgs/keyserver && $(buf) generate

# The alert rules for Prometheus.
rules: keeper
	$(keeper) need promtool
	promtool check config deploy/prometheus/prometheus.yml
	promtool test rules deploy/prometheus/alerts_test.yml

# The model of the protocol between workers, servers, ledger and pool, with all of its
# protections and without each of them.
model: keeper
	$(keeper) need gcc spin
	docs/model/check

# Unit tests against product code without a protection: they must fail.
controls: keeper
	$(keeper) need redis-server postgres
	go test -tags drill -count 1 -timeout 20m ./loadtest/controls

# Every bar of speed, memory and growth beside its baseline.
bench: build keeper
	$(keeper) need redis-server postgres wrk nginx
	go test -c -o bin/ ./kgs ./kgs/codespace
	$(experiments) $(if $(ONLY),$(subst $(comma), ,$(ONLY)),bars load/create) $(if $(FULL),--full) --report loadtest/report/bench --markdown bin/bench.md

# The Go benchmarks, to look at the parts.
bench-parts: keeper
	$(keeper) need redis-server postgres
	$(keeper) run go test -run '^$$' -bench . ./shortener/... ./kgs/... ./web/...

fuzz:
	go test -run '^$$' -fuzz '^FuzzURL$$' -fuzztime $(FUZZTIME) ./shortener
	go test -run '^$$' -fuzz '^FuzzAlias$$' -fuzztime $(FUZZTIME) ./shortener
	go test -run '^$$' -fuzz '^FuzzCreateBody$$' -fuzztime $(FUZZTIME) ./web

# Kills, freezes and starves running programs under load, with and without each protection.
drill: build keeper
	$(keeper) need redis-server postgres
	$(experiments) $(if $(ROW),$(addprefix fault/,$(subst $(comma), ,$(ROW))),fault) $(STRICT) --controls --scale $(SCALE) --report loadtest/report/drill --markdown bin/drill.md

# The rules that every key source keeps, on real processes, and sources that are broken on purpose.
conformance: build keeper
	$(keeper) need redis-server postgres
	$(experiments) $(if $(SOURCE),$(addprefix keysource/,$(subst $(comma), ,$(SOURCE))),keysource) $(STRICT) --controls --parallel 3 --report loadtest/report/conformance

compose-test:
	go test -tags compose -count 1 -timeout 30m -v ./deploy

# The load test: creations, visits, a pool that runs dry, Redis killed, a filling space, guessing.
loadtest: build keeper
	$(keeper) need redis-server postgres
	bin/loadtest all $(STRICT) $(LOADTEST)

# Every key source side by side.
compare: build keeper
	$(keeper) need redis-server postgres wrk
	$(experiments) compare $(STRICT) --report loadtest/report/compare --markdown bin/compare.md $(COMPARE)

# Creations, a pool that runs dry and an outage of Redis, and the six fault rows of suite change.
smoke: build keeper
	$(keeper) need redis-server postgres
	$(experiments) --suite change --controls --scale 0.1 --report loadtest/report/smoke

# The four ways in which tests get databases.
ways: keeper
	TEST_SERVERS=apt go test -count 1 -run TestWay ./internal/testenv/keeper
	TEST_SERVERS=machine go test -count 1 -run TestWay ./internal/testenv/keeper
	TEST_SERVERS=docker go test -count 1 -run TestWay ./internal/testenv/keeper
	$(keeper) run go test -count 1 -run TestWay ./internal/testenv/keeper
	go test -count 1 ./internal/testenv

# The suite nightly: all that .ci/run does in turn.
nightly:
	.ci/nightly

keeper:
	go build -buildvcs=false -o $(keeper) ./internal/testenv/keeper
