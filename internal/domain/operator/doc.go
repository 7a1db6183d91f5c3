// Package operator performs the manual actions of operators, at their desk or on the command line.
//
// It is the only way to perform actions that neither partners nor clients can perform. Each action calls the domains
// that own the rules.
//
// Tables: operator_amounts, operator_proposals.
//
// This package owns one rule, the four-eyes principle at the desk:
//   - One person alone can move at most [FourEyes] within [FourEyesWindow]. All people acting alone can together move
//     at most that amount for one client.
//   - The sum includes refunds, adjustments in either direction and closing a consultation whose call has ended (X12).
//   - Above the limit, one person proposes and another confirms. Amounts decided by two people do not count.
//   - A cancellation (X13) does not count: no call has started, so nothing was delivered.
//   - The sum is computed under the locks of the person and of the client, so concurrent actions cannot exceed the
//     limit.
//   - The command line is exempt, because whoever has it controls the machine.
//
// Invariants:
//   - An action has an actor and a reason. Its audit entry is written in its transaction, so neither exists without the
//     other. Entries contain no secrets.
//   - A proposal ends once. It is confirmed by a second person, refused, or expires after [ProposalLifetime]. It also
//     ends when its proposer may no longer make it.
//   - A confirmed proposal is carried out in the same transaction. There is one open proposal per subject and kind.
//   - An invitation ends in the transaction in which its sender loses the right to send it. Invitations from the
//     command line stay.
//   - An erased account has no money. Every action that moves money locks the client and refuses with [ErrErased]. An
//     open proposal blocks the client from erasing the account ([Service.OpenFor]).
//   - Money is given manually only as an adjustment with a reason. Opening balances exist only in a sandbox.
//   - A consultation changes only through its state table, with its money and its events ([Service.CancelConsultation],
//     [Service.CloseConsultation], [Service.RefundConsultation]).
//   - Disabling a client ends the browser sessions and the connections to applications in the same transaction,
//     permanently.
//
// Email notifications are sent in the transaction of the action. An email contains no secret, and only the last two
// digits of a phone number. The recipients are:
//   - Lawyers, about their phone number, skills and duty.
//   - Operators, about their roles.
//   - Clients, about their access and adjustments.
//   - The owners and the contact of an application, about its settings, secrets, webhooks and people.
//
// Does not do: reading notes, which operators cannot; correcting notes, which they can ask the lawyer to do; retention;
// pages.
package operator
