// Package payment lets clients put money into their wallet through a hosted checkout (specification section 2.4).
//
// It owns the top-up sessions and the record of what payment providers told us.
//
// Invariants:
//   - a session is credited on the provider's signed notice and on nothing else, exactly once, with exactly the amount
//     that was agreed; a notice that does not fit is kept as an incident and moves no money;
//   - money that a provider took is always credited: also after the session expired or was cancelled, and also above
//     the wallet ceiling, which limits what a client is invited to pay, not what is owed to the client;
//   - the ceiling is checked against the balance when a session is made ([Service.Create]), and when the client is about to
//     pay ([Service.Begin]) also against what else is about to be paid: several checkouts paid at once do not pass it
//     together. Sessions that nobody has begun to pay do not count: most of them are abandoned.
//
// A session is stored as OPEN, PAID or CANCELLED; EXPIRED is what an OPEN one is read as from its expiry on.
//
// Money is taken by a [Provider]: Stripe Checkout where its keys are configured, in a sandbox otherwise the built-in one,
// whose other side is package sandbox. No provider is called inside a transaction: its session is made when the client
// opens our checkout page, which leads on to it; unused top-ups go back to their source by rows that a worker sends.
//
// It shows no page: the checkout page is in package web. A live deployment without a provider refuses sessions as
// unavailable.
package payment
