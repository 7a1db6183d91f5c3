package wallet

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"time"

	"partnerd/internal/clock"
	"partnerd/internal/money"
	"partnerd/internal/postgres"
)

// movement holds what the statements below name with @.
type movement struct {
	ID, Client, Application, Consultation, TopUp, Hold, Description string
	Amount, LawyerFee, PlatformFee                                  money.Cents
	Now                                                             time.Time
}

func (m movement) value(name string) any {
	switch name {
	case "ID":
		return m.ID
	case "Client":
		return m.Client
	case "Application":
		return m.Application
	case "Consultation":
		return m.Consultation
	case "TopUp":
		return m.TopUp
	case "Hold":
		return m.Hold
	case "Description":
		return m.Description
	case "Amount":
		return int64(m.Amount)
	case "LawyerFee":
		return int64(m.LawyerFee)
	case "PlatformFee":
		return int64(m.PlatformFee)
	case "Now":
		return m.Now
	}
	panic("wallet: a statement names @" + name)
}

// plan describes a movement. Its expressions see the columns of source as h and the wallet before the movement as w.
type plan struct {
	kind        Type
	source      string // one row with client_id, application_id, consultation_id, topup_id and what the rest needs, or no row: refused
	pass        string // further columns of source that postings and also need
	guard       string // what must be true of the wallet; empty: nothing
	amount      string // as shown
	description string
	postings    []posting // by account; those of the client's accounts also move the wallet's figures
	also        string    // further common table expressions, over "moved h"
}

type posting struct{ account, cents string }

// statement is the SQL of a movement and the names of its parameters in order.
type statement struct {
	sql   string
	names []string
}

// compile makes the one statement that guards, moves, chains and records. All parts see the database as of the
// statement's start, but a wallet that another transaction has locked is waited for and read again, so the guard, the
// number and the hash before, which are taken from that row, decide on what is committed.
func compile(p plan) statement {
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
	// Clocks of several replicas differ a little; a wallet's history never goes back.
	const now = `greatest(w.last_entry_at, @Now)`
	return number(`WITH source AS (` + p.source + `), moved AS (
	UPDATE wallets w SET available_cents = w.available_cents + (` + available + `), held_cents = w.held_cents + (` + held + `),
		entry_seq = w.entry_seq + 1, last_entry_at = ` + now + `,
		entry_hash = ledger_hash(w.entry_hash, @ID, w.client_id, w.entry_seq + 1, '` + string(p.kind) + `', ` + p.amount + `,
			w.available_cents + w.held_cents + (` + available + `) + (` + held + `), w.available_cents + (` + available + `),
			h.application_id, h.consultation_id, h.topup_id, ` + p.description + `, ` + now + `, ` + canonical + `)
	FROM source h WHERE w.client_id = h.client_id` + guard + `
	RETURNING w.client_id, w.entry_seq, w.last_entry_at, w.entry_hash, w.available_cents, w.held_cents,
		h.application_id, h.consultation_id, h.topup_id, h.cents` + p.pass + `
), entry AS (
	INSERT INTO ledger_transactions (id, client_id, seq, type, amount_cents, balance_after_cents, available_after_cents,
		application_id, consultation_id, topup_id, description, created_at, hash)
	SELECT @ID, h.client_id, h.entry_seq, '` + string(p.kind) + `', ` + p.amount + `, h.available_cents + h.held_cents, h.available_cents,
		h.application_id, h.consultation_id, h.topup_id, ` + p.description + `, h.last_entry_at, h.entry_hash
	FROM moved h
)` + p.also + `, posted AS (
	INSERT INTO postings (transaction_id, account, client_id, amount_cents)
	SELECT @ID, p.account, CASE WHEN p.account IN ('client_available', 'client_held') THEN h.client_id END, p.cents
	FROM moved h, LATERAL (VALUES ` + values + `) AS p (account, cents)
)
SELECT count(*) FROM moved`)
}

var parameter = regexp.MustCompile(`@[A-Za-z]+`)

// number replaces names by typed numbers.
func number(sql string) (st statement) {
	st.sql = parameter.ReplaceAllStringFunc(sql, func(at string) string {
		i := slices.Index(st.names, at[1:])
		if i < 0 {
			i = len(st.names)
			st.names = append(st.names, at[1:])
		}
		kind := "text"
		switch movement.value(movement{}, at[1:]).(type) {
		case int64:
			kind = "bigint"
		case time.Time:
			kind = "timestamptz"
		}
		return "CAST($" + strconv.Itoa(i+1) + " AS " + kind + ")"
	})
	return st
}

// given is the source of a movement that the caller describes in full.
const given = `SELECT @Client AS client_id, nullif(@Application, '') AS application_id, nullif(@Consultation, '') AS consultation_id,
	nullif(@TopUp, '') AS topup_id, @Amount AS cents`

// ended changes the hold of a consultation: at most one of two concurrent attempts finds it in the wanted condition.
func ended(set, condition string) string {
	return `
	UPDATE holds SET ` + set + ` WHERE consultation_id = @Consultation AND ` + condition + `
	RETURNING client_id, application_id, consultation_id, CAST(NULL AS text) AS topup_id, coalesce(refunded_cents, amount_cents) AS cents,
		lawyer_fee_cents, platform_fee_cents
`
}

// Postings are in the order of their accounts: the hash is over them in that order.
var (
	holdSQL = compile(plan{
		kind: Hold, source: given, guard: `w.available_cents >= h.cents`,
		amount: `-h.cents`, description: `'Consultation reserved'`,
		postings: []posting{{"client_available", "-h.cents"}, {"client_held", "h.cents"}},
		also: `, hold AS (
	INSERT INTO holds (id, client_id, application_id, consultation_id, amount_cents, lawyer_fee_cents, platform_fee_cents, state, created_at)
	SELECT @Hold, h.client_id, h.application_id, h.consultation_id, h.cents, @LawyerFee, @PlatformFee, 'ACTIVE', @Now FROM moved h
)`})

	releaseSQL = compile(plan{
		kind: Release, source: ended(`state = 'RELEASED', ended_at = @Now`, `state = 'ACTIVE'`),
		amount: `h.cents`, description: `'Reservation released'`,
		postings: []posting{{"client_available", "h.cents"}, {"client_held", "-h.cents"}}})

	captureSQL = compile(plan{
		kind: Capture, source: ended(`state = 'CAPTURED', ended_at = @Now`, `state = 'ACTIVE'`), pass: `, h.lawyer_fee_cents, h.platform_fee_cents`,
		amount: `-h.cents`, description: `'Consultation'`,
		postings: []posting{{"client_held", "-h.cents"}, {"lawyer_fee", "h.lawyer_fee_cents"}, {"platform_fee", "h.platform_fee_cents"}}})

	refundSQL = compile(plan{
		kind: Refund, source: ended(`refunded_cents = @Amount`, `state = 'CAPTURED' AND refunded_cents IS NULL AND amount_cents >= @Amount`),
		amount: `h.cents`, description: `'Refund'`,
		postings: []posting{{"client_available", "h.cents"}, {"refunds", "-h.cents"}}})

	// The wallet is locked when this runs, so it sees an earlier credit.
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
		amount: `-h.cents`, description: `'Top-up returned to its source'`,
		postings: []posting{{"client_available", "-h.cents"}, {"payment_clearing", "h.cents"}}})

	reverseSQL = compile(plan{
		kind: Adjustment, source: given, guard: `w.available_cents + h.cents >= 0`,
		amount: `h.cents`, description: `CASE WHEN h.cents < 0 THEN 'Payment taken back by the bank' ELSE 'Payment restored by the bank' END`,
		postings: []posting{{"client_available", "h.cents"}, {"payment_clearing", "-h.cents"}}})
)

// move runs a movement and tells whether its guard let it.
func move(ctx context.Context, tx postgres.Tx, st statement, m movement) (bool, error) {
	args := make([]any, len(st.names))
	for i, name := range st.names {
		args[i] = m.value(name)
	}
	var n int
	err := tx.SQL().QueryRowContext(ctx, st.sql, args...).Scan(&n)
	return n == 1, err
}

func openWallet(ctx context.Context, tx postgres.Tx, clientID string) error {
	return tx.Gorm(ctx).Exec(`INSERT INTO wallets (client_id, last_entry_at) VALUES (?, ?) ON CONFLICT DO NOTHING`, clientID, tx.Now).Error
}

// lockWallet also makes the wallet when there is none, so that there is a row to lock.
func lockWallet(ctx context.Context, tx postgres.Tx, clientID string) error {
	return tx.Gorm(ctx).Exec(`INSERT INTO wallets (client_id, last_entry_at) VALUES (?, ?)
		ON CONFLICT (client_id) DO UPDATE SET last_entry_at = wallets.last_entry_at`, clientID, tx.Now).Error
}

func readBalance(ctx context.Context, tx postgres.Tx, clientID string) (Balance, error) {
	var available, held int64
	err := tx.SQL().QueryRowContext(ctx, `SELECT available_cents, held_cents FROM wallets WHERE client_id = $1`, clientID).Scan(&available, &held)
	if err != nil && !postgres.IsNotFound(err) {
		return Balance{}, err
	}
	return Balance{Balance: money.Cents(available + held), Available: money.Cents(available), Held: money.Cents(held)}, nil
}

const transactionColumns = `id, type, seq, amount_cents, balance_after_cents, available_after_cents,
	coalesce(application_id, '') AS application_id, coalesce(consultation_id, '') AS consultation_id, description, created_at`

func listTransactions(ctx context.Context, tx postgres.Tx, clientID string, beforeSeq int64, limit int) ([]Transaction, error) {
	if beforeSeq == 0 {
		beforeSeq = 1<<63 - 1
	}
	return transactions(ctx, tx, limit, `SELECT `+transactionColumns+` FROM ledger_transactions
		WHERE client_id = $1 AND seq < $2 ORDER BY seq DESC LIMIT $3`, clientID, beforeSeq, limit)
}

// listLines adds all movements of the wallet up: a line is later changed by the charge and the refund of its consultation.
// A charge takes nothing from what is available, the reservation did.
func listLines(ctx context.Context, tx postgres.Tx, clientID string, beforeSeq int64, limit int) ([]Line, error) {
	if beforeSeq == 0 {
		beforeSeq = 1<<63 - 1
	}
	rows, err := tx.SQL().QueryContext(ctx, `WITH lines AS (
			SELECT min(seq) AS seq, (array_agg(type ORDER BY seq))[1] AS type, min(created_at) AS created_at,
				CASE WHEN consultation_id IS NULL THEN 'BOOKED' WHEN bool_or(type = 'REFUND') THEN 'REFUNDED' WHEN bool_or(type = 'CAPTURE') THEN 'PAID'
					WHEN bool_or(type = 'RELEASE') THEN 'RELEASED' ELSE 'RESERVED' END AS state,
				coalesce(sum(amount_cents) FILTER (WHERE type <> 'CAPTURE'), 0)::bigint AS amount,
				coalesce(sum(amount_cents) FILTER (WHERE type = 'REFUND'), 0)::bigint AS refunded,
				coalesce(max(application_id), '') AS application_id, coalesce(consultation_id, '') AS consultation_id
			FROM ledger_transactions WHERE client_id = $1
			GROUP BY ledger_transactions.consultation_id, CASE WHEN ledger_transactions.consultation_id IS NULL THEN id END
		), added AS (SELECT *, (sum(amount) OVER (ORDER BY seq))::bigint AS available FROM lines)
		SELECT seq, type, created_at, state, amount, available, refunded, application_id, consultation_id
		FROM added WHERE seq < $2 ORDER BY seq DESC LIMIT $3`, clientID, beforeSeq, limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	items := make([]Line, 0, limit)
	for rows.Next() {
		var l Line
		var amount, available, refunded int64
		if err := rows.Scan(&l.Seq, &l.Type, &l.CreatedAt, &l.State, &amount, &available, &refunded, &l.ApplicationID, &l.ConsultationID); err != nil {
			return nil, err
		}
		l.Amount, l.Available, l.Refunded, l.CreatedAt = money.Cents(amount), money.Cents(available), money.Cents(refunded), clock.Truncate(l.CreatedAt)
		items = append(items, l)
	}
	return items, rows.Err()
}

func monthOf(ctx context.Context, tx postgres.Tx, clientID string, from, to time.Time) ([]Transaction, error) {
	return transactions(ctx, tx, 0, `SELECT `+transactionColumns+` FROM ledger_transactions
		WHERE client_id = $1 AND created_at >= $2 AND created_at < $3 ORDER BY seq`, clientID, from, to)
}

// transactions reads the rows of a query for transactionColumns, about as many as expected.
func transactions(ctx context.Context, tx postgres.Tx, expected int, query string, args ...any) ([]Transaction, error) {
	rows, err := tx.SQL().QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	items := make([]Transaction, 0, expected)
	for rows.Next() {
		var t Transaction
		var amount, balance, available int64
		err := rows.Scan(&t.ID, &t.Type, &t.Seq, &amount, &balance, &available, &t.ApplicationID, &t.ConsultationID, &t.Description, &t.CreatedAt)
		if err != nil {
			return nil, err
		}
		t.Amount, t.BalanceAfter, t.AvailableAfter = money.Cents(amount), money.Cents(balance), money.Cents(available)
		t.CreatedAt = clock.Truncate(t.CreatedAt)
		items = append(items, t)
	}
	return items, rows.Err()
}

func balanceBefore(ctx context.Context, tx postgres.Tx, clientID string, before time.Time) (money.Cents, error) {
	var cents int64
	err := tx.SQL().QueryRowContext(ctx, `SELECT balance_after_cents FROM ledger_transactions
		WHERE client_id = $1 AND created_at < $2 ORDER BY seq DESC LIMIT 1`, clientID, before).Scan(&cents)
	if err != nil && !postgres.IsNotFound(err) {
		return 0, err
	}
	return money.Cents(cents), nil
}
