// Package ratelimit decides how many requests a caller may make (specification section 8, decisions H27 and H28).
//
// Tables: rate_buckets.
//
// It owns the generic cell rate algorithm (rules.go), and what counts as one address ([Network]). The algorithm's state
// is kept in this process or in a server shared by all processes ([Limiter], [NewShared]), and in the database
// ([Take]).
//
// Limiter, in one process:
//   - It costs nothing and counts requests per minute.
//   - Each replica counts separately: N replicas allow up to N times the limit, and a restart resets the buckets.
//   - The number of buckets is bounded. Above the bound, a bucket that is nearly full is forgotten, so a caller with
//     many addresses cannot reset an exhausted one.
//
// Limiter, with a server compatible with Valkey:
//   - All replicas count together, exactly, with one round trip per request, however many buckets it touches.
//   - A rate limit must not cause an outage. While the server is unavailable, or late three times in a row, each
//     replica counts separately and stops asking it. Each replica uses the server again once it responds.
//   - The server needs no persistence: at most a minute of requests is forgotten.
//   - All buckets of a deployment are in one slot of a cluster.
//
// Take:
//   - It costs a transaction, counts for all replicas together, and fails when the database does. Its period may be
//     long.
//   - It is for rare operations that cost us more than a response, and for password attempts.
//   - A row is kept until its bucket is full again and [Purge] runs. A key derived from a person's address must be a
//     digest of it.
//
// Out of scope: which callers have which limits, and which headers report them.
package ratelimit
