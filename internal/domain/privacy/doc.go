// Package privacy serves a client's rights over personal data: a copy of everything (export) and erasure.
//
// It owns no tables. It calls each domain for its part, in one transaction.
//
// Export:
//   - It contains everything about the client, and everything written by or for the client.
//   - It never contains the lawyer's note, which no interface shows.
//
// Erasure deletes:
//   - The profile, all texts and every way to sign in.
//   - What partners chose: externalRef (also in webhook bodies), returnUrl, the responses of their endpoints, stored
//     responses and answers about waits.
//
// Erasure keeps:
//   - The ledger and the proof of each order, which the law requires, under the client's ID alone.
//   - The proof keeps only the SHA-256 of an Idempotency-Key. It also keeps the IP address and user agent of the
//     partner's server.
//
// Erasure by the client requires the current password. It is refused in these cases, all reported together ([Refused]):
//   - A consultation is open.
//   - Money is left, held, on its way, or part of an operator's proposal.
//   - An earlier email address can still take the account back.
//
// Does not do: retention periods, pages.
package privacy
