// Package account owns the end clients, their sign-ins on our own pages, and what they do for themselves.
//
// Tables: browser_sessions, client_links, client_passkeys, client_phone_codes, clients, passkey_challenges, phone_code_counts.
//
// Invariants:
//   - One client per e-mail address, whatever its letter case.
//   - A phone number is stored sealed by the client's key (package vault), in E.164, and leaves only through
//     [Service.VerifiedPhone] and only when verified.
//   - Passwords are argon2id hashes; browser sessions are stored as SHA-256 of a token of 256 bits and end after
//     [SessionLifetime]. A disabled client cannot sign in, and is told so once they have
//     shown the password or a passkey, or by mail; nobody else learns it. Disabling ends what is open for good,
//     sessions and mailed links; enabling brings back the password and the passkeys alone.
//   - A link sent by mail, a code and the challenge of a passkey work once, also under parallel tries, and run out. A
//     code dies after [CodeTries] wrong tries.
//   - Who asks for a link gets the same answer after the same work, whether there is such a client or not.
//   - A new password ends every other session; removing a passkey ends the sessions that it opened.
//   - A phone number takes the place of a verified one only with the present password.
//   - Recovery (a new password by a mailed link) ends all sessions and, in the same transaction, the passkeys, the
//     links to applications and the phone number that the client ticked. What is younger than 30 days is ticked from
//     the start; what was added while the form was open ends too.
//   - Nobody erases an account that an earlier address can take back.
//   - The e-mail address changes with the present password, a link to the new address, and a sign-in to the account;
//     the old address is told twice, and keeps a link for [UndoLifetime] that takes the account back as a recovery
//     does.
//   - What changes the security of an account is told by mail, to each address that can take it back too: also a new
//     link to an application, and a sign-in from a browser that the account does not know ([Service.Knows]), unless it
//     was by a mailed link.
//   - A client's messages come in their own language: that of the sign-up, or the one chosen for the pages since,
//     whatever the browser speaks from which a message is caused.
//   - A client is locked before its links, and its links are ended by their client, never by an address that somebody
//     else may have meanwhile; a link that was used, or ended, stays for a day for the count of the hour.
//   - An erased client is a pseudonym that nobody can sign in to again.
//
// What ends which of the links that were mailed for a client:
//
//	                            RESET   EMAIL   UNDO_EMAIL
//	new password                all     all     none: a thief would choose one
//	new address                 all     all     none; one is made
//	an address given back       all     all     those of later changes: the first thief of several addresses loses
//	another request for one     –       all     –
//	disabling                   all     all     none, but they wait until it ends
//	erasure                     all     all     all
//
// What else ends:
//
//	                            sessions   passkeys     applications   phone number   codes   known browsers
//	new password                others     none         none           stays          none    others
//	recovery, take-back         all        the ticked   the ticked     if ticked      all     all
//	disabling                   all        none         all            stays          none    all
//	erasure                     all        all          all            destroyed      all     all
//
// A request for another address that waits in the queue ends with the password that it showed, and with the account
// being open. A sign-up ends the other sign-ups of its address. A link for an address that another client has by then
// fails with [ErrEmailTaken] and lives on: the address may become free again.
//
// Does not do: the wallet (whoever creates a client opens it), grants to applications (package oauth), throttling of
// sign-ins and cookies (package web).
package account
