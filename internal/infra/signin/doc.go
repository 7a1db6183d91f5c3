// Package signin ends browser sessions and emailed links. Each kind of people has its own tables; the package that owns
// them names its models ([Sessions], [Links]).
//
// Invariants:
//   - The tables contain digests of the tokens, never the tokens.
//   - A link works once, even under concurrent attempts, and only until it expires or is ended.
//   - An ended link is invalid even for a transaction that began earlier. It still counts towards the hourly limit.
//   - A session is ended through its token, or by its person.
//
// Out of scope: opening a session, whom it signs in, and the premises of an action. These differ between clients and
// staff. Only staff sessions have a second factor, an idle timeout and the lease of a lawyer's duty. Also out of scope:
// the cookies of known browsers, because one browser's cookie may name several clients.
package signin
