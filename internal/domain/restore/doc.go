// Package restore prepares a database for use after a restore to an earlier point in time, before the program serves
// it.
//
// A restored database has lost data that partners, clients and providers have already seen.
//
// Tables: database_losses, database_marks.
// They record what a process found missing and how far each process saw the database advance ([Witness]). For all other
// data this package calls each domain, in one transaction; each client is erased in a transaction of its own.
//
// Invariants:
//   - Numbers that partners have seen are never reused. This covers the numbers of a consultation's events, of a
//     client's events and of positions in an application's event list. IDs are random and need no treatment.
//   - Everyone has to sign in again, because sessions that had ended may be back.
//   - No process serves or works on a database that Postgres was told to restore until it is settled ([Check]).
//   - A database that lacks acknowledged commits is reported by every process that saw them and by the next process to
//     start. It is reported as an error until [Settle] has run.
//   - Nothing else is reported as a loss: not a failover to a complete standby, a restart or a different database.
//   - [Settle] can be run again.
//
// [Settle] can compare with the lost database: the damaged one, or a restore to the last moment before the damage.
// Then:
//   - Connections that had ended end again.
//   - Connections that went on keep working with the tokens that partners hold.
//   - Clients who were erased are erased again.
//   - Anything that only people can decide is listed: consultations that are gone or will be repeated, payments missing
//     from every wallet, and manual actions.
//
// Does not do: the restore itself, which is done by Postgres, or merging data written after the restore point.
package restore
