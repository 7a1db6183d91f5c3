// Package desk is what a lawyer does at his desk: acts and reading of packages lawyer, consultation and note, for a
// session of package staff. It has no tables of its own.
//
// Invariants:
//   - Every act comes with the lease that the session carries, so a connection that was taken over changes nothing
//     ([ErrElsewhere]). Going on duty begins a lease and notes it in the session, in one transaction.
//   - The lawyer's own key, and the copies that it opens, are his without duty: what is taken opens elsewhere. The key
//     is changed after a sign-in that is no older than [staff.FreshSignIn], and told by mail.
//   - What concerns a client is in a [State] only while the session's connection is the present one, and only from the
//     offer until the consultation leaves the lawyer's hands. The client's number is nowhere.
//   - A stream ([Service.Follow]) sends whole states, not changes: its events are numbered by a digest of the state, so
//     whoever comes back with the last one misses nothing, whichever process answers.
//   - What changes is told by the process that committed it ([lawyer.Service.Watch]) to the streams of its own and, by
//     a [postgres.Channel], to those of other processes: one connection listens for all streams of a process. A word
//     that is lost costs a stream [streamLife] at most, because it ends then and the browser begins the next.
//   - An open stream is a heartbeat; one statement renews the leases of many. A desk that vanished without closing its
//     connection counts as there for [streamLife] at most, and is AWAY after the first offer that it misses.
//
// It does not sign people in (package staff), decide what may be done when (package consultation), or know HTTP.
package desk
