// Package ratelimit decides how many requests a caller may make (specification section 8, decisions H27 and H28).
//
// Owns: the generic cell rate algorithm (rules.go), its state in this process ([Limiter], bounded) and in the database
// ([Take]), and what counts as one address ([Network]). Does not own: who is limited by what, which headers say so.
//
// A Limiter costs nothing, and each replica counts for itself: N replicas allow up to N times the quota. Take costs a
// transaction, and all replicas count together: it is for calls that are rare and cost us more than their answer. Its rows
// are kept, so its keys must be few, for instance one for each application.
package ratelimit
