// Package reseal seals anew what older parts of the master key sealed, so that those parts can be removed.
//
// Owns nothing: each room lists its sealed columns ([Column]).
//
// Invariants:
//   - A value is replaced only while it is the one that was read, by one statement: what another process writes
//     meanwhile stays. What was deleted stays deleted.
//   - Work is done in batches, each in a transaction of its own. Whatever ends it, it goes on where values are left:
//     the key says which.
//   - What cannot be opened stays as it is and is told.
//   - Every column whose name says that it is sealed is listed, or exempt with a reason (a test).
//
// Does not do: what a client's key sealed, which is resealed with that key's envelope (package vault), and what lies
// outside tables: jobs of the queue end within a day, cookies are made anew.
package reseal
