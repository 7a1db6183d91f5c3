// Package conformance checks a partner's webhook endpoint: it posts events to accept and events to reject, and reports
// each result.
//
// It sees only an endpoint's responses, not what the code behind it does. A 2xx response to a duplicate does not prove
// that the event was processed only once.
//
// Tables: conformance_runs.
// It holds the last report for each application's endpoint.
//
// Not in this package: sending requests. The caller passes a [Poster]; package webhook sends by the rules of
// deliveries, and a command sends directly.
package conformance
