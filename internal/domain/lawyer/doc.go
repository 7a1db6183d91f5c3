// Package lawyer owns the lawyers: who they are, what they can serve, whether they are there, and what they are doing.
//
// Tables: lawyer_hours, lawyer_pairs, lawyer_presence, lawyer_shifts, lawyers.
//
// Invariants:
//   - The lawyer's row is the mutex of everything that happens to him: whoever changes his state, offers him work or
//     takes work from him holds its lock. Locks are taken in the order consultation, lawyer, wallet; the one search
//     that begins at the lawyer takes the consultation with SKIP LOCKED.
//   - A lawyer has a phone number; nobody is AVAILABLE without one.
//   - State changes are guarded: they name the states they may leave, and fail with [ErrState] otherwise.
//   - Presence is a lease, renewed by heartbeats: fresh for [PresenceFresh], lost after [LeaseLost]. Every new
//     connection raises the epoch of the lease, and so does signing off; what an older connection says, a beat or an
//     act, is refused with [ErrLeaseLost]. An act decides that under the lawyer's row lock ([Service.Hold]), in its own
//     transaction. Whoever waits for work and loses the lease goes OFFLINE, and with that loses his place in the queue.
//     Heartbeats have a table of their own (lawyer_presence, a row while he is signed on): a beat locks nothing that a
//     search needs.
//   - A suspended lawyer is not AVAILABLE: what would make them so makes them OFFLINE. Their lease ends with the
//     suspension, and they cannot sign on. A lawyer with a call or a note in hand keeps the lease, stays BUSY or in
//     WRAP_UP until that is over, and may connect anew for it ([Service.TakeOver]).
//   - A lawyer serves competence × language: his pairs are written when he is created.
//   - The queue of a pair is lawyer_pairs.idle_since: that of the lawyer while he is AVAILABLE, null otherwise.
//     Whatever changes the state from or to AVAILABLE writes it in the same statement.
//   - A shift (lawyer_shifts) is a time in which he was on duty: neither OFFLINE nor AWAY. Whatever changes the state
//     from or to these writes it in the same statement. Shifts are kept for 13 months, for reports.
//   - In live a lawyer goes on duty only while his entry at the bar is checked ([Service.OnlyChecked]); who is on duty
//     when a check runs out stays there.
//   - His hours, in his time zone, and whether he is on call say when he may be woken ([Duty]), and nothing else.
//
// It does not search, offer or assign work (package matching), and it does not know consultations.
//
//	OFFLINE ── signs on ──▶ AVAILABLE ── offer ──▶ OFFERED ── accepts ──▶ BUSY ── call over ──▶ WRAP_UP ──▶ AVAILABLE
//	                            ▲  ▲──── declines, revoked ──┘ └── missed ──▶ AWAY ── back ──▶ AVAILABLE
package lawyer
