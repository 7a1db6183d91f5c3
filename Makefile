OAPI_CODEGEN := go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen

.PHONY: help build run demo test generate verify-generated lint browser sdk bench clean

help:
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## build the commands into bin/
	@mkdir -p bin
	go build -o bin/ ./cmd/partnerd ./cmd/democrm

run: build ## set everything up and run the whole service with sandbox data
	@exec bin/partnerd serve

demo: build ## play a partner's CRM against the running server, or one of its own
	@bin/democrm

test: ## set everything up and pass the tests
	go vet ./...
	@go test ./... ; status=$$? ; go run ./internal/dbtest/stop ; exit $$status

# Code from the contracts. Run from the root of the project, so that go.mod decides the version of the generator.
generate: ## generate gen/ from openapi/
	@mkdir -p gen/partner/models gen/partner/server gen/partner/client
	$(OAPI_CODEGEN) -config openapi/partner.models.cfg.yaml openapi/partner.yaml
	$(OAPI_CODEGEN) -config openapi/partner.server.cfg.yaml openapi/partner.yaml
	$(OAPI_CODEGEN) -config openapi/partner.client.cfg.yaml openapi/partner.yaml

# Fails when the committed code is not what the contracts generate, also when a generated file is new or left over.
verify-generated: generate ## check that gen/ is what the contracts generate
	@drift=$$(git status --porcelain --untracked-files=all -- gen go.mod go.sum); \
	if [ -n "$$drift" ]; then echo "generated files differ from the contracts:"; echo "$$drift"; exit 1; fi
