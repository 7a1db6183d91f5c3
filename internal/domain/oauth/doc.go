// Package oauth links clients to applications: consent, codes, access and refresh tokens, and revocation
// (specification sections 4.1 and 5).
//
// It also owns the policy of the authorization endpoint, the signing keys and the check of every bearer token.
//
// Tables: oauth_codes, oauth_consents, oauth_grant_events, oauth_grants, oauth_refresh_tokens, oauth_token_answers, signing_keys.
// The joins that check a token with one query also read applications and clients.
//
// A grant is one consent of a client to an application, the "session" of the specification. The client's consent
// creates it with a code, and redeeming the code activates it. Every token belongs to one grant and ends with it. All
// grants of a client with one application form a connection.
//
// Codes and refresh tokens:
//   - They have 256 random bits and are stored as SHA-256.
//   - They are used once: under the row lock of the grant, by a conditional update, in the transaction that stores what
//     they are exchanged for. A refused request consumes nothing.
//   - Reusing a refresh token, or a code with everything else correct, revokes the grant and its access tokens. A
//     second transaction does this and commits before the response is sent. Other grants stay.
//   - The rule is strict: if two refreshes use one token concurrently, at most one succeeds. The other counts as reuse
//     and ends the grant. An application must send its refreshes one after another, or with an Idempotency-Key.
//   - A token request with an Idempotency-Key can be retried for a minute. The same application with the same form gets
//     the same response, which is stored encrypted; this is not reuse (trap T24). Only successes are stored.
//
// Grants:
//   - Creating, activating, refreshing or ending a grant adds its event to oauth_grant_events in the same statement.
//     Unlike the operators' audit log these events are not chained, because a chain would serialise refreshes.
//   - A grant ends permanently, with its code and tokens. It is ended by its application (revocation), by reuse, by its
//     client (account page, recovery, erasure) or by an operator (unlinking or disabling the client).
//   - It also ends when the last of its code and tokens expires, which [Service.Purge] records within [PurgeEvery].
//   - Suspending an application only pauses its grants. Those that have not expired work again when it is resumed.
//   - Creating a grant and ending all grants of a client both lock the client first, so that no grant slips in between.
//   - Ended grants are deleted after [Retention]. Their events are kept for a year, refresh events for [Retention].
//
// Notifications (package webhook):
//   - When a client's connection is ended by the client, by recovery, by erasure or by an operator, the applications
//     with an active connection are notified. The same holds for a top-up. Both happen in the same transaction, which
//     has locked the client.
//   - An application is not notified of its own revocation, of reuse or of the last token's expiry. Its next call
//     fails.
//
// Consent and scopes:
//   - Consent is remembered while an active grant includes it; see [Service.Remembered].
//   - The scopes of a grant never change. A scope that the operator takes from the application no longer gives access.
//   - A refresh may ask for fewer scopes for one access token. The refresh token keeps all its scopes.
//
// Access tokens:
//   - They are JWTs (RFC 9068) signed with ES256. Algorithm, type, key, issuer and audience are fixed.
//   - A valid signature and expiry are not enough: the grant must be alive, the application not suspended and the
//     client not disabled. [Service.Authenticate] queries the database each time, so revocation is immediate. Only the
//     result of the signature check is cached.
//   - Signing keys are reread every second. A new key is published before it signs, for twice the time that verifiers
//     may cache the published keys. It stays published until its last token has expired.
//
// Requests:
//   - No redirect goes to a URI that has not been compared, byte for byte, with the registered ones.
//   - Application credentials come from the form body or from HTTP Basic, never from both. All other parameters come
//     from the form body, and none from the URL.
//
// go-oauth2 runs the two grant types of the token endpoint behind this policy. library.go lists which of its defaults
// are replaced, each with its test. A request first finds and locks the code or token it presents. The library then
// decides and issues from that alone, and the result is stored afterwards (token.go).
//
// Does not do: pages, cookies and sign-in (package web), HTTP responses and rate limiting (package httpapi),
// credentials of applications (package application).
package oauth
