// Package oauth links end clients to applications (specification sections 4.1 and 5): the authorization endpoint's
// policy, codes, access and refresh tokens, revocation, signing keys, and the check of every bearer token.
//
// Owns: signing_keys, oauth_grants, oauth_codes, oauth_refresh_tokens. Reads applications and clients in the joins that
// check a token with one query; never writes them.
//
// A grant is one link of a client to an application, the "session" of the specification. The client's consent inserts
// it with a code; redeeming the code activates it; every token belongs to one grant and dies with it. A client may have
// several grants with one application.
//
// Invariants:
//   - Codes and refresh tokens have 256 bits, are stored as SHA-256 and are used once: under the row lock of the grant
//     and by a conditional update, in one transaction with what they are exchanged for. A request that is refused
//     consumes nothing.
//   - Presenting a used refresh token, or a used code with everything else right, revokes the grant with its live access
//     tokens, in a second transaction that is committed before the answer. Other grants live on. The rule is strict:
//     of two refreshes sent at the same time with one token at most one succeeds, and the other is a replay that ends
//     the session. An application must send its refreshes one after another.
//   - A signed, unexpired access token is necessary but not sufficient: the grant must be alive, the application not
//     suspended, the client not disabled. [Service.Authenticate] asks the database, so revocation works at once.
//   - The grant's scopes never change. A refresh may ask for fewer for one access token; the refresh token keeps all.
//   - Access tokens are JWTs (RFC 9068) signed with ES256. Algorithm, type, key, issuer and audience are pinned.
//   - Nothing is redirected to a URI that was not compared, byte for byte, with the registered ones.
//   - Application credentials and all parameters come from the form body, never from the URL or an Authorization header.
//
// go-oauth2 runs the two grant types of the token endpoint behind this policy; which of its defaults are replaced is
// listed in library.go, each with its test. Its stores are given nothing but a context, so library.go is the one place
// of the program where a transaction travels in a context.
//
// Does not do: pages, cookies and sign-in (package web), HTTP rendering and throttling (package httpapi), credentials
// of applications (package application).
package oauth
