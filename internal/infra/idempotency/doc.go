// Package idempotency makes what is sent twice have one effect and one response (specification section 4.5, traps T5
// and T6): requests with an Idempotency-Key, and forms of pages, whose hidden token is such a key.
//
// Tables: idempotency_keys.
// It owns the keys, what was asked under them and what was answered. A key belongs to one application, one client and
// one operation, and is kept for [Retention]. The key of a form belongs to a session of a person, or to a client, in
// the place of the client, and to no application.
//
// Invariants:
//   - The claim on a key, the effect and the stored response commit in one transaction: a crash leaves all or nothing.
//   - Of parallel requests with one key one runs; the others wait for it on the unique index, then replay its response.
//   - Only successes are stored. A refused operation (409, 422) may be tried again under its key with the same body;
//     another body under the key is always a conflict, also after a refusal.
//
// Does not do: HTTP. The httpapi package reads the header and writes the replay marker. Nor the token endpoint, whose
// responses are tokens: package oauth keeps them for a minute, under the digest of their key, and checks the grant
// before it repeats one.
package idempotency
