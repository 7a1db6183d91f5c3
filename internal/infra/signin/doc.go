// Package signin ends what signs people in: sessions of browsers, and links that were sent by mail. Each kind of people
// has tables of its own; the package that owns them names its models ([Sessions], [Links]).
//
// Invariants:
//   - The tables have digests of the tokens, never the tokens.
//   - A link works once, also under parallel tries, and until it runs out or is ended. A link that has ended is no good
//     to a transaction that began before, and stays in the count of the hour.
//   - A session is ended by its token, or by its person.
//
// Does not do: opening a session, whom it signs in, and what an act rests on. Clients and staff differ there: only the
// sessions of staff have a second factor, an end without use, and the lease of a lawyer's duty. Nor the cookies of
// browsers that are known: one of a client's browser names several clients.
package signin
