// Package idempotency gives repeated requests one effect and one response (specification section 4.5, traps T5 and T6).
// It handles requests with an Idempotency-Key, and page forms, whose hidden token is such a key.
//
// Tables: idempotency_keys.
//
// It owns the keys, their requests and their responses. A key belongs to one application, one client and one operation,
// and is kept for [Retention]. The key of a form belongs to no application; a person's session, or a client, takes the
// place of the client.
//
// Invariants:
//   - Claiming a key, the effect and storing the response commit in one transaction: a crash leaves all or nothing.
//   - If several requests with one key run concurrently, only one is executed. The others wait for it on the unique
//     index, then replay its response.
//   - Only successes are stored. A refused operation (409, 422) may be retried under its key with the same body.
//     Another body under the key is always a conflict, even after a refusal.
//
// Out of scope: HTTP, because package httpapi reads the header and writes the replay marker. Also the token endpoint,
// whose responses are tokens. Package oauth keeps those for a minute, under the digest of their key, and checks the
// grant before it repeats one.
package idempotency
