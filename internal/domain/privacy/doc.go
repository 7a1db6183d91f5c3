// Package privacy serves a client's rights over personal data: a copy of everything (export) and erasure.
//
// Owns nothing: it asks each domain for its part, in one transaction.
//
// Invariants:
//   - An export holds what is about the client or was written by or for the client, and never the lawyer's note, which
//     no interface shows.
//   - Erasure destroys the profile, what was written, and every way to sign in; it keeps the ledger and the proof of
//     each order, which the law asks for, under the client's identifier alone. What partners chose goes too:
//     externalRef, also in webhook bodies, their endpoints' answers, returnUrl, stored responses, answers about waits;
//     of an Idempotency-Key the proof has only the SHA-256, and it keeps address and user agent of the partner's
//     server. It needs the present password, and is refused while a consultation is open, money is left, held, on its
//     way or proposed by an operator, or an earlier e-mail address can take the account back. Everything that stands in
//     the way is told at once ([Refused]).
//
// Does not do: retention periods, the pages.
package privacy
