// Package matching brings waiting work and lawyers together through offers, and tells how long the wait will be.
//
// Tables: lawyer_wakeups, offers.
// It reads and changes lawyers through package lawyer and in its own search statement, and never
// changes consultations: its caller holds the consultation's lock, or names one. Of consultations it reads whether a
// lawyer has one in hand.
//
// Invariants, each kept by a constraint of the schema and not only by code:
//   - A consultation has at most one open offer in each of the slots 1 to 3 (offers_open_consultation).
//   - A lawyer has at most one open offer (offers_open_lawyer).
//   - A client has open offers of one consultation only, so that one with many is served one at a time and does not
//     take all lawyers of a pair from others: none of his offers shares a slot with another (offers_open_client), and
//     of the offers of a consultation one is in slot 1. When that ends, another one moves up in the same transaction.
//
// A search asks one lawyer after the other. After three offers that came to nothing, or two minutes, it asks the three
// longest idle at once; the first acceptance takes the others' offers back in its transaction, and they are AVAILABLE
// where they were in the queue. Others are asked when all three have ended. What a lawyer finds who becomes free is
// offered to him alone.
//
// A search does not fail when it meets a lawyer whose records disagree (AVAILABLE with an open offer or with a
// consultation that is assigned or in call): he is put AWAY, an open offer of his becomes overdue, the caller is told,
// and the search goes on with the next one, so one bad row never blocks a pair. Whoever cannot accept what he was
// offered is put out of the way likewise ([Service.Quarantine]). Nothing is repaired by that: he comes back by signing
// on, at the back of the queue, and the first search that meets him puts him AWAY again if his records still disagree.
//
// Who is offered work: lawyers of the pair, AVAILABLE, with fresh presence, not suspended; the longest idle first, in
// the order of lawyer_pairs.idle_since. It is an instant to the microsecond, so two lawyers have the same one only if
// they were made AVAILABLE together (simulated ones, after a start); then the identifier decides, and no count of who
// was served least is kept for that: by the order alone the work of a pair is spread evenly. A lawyer who declined or
// withdrew is not offered the same consultation again, but for one who declined because they were busy: the callback
// that is promised after a search of 30 minutes may be theirs, [BusyFor] later at the earliest. One who missed it, or
// from whom it was taken, is offered it again [RepeatAfter] later at the earliest: he may be the only one there is.
//
// Who is woken for work while nobody of its pair is there ([Service.Wake]): lawyers in their hours, and for what is due
// soon also those on call; three at a time, each once for a consultation, after an hour again at the earliest, and
// three times a day at the most. Keys of the table hold that against several processes.
//
// The statements that a search repeats (that of an offer, IdlePairs) are meant for connections of
// [postgres.DB.ByIndex].
//
// An offer is open for [OfferTime]. Accepting is one conditional UPDATE under the lawyer's row: of an acceptance, an
// expiry and a revocation exactly one wins. Every offer keeps why it went to its lawyer and what was seen of the queue,
// and its answer ([Service.Story]). A missed offer puts the lawyer AWAY until he comes back himself. Declining costs
// his place in the queue, except for a conflict of interest, which is a duty and not a choice.
package matching
