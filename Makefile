OAPI_CODEGEN := go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen

# Third-party tools; go run builds them at the pinned version.
GOLANGCI := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
OASDIFF := go run github.com/oasdiff/oasdiff@v1.33.0
GOVULNCHECK := go run golang.org/x/vuln/cmd/govulncheck@v1.8.0
BENCHSTAT := go run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
COMPARED := .data/bench-compare

.PHONY: help build run demo test test-long observed pgbouncer pooled replicas upgrade failover drill chaos outages race generate verify-generated lint lint-go breaking release release-contracts supply alerts manifests vuln browser pictures sdk fuzz-contract ci bench bench-compare profile simulate

help:
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the commands into bin/
	@mkdir -p bin
	@[ -x bin/partnerd ] && [ -z "$$(find cmd internal gen migrations openapi go.mod -type f -newer bin/partnerd | head -n 1)" ] || \
		echo "Building the commands. The first build takes a few minutes."
	@go build -o bin/ ./cmd/partnerd ./cmd/partnerctl ./cmd/democrm

# The demo CRM exits with the service, which replaces this shell and keeps its process ID.
run: build ## run the whole service with sandbox data, and a demo CRM
	@addr="$${PARTNERD_ADDR:-127.0.0.1:8080}"; \
	bin/democrm serve -base-url "$${PARTNERD_BASE_URL:-http://localhost:$${addr##*:}}" -credentials "$${PARTNERD_DATA_DIR:-.data}/demo.json" -beside $$$$ & exec bin/partnerd serve

demo: build ## run a CRM without pages against the running server, or its own
	@bin/democrm $(ARGS)

# Stops the tests' database after a command, and keeps the exit status of the command.
STOP = ; status=$$? ; go run ./internal/dev/dbtest/stop ; exit $$status

# Most tests wait more than they compute, so running more tests and packages in parallel than there are processors costs no time.
PARALLEL ?= 4
GOTEST := go run ./internal/dev/gotest -parallel $(PARALLEL) -timeout 30m

# All of go vet replaces the subset that go test runs by default, so each package is vetted once.
test: ## run all Go tests, with their own Postgres
	@$(GOTEST) -p $(PARALLEL) -vet=all $(TESTFLAGS) ./...$(STOP)

# Scenarios with other servers and processes, or with injected faults. .ci/scenario has the commands.
SCENARIOS := pgbouncer pooled replicas failover upgrade drill chaos outages
export BASE SEED FOR HISTORIES TESTFLAGS PGBACKREST

test-long: ## run long tests: HISTORIES=10000 wallet histories, token races, crashes under load, cursor fuzzing
	@.ci/scenario long
pgbouncer: ## run the end-to-end tests through PgBouncer in transaction mode
pooled: ## run some of them, and kill PgBouncer, its database and a process under load
replicas: ## restart three replicas and two workers in turn behind HAProxy, under load
failover: ## lose the primary database under load, promote its standby and check for lost commits
upgrade: ## upgrade from another build under load, process by process (make upgrade BASE=HEAD~1)
drill: ## back up, damage and restore the database under load, and check for lost commits
chaos: ## inject faults under load and check the invariants (make chaos SEED=7 FOR=2m); writes .data/chaos
outages: ## run replicas, failover, drill and a short chaos in parallel
$(SCENARIOS):
	@.ci/scenario $@

# Packages that start goroutines or share memory, and e2e, which runs everything together. Elsewhere only transactions race, which
# the detector does not see, and built processes have no detector. Hostile input is sent one request at a time. The tests of all
# packages below web are in web.
CONCURRENT = ./internal/dev/e2e ./internal/server/web $$(git grep -lE '\bgo (func|[a-z][A-Za-z.]*\()|\.Go\(|errgroup|sync\.|atomic\.' -- 'internal/*.go' 'cmd/*.go' ':!*_test.go' | \
	xargs -n1 dirname | sort -u | grep -v -e bench -e /stop | sed 's,^,./,')

observed: ## print how often the end-to-end tests received each documented status and code
	@out=$$(go test -count=1 -v ./internal/dev/e2e) ; status=$$? ; echo "$$out" | grep -E '^\||^FAIL|^--- FAIL|^  [a-zA-Z]+ [0-9]{3}' ; exit $$status

# The detector is CPU-bound, so as many packages run in parallel as there are processors.
race: ## run the tests of concurrent packages under the race detector (needs a C compiler)
	@$(GOTEST) -race -vet=off -skip Hostile $(TESTFLAGS) $(CONCURRENT)$(STOP)

bench: ## measure partnerd on this machine (make bench ARGS="--only webhooks --load 5s")
	@go run ./cmd/bench $(ARGS)

# Shows calls below the server's handlers and the engine's loops, without the preparation of a scenario.
profile: ## profile a create, a call with a token and an end-to-end consultation (.deploy/profiles.md)
	@mkdir -p .data/profiles && go build -o .data/profiles/bench ./cmd/bench
	@for scenario in "wallet/create consultation" "oauth/bearer call" "life/statements"; do \
		file=.data/profiles/$$(echo "$$scenario" | tr ' /' '__').prof; \
		.data/profiles/bench --only "^$$scenario$$" --cpuprofile $$file >/dev/null || true; \
		echo "== $$scenario"; \
		go tool pprof -top -cum -nodecount=45 -focus='echo.*ServeHTTP|poll\.Loop|dispatcher|sandbox\.\(' .data/profiles/bench $$file; \
	done

# The runs of the two builds alternate, so both see the same conditions. A missed target does not stop it.
bench-compare: ## compare this build with another, run by run (make bench-compare BASE=HEAD~1 RUNS=6 ARGS="--only wallet/create --load 3s")
	@test -n "$(BASE)" || { echo "Set BASE to the revision to compare with" >&2; exit 1; }
	@rm -rf $(COMPARED) && git worktree prune && git worktree add -q --detach $(COMPARED)/base $(BASE)
	@cd $(COMPARED)/base && go build -o ../base.bin ./cmd/bench
	@go build -o $(COMPARED)/new.bin ./cmd/bench
	@for run in $$(seq $(or $(RUNS),6)); do \
		(cd $(COMPARED)/base && ../base.bin --stat --dir ../cluster $(ARGS) >>../base.txt) || true; \
		$(COMPARED)/new.bin --stat --dir $(COMPARED)/cluster $(ARGS) >>$(COMPARED)/new.txt || true; \
	done
	@$(BENCHSTAT) base=$(COMPARED)/base.txt new=$(COMPARED)/new.txt
	@git worktree remove --force $(COMPARED)/base

simulate: ## simulate a day of consultations and write a report (make simulate ARGS="--consultations 5000 --lawyers 500 --pairs 6")
	@go run ./cmd/simulate $(ARGS)

# Runs at the root of the project, so that go.mod pins the generator.
generate: ## write the webhooks of the contract and generate gen/ from openapi/
	@go run ./openapi/webhooks
	@for cfg in openapi/*.cfg.yaml; do \
		api=$$(basename $$cfg | cut -d. -f1) part=$$(basename $$cfg | cut -d. -f2); \
		mkdir -p gen/$$api/$$part; \
		$(OAPI_CODEGEN) -config $$cfg openapi/$$api.yaml || exit 1; \
	done

# Fails if the committed code differs from what the contracts generate, including new and leftover files.
verify-generated: generate ## check that gen/ is what the contracts generate
	@drift=$$(git status --porcelain --untracked-files=all -- gen openapi/partner.yaml go.mod go.sum); \
	if [ -n "$$drift" ]; then echo "Generated files differ from the contracts; run make generate:"; echo "$$drift"; exit 1; fi

# Checks with Node tools. They need Node >= 20.19 and Debian's chromium, or the browser at CHROMIUM.
NODE_CHECKS := internal/dev/e2e/node

$(NODE_CHECKS)/node_modules: $(NODE_CHECKS)/package.json $(NODE_CHECKS)/package-lock.json
	npm ci --prefix $(NODE_CHECKS) --ignore-scripts --no-audit --no-fund
	@touch $@

lint: $(NODE_CHECKS)/node_modules ## check formatting, code and contracts
	@unformatted=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')); \
	if [ -n "$$unformatted" ]; then echo "Run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go mod verify
	npm run --silent --prefix $(NODE_CHECKS) lint

lint-go: ## run golangci-lint (.golangci.yml)
	$(GOLANGCI) run

# openapi/released is what partners have. Webhooks are compared as if they were requests to us, so a removed webhook field is not
# found. released/accepted.txt lists accepted differences: events about clients, which an application has to enable, and a list of
# values that became an open string.
breaking: ## check the contracts for breaking changes since the release to partners
	@for released in openapi/released/*.yaml; do \
		echo "$$released"; $(OASDIFF) breaking --flatten-allof --fail-on WARN --err-ignore openapi/released/accepted.txt $$released openapi/$$(basename $$released) || exit 1; \
	done

release-contracts: breaking ## record the contracts as released to partners
	cp openapi/partner.yaml openapi/platform.yaml openapi/released/

release: ## build the release files into bin/release, with SBOM and checksums (RELEASE_KEY signs them)
	.ci/release

supply: ## check licences, module checksums and reproducible builds
	go test -count=1 ./internal/dev/supply
	go mod verify
	.ci/release check partnerd

# promtool comes from Debian's package prometheus, unpacked and not installed, because installing it starts a service. If it is
# unavailable, the target says that nothing was checked.
PROMTOOL ?= $(or $(shell command -v promtool),$(CURDIR)/.data/tools/usr/bin/promtool)

alerts: ## check and test the alerts of .deploy
	@if [ ! -x $(PROMTOOL) ]; then mkdir -p .data/tools; cd .data/tools; \
		(apt-get download -q prometheus || { apt-get update -q && apt-get download -q prometheus; }) && dpkg -x prometheus_*.deb . && rm prometheus_*.deb; fi; \
	[ -x $(PROMTOOL) ] || { echo "NOT CHECKED: promtool is unavailable here"; exit 0; }; \
	cd $(CURDIR)/.deploy && $(PROMTOOL) check rules alerts.yaml && $(PROMTOOL) test rules alerts_test.yaml && $(PROMTOOL) check config --syntax-only prometheus.yaml

# Installed with pip into its own folder. It has no schema for kinds of operators (PodMonitor).
KUBERNETES_VALIDATE := .data/tools/kubernetes-validate

$(KUBERNETES_VALIDATE)/bin/kubernetes-validate:
	@mkdir -p $(KUBERNETES_VALIDATE) && python3 -m venv $(KUBERNETES_VALIDATE) && $(KUBERNETES_VALIDATE)/bin/pip install -q kubernetes-validate==1.37.0 || true

manifests: $(KUBERNETES_VALIDATE)/bin/kubernetes-validate ## check the Kubernetes manifests of .deploy
	@[ -x $< ] || { echo "NOT CHECKED: kubernetes-validate is unavailable here"; exit 0; }; $< --strict .deploy/kubernetes.yaml

# Downloads the list of vulnerabilities. If it is unavailable, the target says that nothing was checked.
vuln: ## check the code that partnerd calls for known vulnerabilities
	@out=$$($(GOVULNCHECK) ./... 2>&1); status=$$?; echo "$$out"; \
	if echo "$$out" | grep -q 'fetching vulnerabilities'; then echo "NOT CHECKED: the list of vulnerabilities is unavailable here"; exit 0; fi; \
	exit $$status

sdk: build $(NODE_CHECKS)/node_modules ## test a stock OAuth client and the generated SDKs against the running program
	npm run --silent --prefix $(NODE_CHECKS) sdk

# Schemathesis, pinned with its dependencies.
SCHEMATHESIS := internal/dev/e2e/schemathesis

$(SCHEMATHESIS)/.venv/ready: $(SCHEMATHESIS)/requirements.txt
	rm -rf $(@D)
	python3 -m venv $(@D)
	$(@D)/bin/pip install -q --require-hashes -r $<
	@touch $@

fuzz-contract: build $(NODE_CHECKS)/node_modules $(SCHEMATHESIS)/.venv/ready ## send valid and invalid requests to the running program (FUZZ_SEED=$RANDOM FUZZ_EXAMPLES=1000 for more)
	npm run --silent --prefix $(NODE_CHECKS) fuzz-contract

browser: build $(NODE_CHECKS)/node_modules ## test the pages in a browser, with mouse, keyboard and accessibility checks
	npm run --silent --prefix $(NODE_CHECKS) browser

pictures: build $(NODE_CHECKS)/node_modules ## take the screenshots of the README into .github/assets
	node $(NODE_CHECKS)/pictures.js .github/assets

ci: ## run every check required before a change is merged
	.ci/run
