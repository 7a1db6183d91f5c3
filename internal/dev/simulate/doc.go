// Package simulate runs days of consultations in minutes, on a clock that moves from one event to the next. It uses the
// program's own services and its own Postgres. Clients, lawyers and phones are drawn from a seeded generator, so a run
// can be reproduced. Every figure of the plan is an assumption that [Plan] states.
//
// A lawyer's presence is written once, until the end of the shift, instead of every ten seconds. Phone events that
// change nothing are left out. Everything else is what the program does: creations with their money, searches after
// commit, offers, timers, sweeps, calls, notes.
//
// Each event is settled before the next begins, which means that the searches it requested have ended. So a run
// measures the rules, not the speed; package bench measures speed.
package simulate
