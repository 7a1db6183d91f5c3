// Package sandbox simulates the lawyers, the telephony provider and the payment provider that a sandbox lacks.
//
// They are [Lawyers], [Calls] (the telephony provider, with everyone on the phone) and [Payments]. A live deployment
// starts none of them.
//
// Invariants:
//   - The simulation uses the real structure. Lawyers use the methods behind a lawyer's desk, calls are a
//     [telephony.Adapter], and payments send signed notices.
//   - Their next actions are stored only in the database, so a restart continues where the last run stopped.
//   - One process at a time simulates. If several do, the services decide which one comes first.
//
// The scenario chosen by the partner ([Scenarios]) decides how a consultation goes. Everything still happens in the
// regular way: each step is an action of a person.
//
// A [Script] decides how a call goes. By default ([DefaultPace]), the lawyer answers after 0.4 s and presses 1 after
// another 0.3 s. The client answers after 1.2 s and presses 1 after another 0.5 s. The lawyer hangs up after 4 s of
// conversation.
//
// A partner may have their own lawyers ([Crews]), who serve only their application. A partner who does not want to wait
// advances the [Clock] of their application.
//
// Tables: sandbox_call_steps, sandbox_choices, sandbox_clients, sandbox_lawyers, sandbox_messages, sandbox_payment_notices, sandbox_plays.
// The package contains no rule of the product.
package sandbox
