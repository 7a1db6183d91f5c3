OAPI_CODEGEN := go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen

.PHONY: generate verify-generated

# Code from the contracts. Run from the root of the project, so that go.mod decides the version of the generator.
generate:
	@mkdir -p gen/partner/models gen/partner/server gen/partner/client
	$(OAPI_CODEGEN) -config openapi/partner.models.cfg.yaml openapi/partner.yaml
	$(OAPI_CODEGEN) -config openapi/partner.server.cfg.yaml openapi/partner.yaml
	$(OAPI_CODEGEN) -config openapi/partner.client.cfg.yaml openapi/partner.yaml

# Fails when the committed code is not what the contracts generate, also when a generated file is new or left over.
verify-generated: generate
	@drift=$$(git status --porcelain --untracked-files=all -- gen go.mod go.sum); \
	if [ -n "$$drift" ]; then echo "generated files differ from the contracts:"; echo "$$drift"; exit 1; fi
