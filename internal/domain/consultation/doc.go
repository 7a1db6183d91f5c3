// Package consultation starts consultations and moves them through their states, making each move with all its effects
// in one transaction (specification sections 2.7, 3 and 4.4).
//
// Tables: consultation_evidence, consultation_withdrawals, consultations, estimates, evidence_chain.
//
// Invariants of the state machine:
//   - The state machine is one table (state.go). Every move that is not in it is forbidden.
//   - Every move locks the row and checks the status again in the UPDATE. It includes its money, its webhook events in
//     order, and the timer of the next step, so that no move can forget one of them.
//   - A consultation exists with its hold and its evidence, or not at all. Money is held while it is open, captured
//     when it is completed, and released when it ends in any other way.
//   - Rules about time (rules.go) get the time as an argument. timer_at says when the machine has to check the
//     consultation again. A timer that fires late changes nothing that the time itself has decided.
//   - Locks are taken in the order consultation, lawyer, wallet. A search that starts from a lawyer skips locked
//     consultations.
//   - Subject, description and phone number are sealed with the client's key (package vault), and are in no log and no
//     event.
//
// Searching:
//   - A client is served one consultation at a time: while one is on offer, assigned or in call, the others wait. The
//     commit that frees the client starts a search for the next one.
//   - Every commit that makes a search useful starts one. It runs in the process that committed or, if that only serves
//     requests, in the leader, which is notified. The leader also sweeps, which finds whatever these searches miss.
//   - While no lawyer of the pair is present, lawyers are notified by email and text message of a callback that could
//     be made now ([matching.Service.Wake]). Lawyers within their hours are notified immediately, those on call from
//     four hours before the callback is due.
//
// Lawyers:
//   - Every action of a lawyer at the desk passes the lease of their connection ([lawyer.Lease]) and is decided under
//     the lawyer's row lock. An older connection is rejected with [lawyer.ErrLeaseLost] and changes nothing. Operators
//     need no lease.
//   - Work in hand stays with the lawyer as the rules say, whichever connection began it. After a new sign-in they can
//     accept an open offer, dial, withdraw, end the call, write the note and correct it.
//   - Losing presence costs a lawyer only an assigned consultation for which no call is being set up
//     ([lawyer.LeaseLost]).
//   - A suspended lawyer counts as lost immediately, whatever their heartbeats say. Their offer goes to others, and so
//     does an assigned consultation. If a call is being set up, the consultation stays, and goes to others if the call
//     fails.
//   - A suspension never cuts a running call. The lawyer finishes the call and its note ([Service.Finishes]), and can
//     correct no other note.
//   - No lawyer waits for a redial without agreeing to it. After an unanswered attempt they have a minute to choose,
//     then the consultation goes back. The consultation keeps its count of attempts (three in all) and is offered again
//     when the next attempt is due.
//
// Records that disagree:
//   - If a constraint rejects a move because records disagree, no one else is held up (quarantine.go). Each case is an
//     incident.
//   - A lawyer whom the records contradict is made AWAY, and the consultation is offered to others immediately.
//   - A leftover call on the client's line is ended when the client is about to be dialled or is joined on another
//     call.
//   - A contradiction that concerns no other record, such as a consultation with bad records of its own, ends the
//     offer. The lawyer keeps their place in the queue.
//
// Callbacks:
//   - A callback is offered and dialled only in the client's daytime (hours.go). callable_from and callable_until hold
//     these hours for the current day, or for the next one once they are over. A timer at their end sets the hours of
//     the next day.
//   - If no lawyer has a callback two hours before it is due, operators are notified once (email, log, metric).
//   - Operators can manually offer any waiting consultation to a lawyer. It is an offer and not an assignment, because
//     only the lawyer can check for a conflict of interest.
//   - The client is called on the number that was verified at creation, and on no other. If the client has no verified
//     number at the time of a call, no one is called. The consultation is closed, the money is released, and operators
//     get an incident. The lawyer is free, at the back of the queue.
//
// Missing notes:
//   - No money and no lawyer is held forever. The lawyer is reminded of a missing note by email after 1 and 12 hours.
//     After 24 hours it becomes an operator's case (log, metric, operators' page). The lawyer then goes from WRAP_UP to
//     AWAY, and comes back to work when they like.
//   - The note can complete the consultation until seven days after the call. After that, the consultation is closed
//     and the money released, with reason note_missing.
//
// Estimates:
//   - The estimated wait that a partner was given is stored with the consultation, if it begins within ten minutes. The
//     result is stored too: first_assigned_at, written once by the move that ends the wait, or an end without it.
//   - A later estimate for a pair replaces the previous one. No estimate is given for a consultation that has begun.
//
// States and moves, with the rows of the table; a test compares this diagram with the table:
//
//	stateDiagram-v2
//	    [*] --> DRAFT: X1 create
//	    DRAFT --> MATCHING: X2 authorize, HOLD
//	    MATCHING --> ASSIGNED: X3 accept
//	    MATCHING --> CANCELLED: X13 cancel, RELEASE
//	    MATCHING --> PENDING_CALLBACK: X4 search_over
//	    PENDING_CALLBACK --> ASSIGNED: X5 accept
//	    PENDING_CALLBACK --> EXPIRED: X14 callback_missed, RELEASE
//	    PENDING_CALLBACK --> CANCELLED: X13 cancel, RELEASE
//	    ASSIGNED --> IN_CALL: X6 bridge
//	    ASSIGNED --> MATCHING: X7 lawyer_lost
//	    ASSIGNED --> PENDING_CALLBACK: X8 lawyer_lost_late
//	    ASSIGNED --> EXPIRED: X9 client_unreached, RELEASE
//	    ASSIGNED --> EXPIRED: X9 phone_lost, RELEASE
//	    ASSIGNED --> CANCELLED: X13 cancel, RELEASE
//	    IN_CALL --> CALL_ENDED: X10 call_over
//	    CALL_ENDED --> COMPLETED: X11 submit_note, CAPTURE
//	    CALL_ENDED --> EXPIRED: X12 no_useful_call, RELEASE
//	    CALL_ENDED --> EXPIRED: X12 note_missing, RELEASE
//	    COMPLETED --> COMPLETED: X16 submit_note
//	    COMPLETED --> COMPLETED: X15 refund, REFUND
//
// Not in this package: choosing lawyers (package matching), telephony (package telephony), delivering events (package
// webhook), storing notes (package note), and HTTP, scopes and idempotency keys.
package consultation
