// Package matching brings waiting consultations and lawyers together through offers, and estimates the wait.
//
// Tables: lawyer_wakeups, offers.
//
// It reads and changes lawyers through package lawyer and in its own search statement. It never changes consultations:
// its caller holds the consultation's lock, or names one. The only thing it reads about consultations is whether a
// lawyer has one in hand.
//
// Invariants, each enforced by a constraint of the schema and not only by code:
//   - A consultation has at most one open offer in each of the slots 1 to 3 (offers_open_consultation).
//   - A lawyer has at most one open offer (offers_open_lawyer).
//   - A client has open offers for only one consultation. A client with many consultations is served one at a time, and
//     does not occupy all lawyers of a pair.
//   - A client's offers never share a slot (offers_open_client). One of a consultation's open offers is always in slot
//     1: when it ends, another moves up in the same transaction.
//
// Search:
//   - A search asks one lawyer after another, beginning with the one who has been idle longest.
//   - After three failed offers or two minutes, it asks the three lawyers who have been idle longest at the same time.
//     The first acceptance revokes the other offers in its transaction. The lawyers who had them become AVAILABLE
//     again, at their old places in the queue.
//   - Other lawyers are asked only when all three offers have ended.
//   - Work found for a lawyer who becomes free is offered to that lawyer alone.
//
// Lawyers whose records disagree (AVAILABLE with an open offer, or with an assigned or running consultation):
//   - A search that meets such a lawyer does not fail, so one bad row never blocks a pair. It makes the lawyer AWAY and
//     their open offer overdue, tells the caller, and goes on with the next lawyer.
//   - A lawyer whose acceptance the records reject is quarantined in the same way ([Service.Quarantine]).
//   - Quarantine repairs nothing. The lawyer comes back by signing on, at the back of the queue. If their records still
//     disagree, the next search that meets them makes them AWAY again.
//
// Who is offered work:
//   - Offers go to lawyers of the pair who are AVAILABLE, with fresh presence and not suspended. The order is that of
//     lawyer_pairs.idle_since, which alone spreads the work of a pair evenly.
//   - Its resolution is a microsecond. Two lawyers have the same value only if they became AVAILABLE together, as
//     simulated lawyers do after a start. In that case the ID decides.
//   - A lawyer who declined or withdrew is not offered the same consultation again, except after declining because they
//     were busy. They may be offered it again after [BusyFor] at the earliest, as the callback promised after a search
//     of 30 minutes.
//   - A lawyer who missed the offer, or from whom the consultation was taken, is offered it again after [RepeatAfter]
//     at the earliest: they may be the only lawyer there is.
//
// Who is woken while no lawyer of a pair is present ([Service.Wake]):
//   - Lawyers within their hours are woken. For callbacks due soon, lawyers on call are woken too.
//   - At most three are woken at a time. A lawyer is woken at most once per consultation, once per hour and three times
//     per day. Keys of the table enforce this across processes.
//
// The search statements that run often (making an offer, IdlePairs) are meant for connections of [postgres.DB.ByIndex].
//
// Offers:
//   - An offer is open for [OfferTime].
//   - An offer is accepted by one conditional UPDATE under the lawyer's row lock. If an acceptance, an expiry and a
//     revocation race, exactly one succeeds.
//   - Every offer stores why it went to its lawyer, what was seen of the queue, and its answer ([Service.Story]).
//   - A missed offer makes the lawyer AWAY until they come back themselves.
//   - Declining costs the lawyer their place in the queue, except for a conflict of interest, which is a duty and not a
//     choice.
package matching
