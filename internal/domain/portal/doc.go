// Package portal is what the people of a partner do for themselves at /developers, and an application with its own
// credentials through the Platform API: the settings of an application, and who looks after it.
//
// Tables: application_members, portal_links.
//
// Who may do what with an application:
//
//	             sees it   settings, secrets, webhooks   people
//	owner        yes       yes                           yes
//	developer    yes       yes                           no
//	viewer       yes       no                            no
//	itself       yes       yes                           no
//
// Invariants:
//   - An application of which somebody is no member does not exist for him: NOT_FOUND, as for one that there is not.
//   - The role is looked at in the transaction of the act, under a lock: who loses it at this moment acts before that
//     or not at all.
//   - An application that has an owner keeps one: its members are locked, in one order, before one of them loses that
//     role or goes.
//   - Each act leaves an audit entry in its transaction, with the person who did it, or the application when its
//     credentials did.
//   - What opens something (secrets, where webhooks go) and what decides where clients are sent (name, redirect URIs)
//     is told by mail to the owners and to the contact, people to the owners and whom it concerns. In live the
//     application itself cannot change name and redirect URIs.
//   - A contact who is no member has proven no address: they read fixed words, and no more mails than their quota.
//   - Whoever asks for a sign-up, or invites, learns nothing of whether there is somebody with that address: the mail
//     says so to its reader. A link works once; who uses it has proven the address.
//   - An invitation ends with its sender, in the transaction that disables them, ends their role of owner, or removes
//     them.
//   - In live nobody comes without an invitation, and applications are made by operators. In a sandbox everybody does
//     both, up to [MaxApplications] that one person owns.
//
// Does not do: passwords, second factors and sessions (package staff), the rules of an application's fields and of
// webhooks (packages application and webhook), asking for a fresh sign-in and throttling (package web).
package portal
