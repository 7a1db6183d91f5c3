// Package httpapi serves the published contract: the JSON handlers of /api/v1, the OAuth endpoints and the documents
// that go with them.
//
// What a request must satisfy is read from openapi/partner.yaml at start-up (document.go): scopes, parameters, bodies
// and idempotency. An operation without a security decision stops the program. The order in which faults are answered
// is the middleware list in server.go (trap T5); handlers hold no rules: they decode, call one service and map the
// result.
//
// Every error at any depth ends in problem.go.
package httpapi
