// Package telephony brings a lawyer and a client together on the phone: calls, the commands that a provider is given,
// and what its events mean.
//
// Tables: call_commands, call_events, calls.
//
// Invariants:
//   - The lawyer's leg first, then the client's, who is not rung before the lawyer has pressed 1. Nobody is joined
//     before both have, so an answering machine never starts the paid call, nor takes the lawyer's part in it. A
//     lawyer's leg that is placed again asks again.
//   - One client is on one call at a time, and one consultation has one call at a time (unique indexes of calls).
//   - A command is a row, written in the transaction that decided it and carried out later, outside any transaction.
//     It may be carried out twice; the provider tells repetitions by its id.
//   - An event counts once, by its id, and may come in any order: what fits no more is ignored, what implies an event
//     that is still under way is taken as that, and joined time is computed from the instants in the events.
//   - Phone numbers are asked for when a leg is placed, and are in no row and no log of this package.
//   - Nothing is recorded: no provider here can. Whether it was allowed ([Start].Record) is kept with the call.
//
// States of a call (rules.go):
//
//	LAWYER_RINGING ─▶ LAWYER_CONFIRMING ─▶ CLIENT_RINGING ─▶ CONFIRMING ─▶ BRIDGING ─▶ BRIDGED ⇄ LOST
//	       └──────────────────┴───────────────────┴────────────────┴────────────┴───────────┴───────┴──▶ ENDED
//
// It does not know what a consultation does with an outcome, when to try again, or what a call costs. The caller holds
// the consultation's row lock in Place, Apply, Hangup and End, which orders everything that happens to its call.
package telephony
