// Package oauth links end clients to applications (specification sections 4.1 and 5): the authorization endpoint's
// policy, codes, access and refresh tokens, revocation, signing keys, and the check of every bearer token.
//
// Tables: oauth_codes, oauth_consents, oauth_grant_events, oauth_grants, oauth_refresh_tokens, oauth_token_answers, signing_keys.
// It reads applications and clients in the joins that check a token with one query.
//
// A grant is one link of a client to an application, the "session" of the specification. The client's consent inserts
// it with a code; redeeming the code activates it; every token belongs to one grant and dies with it. A client may have
// several grants with one application.
//
// Invariants:
//   - Codes and refresh tokens have 256 bits, are stored as SHA-256 and are used once: under the row lock of the grant
//     and by a conditional update, in one transaction with what they are exchanged for. A request that is refused
//     consumes nothing.
//   - Presenting a used refresh token, or a used code with everything else right, revokes the grant with its live
//     access tokens, in a second transaction that is committed before the answer. Other grants live on. The rule is
//     strict: of two refreshes sent at the same time with one token at most one succeeds, and the other is a replay
//     that ends the session. An application sends its refreshes one after another, or with an Idempotency-Key.
//   - A token request under an Idempotency-Key can be repeated for a minute: the same application with the same form
//     gets the same answer, kept sealed, and that is no replay (trap T24). Only successes are kept.
//   - Whatever makes, activates, refreshes or ends a grant adds its event to oauth_grant_events in the same statement.
//     Events are not chained like the audit of operators, because a chain is written one after another and refreshes
//     are not.
//   - A grant ends for good, and with it its code and tokens: by its application (revocation), a replay, its client
//     (account page, recovery, erasure), an operator (unlinking or disabling the client), or when the last of its code
//     and tokens runs out, which [Service.Purge] records within [PurgeEvery]. A suspended application is only paused:
//     what did not run out meanwhile is there when it is let in again.
//   - A client's end of a link, also by recovery, erasure or an operator, and a top-up are told to the applications
//     whose link was living then, in the same transaction, which has locked the client (package webhook). An
//     application's own revocation, a replay and the end of the last token are not: its next call says so.
//   - What ended is deleted [Retention] later; its events stay for a year, those of refreshes for [Retention].
//   - Consent is remembered while a living link carries it, see [Service.Remembered].
//   - What makes a grant and what ends all grants of a client lock the client first: none slips in between.
//   - A signed, unexpired access token is necessary but not sufficient: the grant must be alive, the application not
//     suspended, the client not disabled. [Service.Authenticate] asks the database each time, so revocation works at
//     once; only that a signature is right is remembered.
//   - Signing keys are read again every second. The next one is published before it signs, for twice the time that
//     verifiers may keep the published keys, and afterwards until its last token is dead.
//   - The grant's scopes never change, but a scope that the operator takes from the application gives no access any
//     more. A refresh may ask for fewer for one access token; the refresh token keeps all.
//   - Access tokens are JWTs (RFC 9068) signed with ES256. Algorithm, type, key, issuer and audience are pinned.
//   - Nothing is redirected to a URI that was not compared, byte for byte, with the registered ones.
//   - Application credentials come from the form body or from HTTP Basic, never from both; all other parameters from
//     the form body; nothing from the URL.
//
// go-oauth2 runs the two grant types of the token endpoint behind this policy; which of its defaults are replaced is
// listed in library.go, each with its test. A request finds and locks what it presents first, then the library judges
// and issues from that alone, and what it issued is stored when it has returned (token.go).
//
// Does not do: pages, cookies and sign-in (package web), HTTP rendering and throttling (package httpapi), credentials
// of applications (package application).
package oauth
