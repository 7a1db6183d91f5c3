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

// Partner is the OpenAPI 3.1 document of the Partner API, in YAML. Partners integrate it, requests are validated
// against it at run time, and the code in gen/partner is generated from it.
//
//go:embed partner.yaml
var Partner []byte

// Platform is the OpenAPI 3.1 document of the Platform API, in YAML: how applications manage their webhooks. It is
// enforced, and generates code, in the same way.
//
//go:embed platform.yaml
var Platform []byte

// Desk is the OpenAPI 3.1 document of the Desk API, in YAML: what a lawyer does while on duty. It is enforced, and
// generates code, in the same way, but is not a contract with partners.
//
//go:embed desk.yaml
var Desk []byte

// Sandbox is the OpenAPI 3.1 document of the Sandbox API, in YAML: how a partner simulates what is slow or rare. It is
// enforced, and generates code, in the same way. A live deployment neither serves nor shows it.
//
//go:embed sandbox.yaml
var Sandbox []byte

// Changelog lists the changes of the contracts for partners, in Markdown.
//
//go:embed CHANGELOG.md
var Changelog string

// The base URL in the contracts, and its description.
const (
	writtenBase   = "http://localhost:8080"
	writtenServer = "A local server. A running service publishes this contract with its own base URL."
)

// WithContact adds a contact to a contract, which is in YAML or as [JSON] returns it. The contact is a mailto: or
// https: URL; if it is empty, the contract is returned unchanged.
func WithContact(contract []byte, contact string) []byte {
	if contact == "" {
		return contract
	}
	key, value := "url", contact
	if address, ok := strings.CutPrefix(contact, "mailto:"); ok {
		key, value = "email", address
	}
	if contract[0] == '{' {
		quoted, _ := json.Marshal(map[string]string{key: value}) // strings always marshal
		return bytes.Replace(contract, []byte(`"info":{`),
			slices.Concat([]byte(`"info":{"contact":`), quoted, []byte{','}), 1)
	}
	return bytes.Replace(contract, []byte("\ninfo:\n"), []byte("\ninfo:\n  contact:\n    "+key+": '"+value+"'\n"), 1)
}

// Published returns the copy of a contract, in YAML or as [JSON] returns it, that the service at base publishes: its
// servers and examples use that URL.
func Published(contract []byte, base string) []byte {
	contract = bytes.ReplaceAll(contract, []byte(writtenBase), []byte(base))
	contract = bytes.ReplaceAll(contract, []byte(url.QueryEscape(writtenBase)), []byte(url.QueryEscape(base)))
	return bytes.ReplaceAll(contract, []byte(writtenServer), []byte("The service that publishes this contract."))
}
