// Package conformance checks a partner's webhook endpoint: it posts events to accept and events to reject, and reports
// each result.
//
// It sees only the responses of an endpoint, not what the code behind it does. A duplicate answered with 2xx does not
// prove that it was processed only once.
//
// Tables: conformance_runs.
// It holds the last report for each application's endpoint.
//
// Not in this package: sending requests. The caller passes a [Poster]; package webhook sends by the rules of
// deliveries, a command directly.
package conformance
