// Package staff stores lawyers, operators and partners' people, and signs them in.
//
// Tables: staff, staff_challenges, staff_links, staff_passkeys, staff_recovery_codes, staff_sessions.
//
// Invariants:
//   - There is at most one person per email address, ignoring case, and at most one person per lawyer.
//   - No one is given a password. An invitation is emailed; its link works once, for [InvitationLifetime]. A person who
//     joins the portal through a link of package portal chooses a password when they join ([Service.Register]).
//   - A session is complete after password and second factor, or after a passkey that verified its user. Until then it
//     only allows entering the second factor or setting up the first one.
//   - Each of these steps has its own token. Each session that sets up a second factor has its own secret.
//   - A code of the device is accepted once, even with concurrent attempts: the person's row is locked and stores the
//     last period. A recovery code, a link and the challenge of a passkey also work once.
//   - Passwords are stored as argon2id hashes. Tokens (256 random bits) and recovery codes (80 random bits) are stored
//     as SHA-256. The secret of the codes is encrypted.
//   - A session ends after [SessionLifetime]. Except for lawyers, it also ends after [IdleLifetime] without use.
//   - The person's row is locked before anything else of the person changes. Someone who is being disabled therefore
//     cannot sign in at the same time.
//   - An emailed link replaces the password, never the second factor. A lost second factor needs a new invitation,
//     which ends every other way to sign in.
//   - A change to how a person signs in is reported to them by email.
//
// What ends:
//
//	                     sessions   password   codes and recovery codes   passkeys   mailed links
//	new password         others     replaced   none                       none       all
//	password by mail     all        replaced   none                       none       all
//	new invitation       all        ends       all                        all        all
//	disabling            all        stays      recovery codes             all        all
//	a lawyer suspended   all        stays      none                       none       none
//
// An invitation also ends when its sender may no longer send it ([Service.EndInvitations], called by package operator).
//
// A suspended lawyer keeps the sessions while a call or a note is in hand. After that they sign in only to download
// copies of their notes, at /staff/login?next=/desk/key (packages desk and web).
//
// The kinds:
//
//	            works at      joins by                        lost second factor   unused session ends
//	LAWYER      /desk         an operator's invitation        new invitation       with the lifetime
//	OPERATOR    /ops          an operator's invitation        new invitation       after 30 minutes
//	PARTNER     /developers   a sign-up (sandbox), or an      new invitation       after 30 minutes
//	                          invitation to an application    by an operator
//
// A disabled PARTNER stays a member of their applications but cannot sign in.
//
// Does not do:
//   - What a lawyer or an operator does (packages lawyer, consultation, operator).
//   - Leases: package lawyer decides whether a lease is the current one.
//   - Rate limiting of sign-ins, and cookies (package web).
package staff
