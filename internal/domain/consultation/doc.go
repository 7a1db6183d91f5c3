// Package consultation is the summit of the domain: it starts consultations, moves them through their states, and
// makes everything that belongs to a move happen in one transaction (specification sections 2.7, 3 and 4.4).
//
// Tables: consultation_evidence, consultation_withdrawals, consultations, estimates, evidence_chain.
//
// Invariants:
//   - The state machine is one table (state.go). What is not in it is forbidden. Every move locks the row, is guarded
//     again by the status in the UPDATE, and carries with it its money, its webhook events in their order, and the
//     timer of what comes next: no move can forget one of them.
//   - A consultation exists with its hold and its evidence or not at all. Money is held while it is open, captured
//     when it is completed, released when it ends in any other way.
//   - Time decides by rules (rules.go) that get the time as an argument. timer_at says when the machine must look
//     again; a timer that fires late changes nothing that was decided by the time itself.
//   - A client is served one at a time: while one of his consultations is on offer, assigned or in call, the others
//     wait. The commit that frees him has a lawyer sought for the next one.
//   - A lawyer is sought after every commit that makes it useful: by the process that committed, or when that only
//     serves, by the one that leads, which is told. That one sweeps, and finds whatever this misses.
//   - Everything a lawyer does at his desk comes with the lease of his connection ([lawyer.Lease]) and is decided under
//     his row lock: an older connection is refused with [lawyer.ErrLeaseLost] and changes nothing. What he had in hand
//     stays his as the rules say, whichever connection began it: after a new sign-in he accepts an offer that is still
//     open, dials, withdraws, ends the call, writes the note and corrects it. What he loses with his presence is an
//     assigned consultation for which no call is being set up ([lawyer.LeaseLost]). Operators need no lease.
//   - A lawyer whom an operator suspends is lost at once, whatever his heartbeats said: an offer goes to others, and so
//     does an assigned consultation, unless a call is being set up; if that fails, it goes then. A call that runs is
//     not cut: the lawyer finishes the call and its note ([Service.Finishes]), and corrects no other note.
//   - A constraint that refuses a move because records disagree stops nobody else (quarantine.go): the lawyer whom they
//     contradict is put AWAY and the consultation is offered to others at once; what is left of a call on the client's
//     line is ended when he is to be dialled or is joined on another. Each is an incident. Contradictions that name
//     nobody else, such as a consultation whose own records are bad, end the offer and leave the lawyer his place.
//   - Locks are taken in the order consultation, lawyer, wallet. The search that starts at a lawyer skips
//     consultations that are locked.
//   - A callback is offered and dialled by the client's day only (hours.go). callable_from and callable_until hold the
//     hours of the day that has not ended; their end is a timer, which sets those of the next day.
//   - Nobody's money and nobody's lawyer is held for ever. A note that does not come is reminded of after 1 and 12
//     hours (mail to the lawyer) and 24 hours (an operator's case: the log, a metric, the operators' page); then its
//     lawyer goes from WRAP_UP to AWAY, and comes back to work when he likes. The note completes the consultation until
//     seven days after the call; at that moment it is closed with the money back, reason note_missing.
//   - While nobody of its pair is there, lawyers are told by mail and text message of a callback that could be made now
//     ([matching.Service.Wake]): those in their hours at once, those on call from four hours before it is due.
//   - Two hours before a callback is due that nobody has, operators are told once (mail, log, metric). They may offer
//     any waiting consultation to a lawyer by hand: it is an offer and no assignment, because only he can look for a
//     conflict of interest.
//   - No lawyer waits for a redial who did not say so: after an unanswered attempt he has a minute to choose, then the
//     consultation goes back. It keeps its attempts, three in all, and is offered again when the next is due.
//   - The client is called on the number that was verified at the creation, and on no other. When the client has no
//     verified number any more at the time of a call, nobody is called: the consultation is closed with the money back,
//     an operator sees it as an incident, and the lawyer is free, at the back of the queue.
//   - What a partner is told about the wait is kept with the consultation that begins within ten minutes, and with it
//     what came: first_assigned_at, written once by the move that ends the wait, or an end without it. A later answer
//     about a pair replaces the one before; nothing is told about a consultation that has begun.
//   - Subject, description and phone number are sealed by the client's key (package vault), and are in no log and no
//     event.
//
// States and moves, with the rows of the table; a test compares this picture with the table:
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
// It does not choose lawyers (package matching), talk to telephony (package telephony), deliver events (package
// webhook) or keep notes (package note), and it knows nothing of HTTP, scopes or idempotency keys.
package consultation
