// Package webhook notifies applications about their consultations by signed POST requests (specification section 6).
//
// Delivery is at least once. First attempts are in order.
//
// Tables: webhook_attempts, webhook_clients, webhook_deliveries, webhook_endpoints, webhook_events, webhook_notices.
// They hold events, deliveries, the log of attempts, and the endpoint of each application (URL, signing secret,
// health).
//
// Events:
//   - An event and its delivery commit with the transition that they report, or not at all ([Service.Emit]).
//   - The body of an event is written once and sent unchanged. The only exception: erasing the client removes the
//     application's externalRef ([Service.Erase]). IDs and status stay, and a redelivery sends them.
//   - The signature is created at each attempt, because endpoints reject timestamps older than 300 s (trap T9).
//   - X-Service-Delivery is the same for all attempts of a delivery. The signature covers only time and body, so
//     endpoints detect duplicates by the event ID in the body.
//   - An event about a client is written only for applications that have enabled its type. It contains the client's ID
//     and nothing else ([Service.Tell]).
//   - Events about a client are numbered per application and client, separately from consultations, under the lock of
//     webhook_clients. They do not wait for earlier ones, because each is complete in itself.
//
// Order:
//   - Event n+1 of a consultation is first attempted after event n was attempted once.
//   - A failed delivery does not hold back later events. X-Service-Sequence, which is not signed, shows the order.
//
// Fairness:
//   - Each process has at most Config.EndpointConcurrency attempts in progress per endpoint, so that a stalling
//     endpoint does not delay others.
//   - When more than half of all slots are in use, endpoints that keep stalling are limited to one attempt at a time.
//     They are then paused for 10 s to 2 min. Their deliveries wait and are not dropped.
//   - While several endpoints have events, the backlog of one gets a full share only every few milliseconds, so that
//     the others keep their latency. If no other endpoint has events, the backlog is sent as fast as its endpoint
//     responds.
//   - Each process keeps the counts of concurrency and stalls in memory. Losing them loses no event.
//   - The dispatcher's statements use indexes, whatever the statistics of the tables say.
//   - No database connection is held during a POST.
//
// Held deliveries:
//   - If an application has no URL, has a disabled endpoint or is suspended, its deliveries are held and never dropped.
//   - Nothing is written for this when an event happens or an endpoint closes. The dispatcher marks such deliveries
//     within Config.Poll, so that queries for due deliveries skip them. It unmarks them when the endpoint is open
//     again.
//   - Marked deliveries stay pending for counts and redeliveries.
//
// Leases:
//   - An attempt holds its delivery by a lease (Config.Lease). If a process dies, its deliveries are due again when the
//     lease ends.
//   - An attempt that outlives its lease cannot record its result.
//
// The event list ([Service.Events]) misses no event, although transactions do not commit in the order in which they
// began. An event gets its position when the list is first read past it, under the lock of the endpoint. It has then
// committed, so any event that becomes visible later gets a higher position.
//
// Other orders would not work. An order by time or sequence would miss events that commit late. An order by transaction
// ID would wait for any long transaction and would not survive a restore into another database.
//
// Redelivery and purge:
//   - A redelivery keeps the ID of its delivery, unless a new one is requested, and gets the whole schedule again. The
//     attempt number keeps counting; schedule_from says where the schedule restarted.
//   - [Service.Purge] removes ended events older than Config.Retention, in short transactions.
//
// Network:
//   - A URL is verified by a signed ping before it is used ([Service.ProveURL]).
//   - Every address is checked when it is dialled. With an egress proxy, the name is resolved and checked here, and the
//     proxy is asked for the IP address.
//   - A failure of that proxy says nothing about an endpoint. It uses up an attempt, but neither disables nor slows the
//     endpoint.
//
// The package does not decide which transition sends which events (package consultation), and knows neither HTTP APIs
// nor email. Package httpapi shows the log to partners, and a [Notifier] reports failures to them. README.md lists
// metrics and alarms.
package webhook
