// Package simulate plays days of consultations in minutes: the program's own services, on a Postgres of its own, by a
// clock that the simulation moves from one event to the next. Clients, lawyers and phones are drawn from a seeded
// generator, so that a run can be repeated; every figure of the plan is an assumption that [Plan] states.
//
// A lawyer's presence is written once, until the end of the shift, instead of every ten seconds; the events of a phone
// call that change nothing are left out. Everything else is what the program does: creations with their money, searches
// after commit, offers, timers, sweeps, calls, notes.
//
// Each event is settled before the next: the searches that it asked for have ended. So a run measures the rules, not
// the speed; that is what package bench is for.
package simulate
