// Package desk implements the lawyer's desk: actions and reads on packages lawyer, consultation and note, for a session
// of package staff. It has no tables.
//
// Invariants:
//   - Every action passes the lease that the session holds, so a connection that was taken over changes nothing
//     ([ErrElsewhere]). Going on duty starts a lease and stores it in the session, in one transaction.
//   - The lawyer's own key, and the copies that it opens, are available to a lawyer who is not on duty: a copy can be
//     opened only with that key. Changing the key requires a sign-in no older than [staff.FreshSignIn], and the change
//     is emailed.
//   - Data about a client is in a [State] only from the offer until the consultation leaves the lawyer, and only while
//     the session's connection is the current one. The client's number is never included.
//   - A stream ([Service.Follow]) sends complete states, not changes. Its events are numbered by a digest of the state.
//     A client that reconnects with the last number misses nothing, whichever process responds.
//   - The process that commits a change ([lawyer.Service.Watch]) notifies its own streams and, through a
//     [postgres.Channel], those of other processes. One connection per process listens for all its streams. A lost
//     notification delays a stream by at most [streamLife]: the stream then ends, and the browser opens a new one.
//   - An open stream is a heartbeat; one statement renews many leases. A desk that vanished without closing its
//     connection counts as present for at most [streamLife]. It becomes AWAY after the first offer that it misses.
//
// Not in this package: signing in (package staff), deciding what is allowed when (package consultation), and HTTP.
package desk
