// Package account owns the end clients and their sign-ins on our own pages.
//
// Owns: clients, browser_sessions.
//
// Invariants:
//   - One client per e-mail address, whatever its letter case.
//   - A phone number is stored sealed, in E.164, and leaves only through [Service.VerifiedPhone] and only when verified.
//   - Passwords are argon2id hashes; browser sessions are stored as SHA-256 of a token of 256 bits and end after
//     [SessionLifetime]. A disabled client can neither sign in nor use a session that is already open.
//
// Does not do: the wallet (whoever creates a client opens it), grants to applications (package oauth), throttling of
// sign-ins and cookies (package web).
package account
