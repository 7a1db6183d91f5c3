// Package payment lets clients put money into their wallet through a hosted checkout (specification section 2.4).
//
// Tables: payment_notices, payment_reversals, topup_refunds, topup_sessions.
// They hold the top-up sessions, their refunds, and the record of what payment providers told us.
//
// Invariants:
//
//   - a session is credited on the provider's signed notice and on nothing else, exactly once, with exactly the amount
//     that was agreed; a notice that does not fit is kept as an incident and moves no money;
//
//   - money that a provider took is always credited: also after the session expired or was cancelled, and also above
//     the wallet ceiling, which limits what a client is invited to pay, not what is owed to the client;
//
//   - the ceiling is checked against the balance when a session is made ([Service.Create]), and when the client is
//     about to pay ([Service.Begin]) also against what else is about to be paid: several checkouts paid at once do not
//     pass it together. Sessions that nobody has begun to pay do not count: most of them are abandoned.
//
//   - a payment to a client who is disabled or erased is credited, an incident, and on its way back to its source, in
//     one transaction. An erasure locks the client, and so does a credit: one of the two sees the other. A payment is
//     under way ([Service.UnderWay]) as long as a session may be paid, its money is on its way, or a refund has not
//     reached its source;
//
//   - what a provider takes back of a credited payment, by a dispute or a refund that we did not ask for, leaves the
//     wallet as an adjustment, never below zero, and comes back when the provider gives it back. It depends on what was
//     told and not on the order or number of notices; the session keeps what was taken and what the wallet did not
//     have. A wallet is asked when more is due than before, not again for the same, and gives for one payment, with our
//     refunds, at most its amount;
//
//   - no notice of a provider is dropped in silence: it is recorded with what came of it, as an incident where a person
//     has to look (log, metric partnerd_payment_incidents_total, /ops), or logged as of no concern. One of another
//     account or mode than that of our key is answered, logged and counted (partnerd_payment_notices_ignored_total),
//     and moves no money.
//
// A session is stored as OPEN, PAID or CANCELLED; EXPIRED is what an OPEN one is read as from its expiry on.
//
// Money is taken by a [Provider]: Stripe Checkout where its keys are configured, in a sandbox otherwise the built-in
// one, whose other side is package sandbox. No provider is called inside a transaction: its session is made when the
// client opens our checkout page, which leads on to it; unused top-ups go back to their source by rows that a worker
// sends.
//
// It shows no page: the checkout page is in package web. A live deployment without a provider refuses sessions as
// unavailable.
package payment
