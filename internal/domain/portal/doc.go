// Package portal lets partners manage their applications: people at /developers, and applications themselves through
// the Platform API.
//
// It covers the settings of an application and its members.
//
// Tables: application_members, portal_links.
//
// Permissions:
//
//	             view      settings, secrets, webhooks   people
//	owner        yes       yes                           yes
//	developer    yes       yes                           no
//	viewer       yes       no                            no
//	itself       yes       yes                           no
//
// Invariants:
//   - To someone who is not a member, an application looks as if it did not exist: NOT_FOUND.
//   - The role is checked in the transaction of the action, under a lock. If the role is being removed, the action
//     happens before the removal or not at all.
//   - An application that has an owner always keeps at least one. Its members are locked in a fixed order before one of
//     them loses that role or leaves.
//   - Each action leaves an audit entry in its transaction. The entry names the person, or the application if its
//     credentials were used.
//   - An invitation ends in the transaction that disables its sender, removes them or ends their role of owner.
//   - In a live deployment, no one joins without an invitation, and only operators create applications.
//   - In a sandbox, anyone can sign up and create applications; one person can own up to [MaxApplications].
//
// Email notifications:
//   - The owners and the contact are notified when secrets, the webhook URL, the name or the redirect URIs change. The
//     first two grant access; the last two decide where clients are sent.
//   - The owners and the person concerned are notified of changes to people.
//   - In a live deployment, the application's own credentials cannot change its name or redirect URIs.
//   - A contact who is not a member has not proven their address. They read fixed texts and get no more emails than
//     their rate limit allows.
//   - Asking for a sign-up or inviting someone never reveals whether an address is known. Only the email says so, to
//     its reader.
//   - A link works once. Using it proves the address.
//
// Does not do:
//   - Passwords, second factors and sessions (package staff).
//   - The rules of an application's fields and of webhooks (packages application and webhook).
//   - Requiring a recent sign-in and rate limiting (package web).
package portal
