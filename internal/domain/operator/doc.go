// Package operator is what operators do by hand, at their desk or through the command line: the one door to acts that
// no partner and no client can do.
//
// Tables: operator_amounts, operator_proposals.
//
// Each act calls the domains that own the rule. Its own is the one of four eyes: at the desk, one person alone moves up
// to [FourEyes] within [FourEyesWindow], and people alone move up to that for one client. Refunds, adjustments either
// way and the closing of a consultation whose call has ended (X12) are added up; above it, one person proposes and
// another confirms.
//
// Invariants:
//   - An act has a name (who) and a reason, and its audit entry is written in the transaction of what it does: there is
//     neither one without the other. Entries hold no secret.
//   - A proposal ends once: it is confirmed by another person than the one who made it, refused, or runs out after
//     [ProposalLifetime], or when its proposer may no longer make it. What was confirmed was done in the same
//     transaction. Of one thing one proposal is open at a time.
//   - An invitation ends when whoever sent it may no longer send it, in the same transaction; the command line's stay.
//   - Amounts are added up under the locks of the person and of the client, so that parallel acts do not pass the limit
//     together. What two people decided does not count, nor does a cancellation (X13): no call has started, so nothing
//     was delivered.
//   - An account that is erased has no money: every act that moves some locks the client and refuses ([ErrErased]), and
//     an open proposal keeps a client from erasing the account ([Service.OpenFor]).
//   - The command line is not held to four eyes: who has it has the machine.
//   - Money is given by hand only as an adjustment with a reason: opening balances exist in a sandbox alone.
//   - A consultation moves through its state table only, with its money and its events ([Service.CancelConsultation],
//     [Service.CloseConsultation], [Service.RefundConsultation]).
//   - Shutting a client out ends the browser sessions and the links to applications in the same transaction, for good.
//   - People are told by mail what concerns them, in the transaction of the act: lawyers of their phone number, skills
//     and duty, operators of their roles, clients of their access and of adjustments, the owners and the contact of an
//     application of its settings, secrets, webhooks and people. A mail has no secret, and of a phone number its last
//     two digits.
//
// Does not do: reading notes, which operators cannot, nor correcting them, which the lawyer can be asked for;
// retention; pages.
package operator
