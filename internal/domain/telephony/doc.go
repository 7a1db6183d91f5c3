// Package telephony connects a lawyer and a client by phone: calls, the commands to a provider, and the meaning of its
// events.
//
// Tables: call_commands, call_events, calls.
//
// Invariants:
//   - The lawyer's leg is placed first. The client is rung only after the lawyer has pressed 1.
//   - The legs are joined only after both have pressed 1. An answering machine therefore never starts the paid call or
//     stands in for the lawyer. A lawyer's leg that is placed again asks again.
//   - A client is in one call at a time, and so is a consultation (unique indexes of calls).
//   - A command is a row, written in the transaction that decided it and carried out later, outside any transaction. It
//     may be carried out twice; the provider recognises repetitions by its ID.
//   - An event counts once, by its ID, and may arrive in any order. An event that no longer applies is ignored. An
//     event that implies another one which has not arrived yet stands for both.
//   - Joined time is computed from the times in the events.
//   - Phone numbers are looked up when a leg is placed. They are in no row and no log of this package.
//   - Nothing is recorded, because no provider here can record. Whether recording was allowed ([Start].Record) is
//     stored with the call.
//
// States of a call (rules.go):
//
//	LAWYER_RINGING ─▶ LAWYER_CONFIRMING ─▶ CLIENT_RINGING ─▶ CONFIRMING ─▶ BRIDGING ─▶ BRIDGED ⇄ LOST
//	       └──────────────────┴───────────────────┴────────────────┴────────────┴───────────┴───────┴──▶ ENDED
//
// The package does not know what a consultation does with an outcome, when to try again, or what a call costs. The
// caller holds the consultation's row lock in Place, Apply, Hangup and End, which serialises all changes of its call.
package telephony
