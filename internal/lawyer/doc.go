// Package lawyer owns the lawyers: who they are, what they can serve, whether they are there, and what they are doing.
//
// Invariants:
//   - The lawyer's row is the mutex of everything that happens to him: whoever changes his state, offers him work or
//     takes work from him holds its lock. Locks are taken in the order consultation, lawyer, wallet; the one search
//     that begins at the lawyer takes the consultation with SKIP LOCKED.
//   - State changes are guarded: they name the states they may leave, and fail with [ErrState] otherwise.
//   - Presence is a lease, renewed by heartbeats: fresh for [PresenceFresh], lost after [LeaseLost]. Every new
//     connection raises the epoch of the lease; a beat of an older connection is refused with [ErrLeaseLost].
//   - A lawyer serves competence × language: his pairs are written when he is created.
//
// It does not search, offer or assign work (package matching), and it does not know consultations.
//
//	OFFLINE ── signs on ──▶ AVAILABLE ── offer ──▶ OFFERED ── accepts ──▶ BUSY ── call over ──▶ WRAP_UP ──▶ AVAILABLE
//	                            ▲  ▲──── declines, revoked ──┘ └── missed ──▶ AWAY ── back ──▶ AVAILABLE
package lawyer
