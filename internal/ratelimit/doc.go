// Package ratelimit decides how many requests a caller may make (specification section 8, decisions H27 and H28).
//
// Tables: rate_buckets.
// It owns the generic cell rate algorithm (rules.go), its state in this process ([Limiter], bounded) and in the database
// ([Take]), and what counts as one address ([Network]). Does not own: who is limited by what, which headers say so.
//
// A Limiter costs nothing, counts requests a minute, and each replica counts for itself: N replicas allow up to N times the
// quota, and a restart forgets. Take costs a transaction, all replicas count together, and the period may be long: it is for
// calls that are rare and cost us more than their answer, and for tries at a password. Its rows are kept until their bucket
// is full again and [Purge] comes by; a key that spells a person's address must be a digest of it.
package ratelimit
