// Package restore does what a database takes that was brought back to an earlier instant (point-in-time recovery),
// before the program serves on it: the world outside has seen what the database no longer knows.
//
// Tables: database_losses, database_marks.
// They say what a process found missing, and how far each saw the database come ([Witness]). Of everything else it asks
// each domain for its part, in one transaction, and each erasure in one of its own.
//
// Invariants:
//   - No number that partners were given is given again: of the events of a consultation, of those about a client, and
//     of the positions of an application's list of events. Identifiers are random and need nothing.
//   - Whoever was signed in signs in again: sessions that had been ended are among those that came back.
//   - With the lost database beside it (the damaged one, or one that was restored to the last instant before the
//     damage), links that had ended end again, links that went on go on with the tokens that partners hold, and who was
//     erased is erased again. What only people can decide is told: consultations that are gone or will be repeated,
//     payments that are in no wallet, acts by hand.
//   - No process serves, or works on, a database that Postgres was told to bring back, before it was settled ([Check]).
//   - A database that lacks what it acknowledged is noticed, by every process that saw it, and by the next one; that is
//     an error until [Settle] has dealt with it. Nothing else is: neither a switch to a standby that has everything,
//     nor a restart, nor another database.
//   - It can be repeated.
//
// Does not do: the restore itself, which is Postgres's, and no merging of what happened after the instant.
package restore
