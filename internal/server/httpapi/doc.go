// Package httpapi serves the published contracts: the JSON handlers of /api, the OAuth endpoints and the contract
// documents.
//
// At start-up, document.go reads the rules of each request from the contract: scopes, parameters, bodies and
// idempotency. The program stops if an operation has no security decision. The middleware list in server.go defines the
// order in which errors are checked (trap T5). Handlers contain no rules: they decode a request, call one service and
// map the result.
//
// Every error, however deep, is converted to a response in problem.go.
package httpapi
