// Package telemetry is the one room that knows OpenTelemetry: traces and metrics leave the process by OTLP over HTTP,
// when an endpoint is set. Without one there is no [Telemetry] and no [Tracer]: their methods on nil do nothing and
// allocate nothing.
//
// What leaves is bounded in every way. Of a span, only the attributes of a list (keys.go) and no text of an error:
// identifiers, names and numbers of ours, and the providers that a deployment has set, nothing that people wrote. In
// number, [maxSpans] at one time: what more there is while the collector is slow or away is dropped, counted, and told
// of in the log once a minute. In time, the end of the process: [Telemetry.Close] waits as long as its context.
//
// Where a trace begins and ends:
//
//   - A request begins a trace of its own. What traceparent it brings is a link: a caller is not of this house, and
//     would otherwise decide what is recorded here, and write into the traces of others.
//   - What follows from it through the database (events, jobs, commands to the telephony) keeps its context in the row
//     ([Carry]) and goes on in the same trace ([Tracer.Resume]), in whatever process.
//   - What does so later than [Together], like the last retries of a webhook, and what somebody else or the passing of
//     time causes for the same consultation, begins a trace of its own with a link: a trace of days is one that no
//     collector samples or shows.
//
// It imports nothing of ours but the clock.
package telemetry
