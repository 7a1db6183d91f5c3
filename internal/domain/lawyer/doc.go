// Package lawyer owns the lawyers: who they are, what they can serve, whether they are present, and what they are
// doing.
//
// Tables: lawyer_hours, lawyer_pairs, lawyer_presence, lawyer_shifts, lawyers.
//
// Invariants:
//   - The lawyer's row is the mutex for the lawyer. Changing the state, offering work or taking work away requires its
//     lock.
//   - Locks are taken in the order consultation, lawyer, wallet. The one search that starts from a lawyer locks the
//     consultation with SKIP LOCKED.
//   - A lawyer is never AVAILABLE without a phone number.
//   - State changes are guarded: they name the states from which they are allowed, and fail with [ErrState] from any
//     other.
//   - Presence is a lease, renewed by heartbeats. It is fresh for [PresenceFresh] and lost after [LeaseLost].
//   - Every new connection raises the epoch of the lease, and so does signing off. A heartbeat or an action with an
//     older epoch is rejected with [ErrLeaseLost]. An action checks this in its own transaction, under the lawyer's row
//     lock ([Service.Hold]).
//   - A lawyer who waits for work and loses the lease goes OFFLINE, and so loses the place in the queue.
//   - Heartbeats have their own table (lawyer_presence, one row while the lawyer is signed on), so that they lock
//     nothing that a search needs.
//   - A suspended lawyer is never AVAILABLE: changes to AVAILABLE make them OFFLINE. The suspension ends their lease,
//     and they cannot sign on.
//   - A suspended lawyer with a call or a note in hand keeps the lease and stays BUSY or in WRAP_UP until that is over.
//     They may connect again to finish it ([Service.TakeOver]).
//   - A lawyer serves every pair of their competences and languages. The pairs are written when the lawyer is created,
//     and replaced by [Service.SetSkills].
//   - The queue of a pair is lawyer_pairs.idle_since: the lawyer's idle_since while AVAILABLE, otherwise null. Every
//     change to or from AVAILABLE writes it in the same statement.
//   - A shift (lawyer_shifts) is a period on duty, in which the lawyer is neither OFFLINE nor AWAY. Every change to or
//     from these states writes it in the same statement. Shifts are kept for 13 months, for reports.
//   - In a live deployment, a lawyer can go on duty only while the check of their bar registration is valid
//     ([Service.OnlyChecked]). A lawyer already on duty stays there when the check expires.
//   - The lawyer's hours, in their time zone, and being on call decide only when they may be woken ([Duty]).
//
// Package matching searches for, offers and assigns work. This package knows nothing about consultations.
//
//	OFFLINE ── signs on ──▶ AVAILABLE ── offer ──▶ OFFERED ── accepts ──▶ BUSY ── call over ──▶ WRAP_UP ──▶ AVAILABLE
//	                            ▲  ▲──── declines, revoked ──┘ └── missed ──▶ AWAY ── back ──▶ AVAILABLE
package lawyer
