// Package access keeps the log, for the client's eyes, of what each application used of the account: how often on a
// day, and when last.
//
// Tables: access_counts.
//
// Invariants:
//   - A use costs the call that it counts no query: it is counted in memory, and every [Interval] one statement adds
//     what was counted to the database; the end of the process does so too. So the log is up to [Interval] late, and a
//     crash loses the uses of that time. What was started and spent is not counted here and is never lost.
//   - Processes add to what is there, so any number of them count together.
//   - What could not be written stays counted and is tried again. It cannot grow for long: no call is answered while
//     the database is away.
//   - Nothing is written about a client who is erased, also not by a count that was on its way.
//   - Days are days in UTC. They are kept for 13 months.
//
// Does not do: deciding what counts as a use of what (package httpapi), consultations and money (packages consultation
// and wallet).
package access
