// Package wallet keeps clients' prepaid money (specification sections 2.2 and 2.3).
//
// Tables: holds, ledger_seals, ledger_transactions, postings, wallets.
//
// Money has two places in a wallet: available, and held for consultations under way; the balance is their sum. Every
// movement is a ledger transaction whose postings sum to zero over these accounts:
//
//	movement    amount shown       postings
//	TOPUP       + on the balance   client_available +   payment_clearing −
//	HOLD        − on available     client_available −   client_held +
//	RELEASE     + on available     client_available +   client_held −
//	CAPTURE     − on the balance   client_held −        lawyer_fee +, platform_fee +
//	REFUND      + on the balance   client_available +   refunds −
//	ADJUSTMENT  ± on the balance   client_available ±   adjustments ∓, or payment_clearing ∓ for a top-up that goes back
//	                               to its source, is taken back by its payer's bank, or restored by it
//
// Invariants, kept by the database or found broken by [Verify]:
//   - postings of a transaction sum to zero, and nothing in the ledger is ever changed or removed;
//   - a wallet's figures are the sums of its postings; neither available nor held is ever negative;
//   - transactions of a wallet are numbered 1, 2, 3 … without a gap, and time never goes back along the numbers;
//   - a hold ends exactly once, captured or released; a captured one is refunded at most once;
//   - a payment is credited once;
//   - every transaction carries a hash over the wallet's one before it, itself and its postings (function ledger_hash
//     of the database), so that a changed, removed or inserted row is found and named.
//
// A movement is one statement that guards, moves and records, so that the wallet's row, on which movements of one
// client queue, is locked for one round trip and for the rest of the caller's transaction only. Callers lock it last.
//
// It does not know payment providers (a top-up is a name to it), does not decide when a consultation is charged, and
// takes no percentage: what the lawyer and the platform get are fixed amounts, settled when the money is reserved.
// Whether the ledger agrees with consultations and payments is examined by package books.
package wallet
