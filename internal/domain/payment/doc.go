// Package payment lets clients top up their wallet through a hosted checkout (specification section 2.4).
//
// Tables: payment_notices, payment_reversals, topup_refunds, topup_sessions.
// They hold the top-up sessions, their refunds and the webhooks of payment providers, called notices.
//
// Crediting:
//   - A session is credited only on the provider's signed notice, exactly once, with exactly the agreed amount. A
//     notice that does not match is recorded as an incident and moves no money.
//   - Money taken by a provider is always credited, even after the session expired or was cancelled.
//   - It is credited even if the wallet then exceeds its ceiling. The ceiling limits what a client is asked to pay, not
//     what is owed to them.
//   - A payment to a disabled or erased client is credited, recorded as an incident and queued for refund, in one
//     transaction. Erasing and crediting both lock the client, so whichever comes second sees the other.
//
// Ceiling:
//   - [Service.Create] checks it against the balance.
//   - [Service.Begin] also counts all other sessions about to be paid, so several checkouts paid at the same time
//     cannot exceed it together.
//   - Sessions that no one has begun to pay do not count, because most of them are abandoned.
//
// A payment is under way ([Service.UnderWay]) while a session may be paid or its money is on its way. It is also under
// way until a refund reaches its source.
//
// Reversals are disputes, and refunds that we did not request:
//   - Money reversed by the provider leaves the wallet as an adjustment, never below zero. It returns when the provider
//     gives it back.
//   - The result depends on the content of the notices, not on their order or number.
//   - The session records how much was taken and how much the wallet did not have.
//   - Money is taken from a wallet only when the amount due grows, not again for the same amount. Reversals and our
//     refunds of one payment together take at most its amount.
//
// Notices:
//   - Every notice is recorded with its outcome, or logged as irrelevant.
//   - If someone has to review it, it is an incident (log, metric partnerd_payment_incidents_total, /ops).
//   - A notice from an account or mode other than our key's is acknowledged, logged and counted
//     (partnerd_payment_notices_ignored_total). It moves no money.
//
// A session is stored as OPEN, PAID or CANCELLED. An OPEN session is read as EXPIRED from its expiry on.
//
// A [Provider] takes the money. It is Stripe Checkout if its keys are configured, otherwise in a sandbox the built-in
// provider, whose other side is package sandbox. A live deployment without a provider rejects sessions as unavailable.
//
// No provider is called inside a transaction. Its session is created when the client opens our checkout page, which
// leads to it. Refunds of unused top-ups are stored as rows, which a worker sends.
//
// The checkout page is in package web.
package payment
