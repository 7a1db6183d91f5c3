// Package openapi holds the contracts as they are served and enforced.
package openapi

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
)

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

// Desk is the OpenAPI 3.1 document of the Desk API, in YAML: what a lawyer does while on duty. It is enforced and
// generated from in the same way, and no contract with partners.
//
//go:embed desk.yaml
var Desk []byte

// Sandbox is the OpenAPI 3.1 document of the Sandbox API, in YAML: how a partner plays what takes long or does not
// happen by itself. It is enforced and generated from in the same way; a live deployment neither serves nor shows it.
//
//go:embed sandbox.yaml
var Sandbox []byte

// Changelog is what changed in the contracts, in Markdown, for partners.
//
//go:embed CHANGELOG.md
var Changelog string

// The contracts are written with this base address, and say this of it.
const (
	writtenBase   = "http://localhost:8080"
	writtenServer = "A local server. A running service puts its own base URL here in the copy that it serves."
)

// WithContact is a contract, in YAML or as [JSON] returns it, that says whom to write to: a mailto: or https: URL, or
// nobody when it is empty.
func WithContact(contract []byte, contact string) []byte {
	if contact == "" {
		return contract
	}
	key, value := "url", contact
	if address, ok := strings.CutPrefix(contact, "mailto:"); ok {
		key, value = "email", address
	}
	if contract[0] == '{' {
		quoted, _ := json.Marshal(map[string]string{key: value}) // a text is never refused
		return bytes.Replace(contract, []byte(`"info":{`),
			slices.Concat([]byte(`"info":{"contact":`), quoted, []byte{','}), 1)
	}
	return bytes.Replace(contract, []byte("\ninfo:\n"), []byte("\ninfo:\n  contact:\n    "+key+": '"+value+"'\n"), 1)
}

// Published is the copy of a contract, in YAML or as [JSON] returns it, that the service at base shows: its servers and
// its examples name that address.
func Published(contract []byte, base string) []byte {
	contract = bytes.ReplaceAll(contract, []byte(writtenBase), []byte(base))
	contract = bytes.ReplaceAll(contract, []byte(url.QueryEscape(writtenBase)), []byte(url.QueryEscape(base)))
	return bytes.ReplaceAll(contract, []byte(writtenServer), []byte("The service that serves this copy."))
}
