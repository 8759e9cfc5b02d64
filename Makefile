# CONTRIBUTING.md says what each target is for.

VERSION  ?= $(shell git describe --always --dirty 2>/dev/null || echo unknown)
FUZZTIME ?= 1m
# How much of each drill is done: 1 is 200 kills and a minute of load.
SCALE    ?= 1
# Further flags of the harness, such as --full or --scenario=drain.
LOADTEST ?=
# Likewise of the comparison, such as --only=redis-pool,redis-incr.
COMPARE  ?=
# The key sources to try, as a pattern for their names (all when empty).
SOURCE   ?=
# The rows to drill, comma-separated (all when empty), and a file for their table.
ROW      ?=
TABLE    ?=
# Benchmarks unscaled, and the groups of them (all when empty).
FULL     ?=
ONLY     ?=

golangci-lint := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.13.2
buf := go run github.com/bufbuild/buf/cmd/buf@v1.75.0
# Finds or starts the databases that tests use, and takes them down again.
keeper := bin/keeper

.PHONY: build run test lint generate rules model bench bench-parts fuzz drill loadtest loadtest-controls conformance compare compose-test keeper

# The version is linked in rather than stamped by Go, which fails in a tree that git
# does not trust.
build:
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '-X main.version=$(VERSION)' -o bin/ ./cmd/...

# At a terminal the server is a job of its own: Ctrl-C is for the server alone, and make
# ends with the server's exit status instead of one for the interruption. If make is
# killed, the server is told to end.
run: build
	@if [ -t 0 ]; then bash -mc 'setpriv --pdeathsig TERM bin/shortener; exit $$?'; else exec bin/shortener; fi

# The race detector watches this project's code and all that it calls, but for what is C made
# Go: that knows nothing of goroutines, and took most of the time.
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

# The code of the key service, from its definition. It is up to date when this changes nothing.
generate:
	cd kgs/keyserver && $(buf) generate

# The alert rules for Prometheus.
rules: keeper
	$(keeper) need promtool
	promtool check config deploy/prometheus/prometheus.yml
	promtool test rules deploy/prometheus/alerts_test.yml

# The model of the supply protocol, with all of its protections and without any one.
model: keeper
	$(keeper) need gcc spin
	docs/model/check

# Every bar of speed, memory and growth beside its baseline: all of it in ten minutes, or
# unscaled with FULL=1. ONLY=create,redirect measures some groups.
bench: build keeper
	$(keeper) need redis-server postgres wrk nginx
	go test -c -o bin/ ./kgs
	bin/loadtest bench --markdown bin/bench.md $(if $(FULL),--full) $(if $(ONLY),--only=$(ONLY))

# The Go benchmarks, to look at the parts.
bench-parts: keeper
	$(keeper) need redis-server postgres
	$(keeper) run go test -run '^$$' -bench . ./shortener ./kgs

fuzz:
	go test -run '^$$' -fuzz '^FuzzURL$$' -fuzztime $(FUZZTIME) ./shortener
	go test -run '^$$' -fuzz '^FuzzAlias$$' -fuzztime $(FUZZTIME) ./shortener
	go test -run '^$$' -fuzz '^FuzzCreateBody$$' -fuzztime $(FUZZTIME) ./web

# Kills, freezes and starves running programs under load. Takes its time. In the directory
# of the drills, so that go test lets their table through.
drill: keeper
	$(keeper) need gcc redis-server postgres
	go -C loadtest/drill test -tags drill -count 1 -timeout 40m -parallel 4 \
		-drill.scale=$(SCALE) -drill.row=$(ROW) -drill.table=$(abspath $(TABLE)) -drill.version=$(VERSION)

# The one suite for every key source, on real processes, and sources that are broken on purpose.
conformance: keeper
	$(keeper) need redis-server postgres
	go test -tags drill -count 1 -timeout 15m -parallel 3 $(if $(SOURCE),-run '^TestSources$$/$(SOURCE)') ./loadtest/sources

compose-test:
	go test -tags compose -count 1 -timeout 30m -v ./deploy

# What cannot be installed is done without; the report says what could not be judged.
loadtest: build keeper
	$(keeper) need redis-server postgres || true
	bin/loadtest all $(LOADTEST)

# Each scenario against programs that are broken on purpose, which it has to find out.
loadtest-controls: keeper
	$(keeper) need redis-server postgres wrk
	go test -tags drill -count 1 -timeout 20m -p 1 -run '^(TestBrokenPrograms|TestComparison|TestUnitTestsNoticeControls)$$' ./loadtest/controls ./loadtest/scenario ./loadtest/schemes

# Every key scheme side by side, in less than ten minutes.
compare: build keeper
	$(keeper) need redis-server postgres wrk
	bin/loadtest schemes --markdown bin/compare.md $(COMPARE)

keeper:
	go build -buildvcs=false -o $(keeper) ./internal/testenv/keeper
