// Package webhook tells applications about their consultations: signed POSTs, at least once, in order of first
// attempts (specification section 6).
//
// Tables: webhook_attempts, webhook_clients, webhook_deliveries, webhook_endpoints, webhook_events, webhook_notices.
// They hold events, deliveries, the log of attempts, and the endpoint of each application (URL, signing secret,
// health).
//
// Invariants:
//   - An event and its delivery commit with the transition that they report, or not at all ([Service.Emit]).
//   - The body of an event is written once and sent unchanged for ever, but that an erasure of the client takes the
//     application's externalRef out of it ([Service.Erase]); identifiers and status stay, and a redelivery sends those.
//     The signature is made at each attempt, because receivers refuse timestamps older than 300 s (trap T9).
//   - X-Service-Delivery names a delivery through all its attempts. The signature covers time and body alone, so
//     receivers know duplicates by the identifier of the event, which is in the body.
//   - An event about a client is written for an application that has its type turned on, and says who the client is and
//     nothing else ([Service.Tell]). These are counted by application and client, apart from consultations, under the
//     lock of webhook_clients; none waits for an earlier one, because each says everything that it has to say.
//   - Event n+1 of a consultation is first attempted after event n was attempted once. A delivery that failed holds
//     nothing back: later events pass it, and X-Service-Sequence, which is not signed, hints at the order.
//   - One endpoint has at most Config.EndpointConcurrency attempts under way in each process, so that an endpoint that
//     stalls harms nobody else. When more than half of all slots are taken, endpoints that keep stalling are reduced to
//     one attempt at a time and then paused for 10 s to 2 min; their deliveries wait and are not dropped.
//   - While several endpoints have events, the backlog of one moves at most a whole share every few milliseconds, so
//     that the others keep their latency; alone, it moves as fast as its endpoint answers.
//   - The statements of the dispatcher look up what they need by index, whatever the statistics of the tables say.
//   - Deliveries of an application without URL, with a disabled endpoint, or suspended, are held and never dropped.
//     Nothing is written for that when an event happens or an endpoint is closed: the dispatcher marks them within
//     Config.Poll, so that looking for due ones costs nothing for those that are held, and takes the marks away when
//     the endpoint is open again. What is marked stays pending for whatever counts or sends again.
//   - No database connection is held during a POST.
//
// An attempt holds its delivery by a lease (Config.Lease): a process that dies leaves deliveries that are due again
// when the lease ends, and an attempt that outlived its lease cannot record its result. The counts of concurrency and
// stalls live in the memory of each process; losing them loses no event.
//
// The event list ([Service.Events]) misses nothing, though transactions commit in another order than they began: an
// event gets its position in the list of its application not when it is written but when the list is first read past
// it, under the lock of the endpoint. At that moment it has committed, so whatever becomes visible later gets a higher
// position. (An order by time or by a sequence would lose events that commit late; one by transaction identifier would
// stand still behind any long transaction and would not survive a restore into another database.)
//
// A redelivery keeps the identifier of its delivery, unless a new one is asked for, and has the whole schedule before
// it: attempts go on counting, and schedule_from says where the schedule began anew. [Service.Purge] removes what has
// ended and is older than Config.Retention, in short transactions. A URL is proven by a signed ping before it is used
// ([Service.ProveURL]).
//
// Every address is judged when it is dialled. Through an egress proxy, the name is resolved and judged here and the
// proxy is asked for the address by number. What that proxy does wrong says nothing about an endpoint: it takes an
// attempt of the delivery, and disables and slows nothing.
//
// It does not decide which transition sends which events (package consultation), and does not know HTTP APIs or mail:
// package httpapi shows the log to partners, and a [Notifier] tells them what fails. README.md has the metrics and
// alarms.
package webhook
