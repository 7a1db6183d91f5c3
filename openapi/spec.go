// Package openapi holds the contracts as they are served and enforced.
package openapi

import _ "embed"

// Partner is the OpenAPI 3.1 document of the Partner API, in YAML: what partners integrate, what requests are
// validated against at run time, and what the code in gen/partner is generated from.
//
//go:embed partner.yaml
var Partner []byte

// Platform is the OpenAPI 3.1 document of the Platform API, in YAML: how applications look after their webhooks. It is
// enforced and generated from in the same way.
//
//go:embed platform.yaml
var Platform []byte
