// Package telemetry is the only package that knows OpenTelemetry. If an endpoint is set, it exports traces and metrics
// by OTLP over HTTP. Without an endpoint there is no [Telemetry] and no [Tracer]: their methods on nil do nothing and
// allocate nothing.
//
// What is exported is limited:
//
//   - Content: a span has only the attributes listed in keys.go, and no error text. These are our own IDs, names and
//     numbers, and the deployment's providers. Nothing that people wrote is exported.
//   - Number: at most [maxSpans] at a time. While the collector is slow or unavailable, further spans are dropped,
//     counted, and logged once a minute.
//   - Time: when the process ends, [Telemetry.Close] waits only as long as its context.
//
// Where a trace begins and ends:
//
//   - A request begins its own trace. Its traceparent header becomes a link: an external caller must not decide what is
//     recorded here, nor write into other callers' traces.
//   - Work that follows from it through the database (events, jobs, telephony commands) stores its context in the row
//     ([Carry]). Any process continues it in the same trace ([Tracer.Resume]).
//   - Work that follows later than [Together], such as the last retries of a webhook, begins its own trace with a link.
//     So does work that another person or the passing of time causes for the same consultation. No collector samples or
//     displays a trace that lasts for days.
//
// It imports none of our packages except clock.
package telemetry
