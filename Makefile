OAPI_CODEGEN := go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen

# Tools of other modules, built at their version by go itself.
GOLANGCI := go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
OASDIFF := go run github.com/oasdiff/oasdiff@v1.33.0
GOVULNCHECK := go run golang.org/x/vuln/cmd/govulncheck@v1.8.0
BENCHSTAT := go run golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
COMPARED := .data/bench-compare

.PHONY: help build run demo test test-long observed pgbouncer pooled replicas upgrade failover drill chaos outages race generate verify-generated lint lint-go breaking release release-contracts supply alerts manifests vuln browser sdk fuzz-contract ci bench bench-compare profile simulate

help:
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the commands into bin/
	@mkdir -p bin
	@[ -x bin/partnerd ] && [ -z "$$(find cmd internal gen migrations openapi go.mod -type f -newer bin/partnerd | head -n 1)" ] || \
		echo "Building the commands. The first time takes some minutes."
	@go build -o bin/ ./cmd/partnerd ./cmd/partnerctl ./cmd/democrm

# The demonstration CRM ends with the service, whose process has the identifier of this shell.
run: build ## set everything up and run the whole service with sandbox data, and a CRM that uses it
	@addr="$${PARTNERD_ADDR:-127.0.0.1:8080}"; \
	bin/democrm serve -base-url "$${PARTNERD_BASE_URL:-http://localhost:$${addr##*:}}" -credentials "$${PARTNERD_DATA_DIR:-.data}/demo.json" -beside $$$$ & exec bin/partnerd serve

demo: build ## play a partner's CRM against the running server, or one of its own
	@bin/democrm $(ARGS)

# Ends a command that used the tests' database: with the database, and as the command did.
STOP = ; status=$$? ; go run ./internal/dev/dbtest/stop ; exit $$status

# Most tests wait more than they compute: for a phone that rings, for a wheel that turns. More of them, and more packages, at once
# than there are processors cost no time.
PARALLEL ?= 4
GOTEST := go run ./internal/dev/gotest -parallel $(PARALLEL) -timeout 30m

# All of go vet runs beside the tests, in place of the part of it that go test runs by default: each package is looked at once.
test: ## set everything up and pass the tests
	@$(GOTEST) -p $(PARALLEL) -vet=all $(TESTFLAGS) ./...$(STOP)

# What runs beside other servers and processes, or is broken on purpose: .ci/scenario has the commands.
SCENARIOS := pgbouncer pooled replicas failover upgrade drill chaos outages
export BASE SEED FOR HISTORIES TESTFLAGS PGBACKREST

test-long: ## play HISTORIES=10000 wallet histories with crashes, race tokens a hundred times, crash webhooks under load, kill processes that search, fuzz the cursor
	@.ci/scenario long
pgbouncer: ## pass the end-to-end tests through PgBouncer in transaction mode
pooled: ## pass some of them, and lose PgBouncer, the database behind it and a process while partners call
replicas: ## restart three replicas and two workers in turn behind HAProxy, on one database and one Valkey, while partners call
failover: ## lose the primary database while partners call, promote its synchronous standby, and look for what was acknowledged
upgrade: ## replace another build by this one, process by process, while partners call (make upgrade BASE=HEAD~1)
drill: ## back the database up while partners call, do damage, bring it back to the instant before, and look for what was acknowledged
chaos: ## break everything again and again while partners call, heal it, and look at what must hold (make chaos SEED=7 FOR=2m); writes .data/chaos
outages: ## replicas, failover, drill and a short chaos, all at once
$(SCENARIOS):
	@.ci/scenario $@

# Packages that start goroutines or share memory with others, and e2e, where all run together. Elsewhere it is transactions that
# race, which the detector does not see; built processes have no detector in them. Hostile input comes one request after another.
# The tests of all packages below web are in web.
CONCURRENT = ./internal/dev/e2e ./internal/server/web $$(git grep -lE '\bgo (func|[a-z][A-Za-z.]*\()|\.Go\(|errgroup|sync\.|atomic\.' -- 'internal/*.go' 'cmd/*.go' ':!*_test.go' | \
	xargs -n1 dirname | sort -u | grep -v -e bench -e /stop | sed 's,^,./,')

observed: ## print how often the end-to-end tests met each status and code that the contract for partners documents
	@out=$$(go test -count=1 -v ./internal/dev/e2e) ; status=$$? ; echo "$$out" | grep -E '^\||^FAIL|^--- FAIL|^  [a-zA-Z]+ [0-9]{3}' ; exit $$status

# The detector computes all the time: here as many packages at once as there are processors.
race: ## pass the tests of whatever runs concurrently under the race detector (needs a C compiler)
	@$(GOTEST) -race -vet=off -skip Hostile $(TESTFLAGS) $(CONCURRENT)$(STOP)

bench: ## measure the program on this machine (make bench ARGS="--only webhooks --load 5s")
	@go run ./cmd/bench $(ARGS)

# The calls below the server's handlers and the engine's loops; what a scenario prepares is left out.
profile: ## where the program's time goes in a create, in a call with a token and in a life (.deploy/profiles.md)
	@mkdir -p .data/profiles && go build -o .data/profiles/bench ./cmd/bench
	@for scenario in "wallet/create consultation" "oauth/bearer call" "life/statements"; do \
		file=.data/profiles/$$(echo "$$scenario" | tr ' /' '__').prof; \
		.data/profiles/bench --only "^$$scenario$$" --cpuprofile $$file >/dev/null || true; \
		echo "== $$scenario"; \
		go tool pprof -top -cum -nodecount=45 -focus='echo.*ServeHTTP|poll\.Loop|dispatcher|sandbox\.\(' .data/profiles/bench $$file; \
	done

# The runs of the two builds take turns, so that both meet the same weather. What misses a target does not end it.
bench-compare: ## measure this build beside another one, run by run (make bench-compare BASE=HEAD~1 RUNS=6 ARGS="--only wallet/create --load 3s")
	@test -n "$(BASE)" || { echo "BASE is missing: the revision to compare with" >&2; exit 1; }
	@rm -rf $(COMPARED) && git worktree prune && git worktree add -q --detach $(COMPARED)/base $(BASE)
	@cd $(COMPARED)/base && go build -o ../base.bin ./cmd/bench
	@go build -o $(COMPARED)/new.bin ./cmd/bench
	@for run in $$(seq $(or $(RUNS),6)); do \
		(cd $(COMPARED)/base && ../base.bin --stat --dir ../cluster $(ARGS) >>../base.txt) || true; \
		$(COMPARED)/new.bin --stat --dir $(COMPARED)/cluster $(ARGS) >>$(COMPARED)/new.txt || true; \
	done
	@$(BENCHSTAT) base=$(COMPARED)/base.txt new=$(COMPARED)/new.txt
	@git worktree remove --force $(COMPARED)/base

simulate: ## play a day of consultations on a simulated clock and write a report (make simulate ARGS="--consultations 5000 --lawyers 500 --pairs 6")
	@go run ./cmd/simulate $(ARGS)

# Code from the contracts. Run from the root of the project, so that go.mod decides the version of the generator.
generate: ## write out the webhooks of the contract, and generate gen/ from openapi/
	@go run ./openapi/webhooks
	@for cfg in openapi/*.cfg.yaml; do \
		api=$$(basename $$cfg | cut -d. -f1) part=$$(basename $$cfg | cut -d. -f2); \
		mkdir -p gen/$$api/$$part; \
		$(OAPI_CODEGEN) -config $$cfg openapi/$$api.yaml || exit 1; \
	done

# Fails when the committed code is not what the contracts generate, also when a generated file is new or left over.
verify-generated: generate ## check that gen/ is what the contracts generate
	@drift=$$(git status --porcelain --untracked-files=all -- gen openapi/partner.yaml go.mod go.sum); \
	if [ -n "$$drift" ]; then echo "generated files differ from the contracts:"; echo "$$drift"; exit 1; fi

# Checks with tools of the Node world. They need Node >= 20.19; the browser is Debian's chromium, or the one at CHROMIUM.
NODE_CHECKS := internal/dev/e2e/node

$(NODE_CHECKS)/node_modules: $(NODE_CHECKS)/package.json $(NODE_CHECKS)/package-lock.json
	npm ci --prefix $(NODE_CHECKS) --ignore-scripts --no-audit --no-fund
	@touch $@

lint: $(NODE_CHECKS)/node_modules ## check format, code and contracts
	@unformatted=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')); \
	if [ -n "$$unformatted" ]; then echo "gofmt -w these:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go mod verify
	npm run --silent --prefix $(NODE_CHECKS) lint

lint-go: ## look at the code with golangci-lint (.golangci.yml)
	$(GOLANGCI) run

# What partners have is openapi/released. Webhooks are judged as requests to us, so a field that they lose is not found here.
# released/accepted.txt has what may differ all the same: events about clients, which only an application meets that turned them on,
# and a list of values that became an open string.
breaking: ## check that the contracts break nothing that was released to partners
	@for released in openapi/released/*.yaml; do \
		echo "$$released"; $(OASDIFF) breaking --flatten-allof --fail-on WARN --err-ignore openapi/released/accepted.txt $$released openapi/$$(basename $$released) || exit 1; \
	done

release-contracts: breaking ## keep the contracts as what partners have from now on
	cp openapi/partner.yaml openapi/platform.yaml openapi/released/

release: ## build the commands for linux and darwin into bin/release, with bill of materials and checksums (RELEASE_KEY signs them)
	.ci/release

supply: ## check licences, the modules' checksums, and that two builds of a commit are the same
	go test -count=1 ./internal/dev/supply
	go mod verify
	.ci/release check partnerd

# promtool comes with Debian's package prometheus, which is unpacked here and not installed: installing it starts a service.
# Where it cannot be had, nothing is checked, and that is said.
PROMTOOL ?= $(or $(shell command -v promtool),$(CURDIR)/.data/tools/usr/bin/promtool)

alerts: ## check the alarms of .deploy, and that each is raised by what it is about
	@if [ ! -x $(PROMTOOL) ]; then mkdir -p .data/tools; cd .data/tools; \
		(apt-get download -q prometheus || { apt-get update -q && apt-get download -q prometheus; }) && dpkg -x prometheus_*.deb . && rm prometheus_*.deb; fi; \
	[ -x $(PROMTOOL) ] || { echo "NOT CHECKED: promtool cannot be had here"; exit 0; }; \
	cd $(CURDIR)/.deploy && $(PROMTOOL) check rules alerts.yaml && $(PROMTOOL) test rules alerts_test.yaml && $(PROMTOOL) check config --syntax-only prometheus.yaml

# From Python's index, into a folder of its own. Kinds that an operator brings (PodMonitor) have no schema there.
KUBERNETES_VALIDATE := .data/tools/kubernetes-validate

$(KUBERNETES_VALIDATE)/bin/kubernetes-validate:
	@mkdir -p $(KUBERNETES_VALIDATE) && python3 -m venv $(KUBERNETES_VALIDATE) && $(KUBERNETES_VALIDATE)/bin/pip install -q kubernetes-validate==1.37.0 || true

manifests: $(KUBERNETES_VALIDATE)/bin/kubernetes-validate ## check the manifests of .deploy for Kubernetes
	@[ -x $< ] || { echo "NOT CHECKED: kubernetes-validate cannot be had here"; exit 0; }; $< --strict .deploy/kubernetes.yaml

# The list of vulnerabilities is asked for over the network. Where it cannot be had, nothing is checked, and that is said.
vuln: ## look for known vulnerabilities in what the program calls
	@out=$$($(GOVULNCHECK) ./... 2>&1); status=$$?; echo "$$out"; \
	if echo "$$out" | grep -q 'fetching vulnerabilities'; then echo "NOT CHECKED: the list of vulnerabilities cannot be reached from here"; exit 0; fi; \
	exit $$status

sdk: build $(NODE_CHECKS)/node_modules ## check a stock OAuth client, and generated SDKs in every language, against the running program
	npm run --silent --prefix $(NODE_CHECKS) sdk

# Schemathesis, pinned with what it needs.
SCHEMATHESIS := internal/dev/e2e/schemathesis

$(SCHEMATHESIS)/.venv/ready: $(SCHEMATHESIS)/requirements.txt
	rm -rf $(@D)
	python3 -m venv $(@D)
	$(@D)/bin/pip install -q --require-hashes -r $<
	@touch $@

fuzz-contract: build $(NODE_CHECKS)/node_modules $(SCHEMATHESIS)/.venv/ready ## ask the running program what the contracts allow, and what they do not (FUZZ_SEED=$RANDOM FUZZ_EXAMPLES=1000 for more)
	npm run --silent --prefix $(NODE_CHECKS) fuzz-contract

browser: build $(NODE_CHECKS)/node_modules ## check the pages in a browser, by mouse and keyboard, and their accessibility
	npm run --silent --prefix $(NODE_CHECKS) browser

ci: ## everything that must hold before a change is taken
	.ci/run
