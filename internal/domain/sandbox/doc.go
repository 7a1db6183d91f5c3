// Package sandbox plays the people and the companies that a sandbox has none of: lawyers ([Lawyers]), the telephony
// provider with everybody on the phone ([Calls]), and the payment provider ([Payments]). A live deployment starts none
// of them.
//
// They are real in structure: the lawyers use the methods behind a lawyer's desk, the calls are a
// [telephony.Adapter], the payments post signed notices. What they are going to do is in the database and nowhere
// else, so a restart goes on where the last run stopped. One process at a time plays; should several do so, the
// services decide who comes first.
//
// How a consultation goes is the scenario that the partner chose ([Scenarios]), in which everything happens by the same
// ways: whatever is done is somebody's act. How a call goes is a [Script]: by default the lawyer answers after 0.4 s
// and presses 1 0.3 s later, the client after 1.2 s, and presses 1 half a second later; the lawyer hangs up after 4 s
// of talk ([DefaultPace]).
//
// A partner may have lawyers of his own ([Crews]), who serve his application alone.
//
// A partner who does not want to wait moves the [Clock] of his application forward.
//
// Tables: sandbox_call_steps, sandbox_choices, sandbox_clients, sandbox_lawyers, sandbox_messages, sandbox_payment_notices, sandbox_plays.
// It has no rule of the product.
package sandbox
