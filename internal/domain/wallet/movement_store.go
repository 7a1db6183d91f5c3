package wallet

import (
	"context"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/infra/postgres"
)

// movement holds the parameters of the statements below, which refer to its fields with @.
type movement struct {
	ID, Client, Application, Consultation, TopUp, Hold, Description string
	Amount, LawyerFee, PlatformFee                                  money.Cents
	Now                                                             time.Time
}

// plan describes a movement. Its expressions refer to the columns of source as h and to the wallet before the movement
// as w.
type plan struct {
	kind Type
	// yields one row with client_id, application_id, consultation_id, topup_id and other needed columns, or none to
	// refuse
	source      string
	pass        string // further columns of source that postings and also need
	guard       string // condition on the wallet; empty means none
	amount      string // as shown
	description string
	postings    []posting // by account; those of the client's accounts also change the wallet's amounts
	also        string    // further common table expressions, over "moved h"
}

type posting struct{ account, cents string }

// compile returns the one statement that checks, moves, hashes and records. All its parts see the database as of the
// start of the statement, except the wallet's row. If another transaction holds that row, the statement waits and reads
// it again. The check, the number and the previous hash come from that row, so they use committed values.
func compile(p plan) postgres.Bound[movement] {
	available, held, values, canonical := "0", "0", "", ""
	for i, post := range p.postings {
		switch post.account {
		case "client_available":
			available = post.cents
		case "client_held":
			held = post.cents
		}
		if i > 0 {
			values, canonical = values+", ", canonical+" || ',"
		} else {
			canonical = "'"
		}
		values += "('" + post.account + "', " + post.cents + ")"
		canonical += post.account + ":' || (" + post.cents + ")"
	}
	guard := ""
	if p.guard != "" {
		guard = " AND " + p.guard
	}
	// The clocks of several replicas differ slightly, but the times in a wallet never decrease.
	const now = `greatest(w.last_entry_at, @Now)`
	return postgres.Bind[movement](postgres.SQL(postgres.Atomic, `WITH source AS (`+p.source+`), moved AS (
	UPDATE wallets w SET available_cents = w.available_cents + (`+available+`), held_cents = w.held_cents + (`+held+`),
		entry_seq = w.entry_seq + 1, last_entry_at = `+now+`,
		entry_hash = ledger_hash(w.entry_hash, @ID, w.client_id, w.entry_seq + 1, '`+string(p.kind)+`', `+p.amount+`,
			w.available_cents + w.held_cents + (`+available+`) + (`+held+`), w.available_cents + (`+available+`),
			h.application_id, h.consultation_id, h.topup_id, `+p.description+`, `+now+`, `+canonical+`)
	FROM source h WHERE w.client_id = h.client_id`+guard+`
	RETURNING w.client_id, w.entry_seq, w.last_entry_at, w.entry_hash, w.available_cents, w.held_cents,
		h.application_id, h.consultation_id, h.topup_id, h.cents`+p.pass+`
), entry AS (
	`+postgres.Insert[transactionRow]("", map[string]string{
		"id": "@ID", "client_id": "h.client_id", "seq": "h.entry_seq", "type": "'" + string(p.kind) + "'",
		"amount_cents": p.amount, "balance_after_cents": "h.available_cents + h.held_cents",
		"available_after_cents": "h.available_cents", "application_id": "h.application_id",
		"consultation_id": "h.consultation_id", "topup_id": "h.topup_id", "description": p.description,
		"created_at": "h.last_entry_at", "hash": "h.entry_hash",
	})+` FROM moved h
)`+p.also+`, posted AS (
	`+postgres.Insert[postingRow]("", map[string]string{
		"transaction_id": "@ID", "account": "p.account", "amount_cents": "p.cents",
		"client_id": "CASE WHEN p.account IN ('client_available', 'client_held') THEN h.client_id END",
	})+` FROM moved h, LATERAL (VALUES `+values+`) AS p (account, cents)
)
SELECT 1 FROM moved`))
}

// given is the source of a movement that the caller describes in full.
const given = `SELECT @Client AS client_id, nullif(@Application, '') AS application_id, nullif(@Consultation, '') AS consultation_id,
	nullif(@TopUp, '') AS topup_id, @Amount AS cents`

// ended returns a source that changes the hold of a consultation. Of two concurrent attempts, at most one finds the
// hold in the wanted state.
func ended(set, condition string) string {
	return `
	UPDATE holds SET ` + set + ` WHERE consultation_id = @Consultation AND ` + condition + `
	RETURNING client_id, application_id, consultation_id, CAST(NULL AS text) AS topup_id, coalesce(refunded_cents, amount_cents) AS cents,
		lawyer_fee_cents, platform_fee_cents
`
}

// Postings are sorted by account, because the hash covers them in that order.
var (
	holdSQL = compile(plan{
		kind: Hold, source: given, guard: `w.available_cents >= h.cents`,
		amount: `-h.cents`, description: `'Consultation reserved'`,
		postings: []posting{{"client_available", "-h.cents"}, {"client_held", "h.cents"}},
		also: `, hold AS (
	` + postgres.Insert[holdRow]("", map[string]string{
			"id": "@Hold", "client_id": "h.client_id", "application_id": "h.application_id",
			"consultation_id": "h.consultation_id", "amount_cents": "h.cents", "lawyer_fee_cents": "@LawyerFee",
			"platform_fee_cents": "@PlatformFee", "refunded_cents": "NULL", "state": "'ACTIVE'", "created_at": "@Now",
			"ended_at": "NULL",
		}) + ` FROM moved h
)`})

	releaseSQL = compile(plan{
		kind: Release, source: ended(`state = 'RELEASED', ended_at = @Now`, `state = 'ACTIVE'`),
		amount: `h.cents`, description: `'Reservation released'`,
		postings: []posting{{"client_available", "h.cents"}, {"client_held", "-h.cents"}}})

	captureSQL = compile(plan{
		kind: Capture, source: ended(`state = 'CAPTURED', ended_at = @Now`, `state = 'ACTIVE'`),
		pass: `, h.lawyer_fee_cents, h.platform_fee_cents`, amount: `-h.cents`, description: `'Consultation'`,
		postings: []posting{{"client_held", "-h.cents"}, {"lawyer_fee", "h.lawyer_fee_cents"},
			{"platform_fee", "h.platform_fee_cents"}}})

	refundSQL = compile(plan{
		kind: Refund, source: ended(`refunded_cents = @Amount`,
			`state = 'CAPTURED' AND refunded_cents IS NULL AND amount_cents >= @Amount`),
		amount: `h.cents`, description: `'Refund'`,
		postings: []posting{{"client_available", "h.cents"}, {"refunds", "-h.cents"}}})

	// The wallet is locked when this statement runs, so the statement sees an earlier credit.
	topUpSQL = compile(plan{
		kind: TopUp, source: given,
		guard:  `NOT EXISTS (SELECT FROM ledger_transactions t WHERE t.type = 'TOPUP' AND t.topup_id = @TopUp)`,
		amount: `h.cents`, description: `'Top-up'`,
		postings: []posting{{"client_available", "h.cents"}, {"payment_clearing", "-h.cents"}}})

	adjustSQL = compile(plan{
		kind: Adjustment, source: given, guard: `w.available_cents + h.cents >= 0`,
		amount: `h.cents`, description: `@Description`,
		postings: []posting{{"adjustments", "-h.cents"}, {"client_available", "h.cents"}}})

	// The amount is what leaves the wallet.
	withdrawSQL = compile(plan{
		kind: Adjustment, source: given, guard: `w.available_cents >= h.cents`,
		amount: `-h.cents`, description: `'` + TopUpReturned + `'`,
		postings: []posting{{"client_available", "-h.cents"}, {"payment_clearing", "h.cents"}}})

	reverseSQL = compile(plan{
		kind: Adjustment, source: given, guard: `w.available_cents + h.cents >= 0`,
		amount: `h.cents`, description: `CASE WHEN h.cents < 0 THEN '` + PaymentTakenBack +
			`' ELSE '` + PaymentRestored + `' END`,
		postings: []posting{{"client_available", "h.cents"}, {"payment_clearing", "-h.cents"}}})
)

// move runs a movement and reports whether its check passed.
func move(ctx context.Context, tx postgres.Tx, sql postgres.Bound[movement], m movement) (bool, error) {
	args, err := sql.Args(ctx, &m)
	if err != nil {
		return false, err
	}
	n, err := tx.Exec(ctx, sql.Statement, args...)
	return n == 1, err
}

// moveLater queues a movement to run with the next statement; see [postgres.Tx.Later]. If the movement's check fails,
// the transaction ends with refusal.
func moveLater(ctx context.Context, tx postgres.Tx, what string, sql postgres.Bound[movement], m movement,
	refusal error,
) error {
	later := tx.Later(postgres.Counted(func(n int, err error) error { return outcome(what, n == 1, err, refusal) }))
	_, err := move(ctx, later, sql, m)
	return err
}
