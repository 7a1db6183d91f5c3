// Package ratelimit decides how many requests a caller may make (specification section 8, decisions H27 and H28).
//
// Tables: rate_buckets.
// It owns the generic cell rate algorithm (rules.go), its state in this process or in a server that all processes share
// ([Limiter], [NewShared]) and in the database ([Take]), and what counts as one address ([Network]). Does not own: who
// is limited by what, which headers say so.
//
// A Limiter of one process costs nothing, counts requests a minute, and each replica counts for itself: N replicas
// allow up to N times the quota, and a restart forgets. It keeps so many buckets; above that it forgets one that is
// nearly full, so no stranger with many addresses resets a bucket that is used up. With a server of the kind of Valkey
// all replicas count together, exactly, for one round trip a request, however many buckets it touches. A quota is no
// reason to be down: while that server is away, or late three times in a row, each replica counts for itself as if
// there were none, asks it no more, and comes back when it answers. Nothing of the server need survive: what it forgets
// is at most a minute of requests. All buckets of a deployment are in one slot of a cluster.
//
// Take costs a transaction, all replicas count together, it fails when the database does, and the period may be long:
// it is for calls that are rare and cost us more than their answer, and for tries at a password. Its rows are kept
// until their bucket is full again and [Purge] comes by; a key that spells a person's address must be a digest of it.
package ratelimit
