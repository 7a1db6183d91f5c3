// Package access keeps the log that shows clients what each application used of their account: how often per day, and
// when last.
//
// Tables: access_counts.
//
// Invariants:
//   - Counting a use adds no query to its API call. The use is counted in memory; every [Interval], and when the
//     process ends, one statement adds the counts to the database.
//   - The log is therefore up to [Interval] late, and a crash loses the uses of that time. Consultations and money are
//     not counted here and are never lost.
//   - Processes add to the stored counts, so any number of processes count together.
//   - Counts that could not be written are kept and retried. They cannot grow for long: no API call succeeds while the
//     database is unavailable.
//   - Nothing is written about an erased client, even if the count was already being written.
//   - Days are UTC days. They are kept for 13 months.
//
// Out of scope: deciding what counts as a use (package httpapi), and consultations and money (packages consultation and
// wallet).
package access
