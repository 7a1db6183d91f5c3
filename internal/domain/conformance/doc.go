// Package conformance examines a partner's receiver of webhooks: it posts what has to be taken and what has to be
// refused, and says of each what came back.
//
// It sees what a receiver answers, not what it does: that a duplicate was answered with 2xx does not prove that it was
// not booked twice.
//
// Tables: conformance_runs.
// It holds the last examination of each application's endpoint.
//
// Does not do: posting (the caller does: package webhook by the rules of deliveries, a command directly).
package conformance
