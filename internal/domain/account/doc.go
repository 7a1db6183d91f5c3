// Package account owns the end clients, their sign-ins on our own pages, and their self-service.
//
// Tables: browser_sessions, client_links, client_passkeys, client_phone_codes, clients, passkey_challenges, phone_code_counts.
//
// Invariants:
//   - An email address belongs to at most one client, ignoring case.
//   - A phone number is stored in E.164, sealed with the client's key (package vault). Only [Service.VerifiedPhone] and
//     [Service.PhoneToKeep] return it, and only when verified.
//   - Passwords are stored as argon2id hashes. Browser sessions are stored as the SHA-256 of a 256-bit token and end
//     after [SessionLifetime].
//   - A disabled client cannot sign in. They learn the reason only by email, or after proving the password or a
//     passkey; no one else learns it.
//   - Disabling ends sessions and emailed links permanently. After enabling, only the password, the passkeys and links
//     that undo a change of address work again.
//   - An emailed link, a code and a passkey challenge expire, and work once, even under concurrent attempts. A code
//     ends after [CodeTries] wrong attempts.
//   - A request for a link gets the same response after the same work, whether or not the client exists.
//   - A new password ends every other session. Removing a passkey ends the sessions that it opened.
//   - Replacing a verified phone number requires the current password.
//   - Recovery (a new password by an emailed link) ends all sessions. In the same transaction it ends the passkeys, the
//     connections to applications and the phone number that the client ticked. Items less than 30 days old are ticked
//     by default. Items added while the form was open end too.
//   - No one can erase an account while an earlier address can take it back.
//   - Changing the email address requires the current password, a link sent to the new address, and a sign-in to the
//     account. The old address is notified twice. For [UndoLifetime] it keeps a link that takes the account back, with
//     the effects of a recovery.
//   - Every change to the security of an account is emailed to the client, and to each address that can still take the
//     account back. So is a new connection to an application. So is a sign-in from a browser that the account does not
//     know ([Service.Knows]), unless it used an emailed link.
//   - A client's messages are in their own language: the language of the sign-up, or the one chosen later on the pages.
//     The language of the browser that causes a message does not matter.
//   - A client is locked before its links. Links are ended by client, never by address, because the address may belong
//     to someone else by then.
//   - Used and ended links are kept for a day, because they count towards the hourly limit.
//   - An erased client is only a pseudonym, and no one can sign in to it again.
//
// What ends which emailed links of a client:
//
//	                            RESET   EMAIL   UNDO_EMAIL
//	new password                all     all     none: a thief would set one to end them
//	new address                 all     all     none; a new one is created
//	address restored            all     all     those of later changes: a thief who changed it again loses
//	another request             –       all     –
//	disabling                   all     all     none, but they work only after enabling
//	erasure                     all     all     all
//
// What else ends:
//
//	                            sessions   passkeys     connections    phone number   codes   known browsers
//	new password                others     none         none           stays          none    others
//	recovery, take-back         all        the ticked   the ticked     if ticked      all     all
//	disabling                   all        none         all            stays          none    all
//	erasure                     all        all          all            destroyed      all     all
//
// A queued request for a new address is dropped if the password has changed after the request or the account is
// disabled. A sign-up ends the other sign-ups of its address. If another client has taken the address that a link
// confirms, the link fails with [ErrEmailTaken] and stays valid: the address may become free again.
//
// Not in this package: wallets (the caller that creates a client opens one), grants (package oauth), and rate limits of
// sign-ins and cookies (package web).
package account
