// Package reseal reseals what older parts of the master key sealed, so that those parts can be removed.
//
// It owns nothing: each package lists its sealed columns ([Column]).
//
// Invariants:
//   - One statement replaces a value only if it is unchanged since it was read. Concurrent writes are kept, and deleted
//     rows stay deleted.
//   - Work is done in batches, each in its own transaction. After an interruption it continues with the remaining
//     values: the key of a value shows whether it is done.
//   - Values that cannot be opened are left unchanged and reported.
//   - Every column whose name says that it is sealed is listed, or exempt with a reason (a test checks this).
//
// Out of scope: data sealed by a client's key, which is covered by resealing that key's envelope (package vault). Also
// data outside tables: jobs of the queue end within a day, and cookies are issued again.
package reseal
