// Package books examines the books: whether the ledger agrees with itself, with the consultations and with the
// payments, whether the evidence of the clients' waivers is complete and unchanged, and whether an entry of the audit
// was changed.
//
// Tables: ledger_checks.
//
// It stands above whose rows it compares, in one statement, so that both sides are of one instant: holds and
// ledger_transactions of the wallet with consultations, and with topup_sessions and topup_refunds of payment. What the
// wallet's own rows say of each other is examined by [wallet.Verify], the audit by [audit.Verify].
//
// Found broken:
//   - a consultation has one hold: captured when it is completed, released when it was cancelled or has expired, active
//     before;
//   - a paid top-up is credited with its amount, and no other is;
//   - what a top-up lost by refunds and reversals is what the ledger moved;
//   - a consultation has its evidence, the evidence is in its chain, and the chain is unbroken;
//   - a refund that its provider refuses: a person has to look.
//
// The books are examined once a night ([Service.ExamineIfDue], a job) and whenever an operator asks. What was found
// right is sealed: the night looks at what came after, and that the figures of every wallet follow from its seal;
// [Service.ExamineAll] looks at everything. As long as something is wrong nothing is sealed, so that every night finds
// it again. It changes nothing but its results and the seals.
package books
