// Package staff owns lawyers, operators and the people of partners as persons who sign in.
//
// Tables: staff, staff_challenges, staff_links, staff_passkeys, staff_recovery_codes, staff_sessions.
//
// Invariants:
//   - One person per e-mail address, whatever its letter case. A lawyer is at most one person.
//   - Nobody is given a password: an invitation is mailed, whose link works once, for [InvitationLifetime]. Who comes
//     to the portal by a link of package portal chooses his at once ([Service.Register]).
//   - A session is complete with password and second factor, or with a passkey that verified its user. One of the
//     password alone can only show the second factor, or set up the first one; each step has a token of its own, and
//     each session that sets one up a secret of its own.
//   - A code of the device is accepted once, also under parallel tries: the person's row is locked and remembers the
//     last period. A recovery code, a link and the challenge of a passkey work once, too.
//   - Passwords are argon2id hashes; tokens and recovery codes, which have 256 and 80 random bits, are stored as
//     SHA-256; the secret of the codes is sealed.
//   - A session ends after [SessionLifetime], that of anybody but a lawyer after [IdleLifetime] without use.
//   - The person's row is locked before anything else of the person is changed, so that who is disabled at this moment
//     is not signed in at the same one.
//   - A mailed link replaces the password and never the second factor: a lost one takes a new invitation, which ends
//     everything.
//   - What changes how a person signs in is told by mail.
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
// An invitation also ends when whoever sent it may no longer send it ([Service.EndInvitations], by package operator).
//
// A suspended lawyer keeps the sessions while a call or a note is in hand. After that they sign in only to take copies
// of their notes, by /staff/login?next=/desk/key (packages desk and web).
//
// The kinds:
//
//	            works at      comes by                        lost second factor   unused session ends
//	LAWYER      /desk         an operator's invitation        new invitation       with the lifetime
//	OPERATOR    /ops          an operator's invitation        new invitation       after 30 minutes
//	PARTNER     /developers   a sign-up (sandbox), or an      new invitation       after 30 minutes
//	                          invitation to an application    by an operator
//
// Who is a PARTNER and disabled stays a member of his applications and cannot sign in.
//
// Does not do: what a lawyer or an operator does (packages lawyer, consultation, operator), leases (package lawyer
// decides whether one is the present one), throttling of sign-ins and cookies (package web).
package staff
