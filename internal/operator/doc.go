// Package operator is what operators do by hand, through the command line: the one door to acts that no partner and no
// client can do.
//
// Owns nothing: each act calls the domains that own the rule.
//
// Invariants:
//   - An act has a name (who) and a reason, and its audit entry is written in the transaction of what it does: there is
//     neither one without the other. Entries hold no secret.
//   - Money is given by hand only as an adjustment with a reason: opening balances exist in a sandbox alone.
//   - A consultation moves through its state table only, with its money and its events ([Service.CancelConsultation],
//     [Service.CloseConsultation], [Service.RefundConsultation]).
//   - Shutting a client out ends the browser sessions and the links to applications in the same transaction, for good.
//   - A partner is told by mail when an operator changes where its webhooks go, or their signing secret.
//
// Does not do: reading notes, which operators cannot, nor correcting them, which is for the lawyer; retention; pages.
package operator
