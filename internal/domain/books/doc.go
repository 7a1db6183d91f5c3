// Package books checks that the ledger, consultations, payments, evidence of waivers and audit entries are intact and
// agree with each other.
//
// Tables: ledger_checks.
//
// Each comparison is one statement, so that both sides are read at the same time. It compares holds and
// ledger_transactions of package wallet with consultations, and with topup_sessions and topup_refunds of package
// payment. It may read all these tables because it ranks above their packages. [wallet.Verify] checks the wallet's own
// rows, and [audit.Verify] finds changed audit entries.
//
// A check verifies:
//   - Every consultation has one hold: captured if completed, released if cancelled or expired, and active until then.
//   - The amount of every paid top-up is credited, and no other top-up is credited.
//   - The ledger has moved exactly the amount that each top-up lost to refunds and reversals.
//   - Every consultation has evidence of its client's waiver. The evidence is unchanged, and its chain is unbroken.
//   - No refund is rejected by its provider. Such a refund needs a person.
//
// A check runs once a night ([Service.ExamineIfDue], a job) and whenever an operator requests one. If it finds nothing
// wrong, it seals what it verified. The next nightly check covers only what was written later, and checks that every
// wallet's figures follow from its seal. [Service.ExamineAll] checks everything.
//
// While something is wrong, nothing is sealed, so every nightly check finds it again. A rejected refund alone does not
// prevent sealing. A check writes only its results and the seals.
package books
