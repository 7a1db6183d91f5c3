// Package wallet keeps clients' prepaid money (specification sections 2.2 and 2.3).
//
// Tables: holds, ledger_seals, ledger_transactions, postings, wallets.
//
// The balance of a wallet is the sum of two amounts: available money, and money held for open consultations. Every
// movement is a ledger transaction whose postings sum to zero over these accounts:
//
//	movement    amount shown       postings
//	TOPUP       + on the balance   client_available +   payment_clearing −
//	HOLD        − on available     client_available −   client_held +
//	RELEASE     + on available     client_available +   client_held −
//	CAPTURE     − on the balance   client_held −        lawyer_fee +, platform_fee +
//	REFUND      + on the balance   client_available +   refunds −
//	ADJUSTMENT  ± on the balance   client_available ±   adjustments ∓, or payment_clearing ∓ for a top-up that is
//	                               refunded to its source, or reversed or restored by the payer's bank
//
// Invariants, enforced by the database or checked by [Verify]:
//   - The postings of a transaction sum to zero.
//   - Ledger rows are never changed or deleted.
//   - A wallet's amounts are the sums of its postings. Neither available nor held is ever negative.
//   - The transactions of a wallet are numbered 1, 2, 3 … without gaps, and their times never decrease.
//   - A hold ends exactly once: it is captured or released. A captured hold is refunded at most once.
//   - A payment is credited once.
//   - Every transaction has a hash over the wallet's previous transaction, itself and its postings (database function
//     ledger_hash). A changed, deleted or inserted row is therefore detected and named.
//
// A movement is one statement that checks, moves and records. It locks the wallet's row for one round trip and for the
// rest of the caller's transaction. Movements of one client queue on that row, so callers lock it last.
//
// The package knows nothing of payment providers but the ID of a top-up. It does not decide when a consultation is
// charged. The lawyer and the platform get fixed amounts, not a percentage; both are fixed when the money is reserved.
// Package books checks that the ledger agrees with consultations and payments.
package wallet
