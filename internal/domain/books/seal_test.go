package books_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/books"
	"partnerd/internal/infra/postgres"
)

// corrupt runs statements that the database allows only its owner.
func (f *fixture) corrupt(statements ...string) {
	f.t.Helper()
	owner := dbtest.Owner(f.t, f.db).Pool()
	all := slices.Concat([]string{`ALTER TABLE ledger_transactions DISABLE TRIGGER USER`,
		`ALTER TABLE postings DISABLE TRIGGER USER`, `ALTER TABLE consultation_evidence DISABLE TRIGGER USER`,
		`ALTER TABLE evidence_chain DISABLE TRIGGER USER`}, statements)
	for _, sql := range all {
		if _, err := owner.Exec(f.t.Context(), sql); err != nil {
			f.t.Fatalf("%s: %v", sql, err)
		}
	}
}

// story creates a charged, a released and an open consultation, and a top-up that is partly refunded; n makes their IDs
// unique.
func (f *fixture) story(n int) {
	f.t.Helper()
	id := func(what string) string { return fmt.Sprintf("%s_%d", what, n) }
	f.topUp(id("top"), 9000)
	for _, what := range []string{"con_held", "con_released", "con_captured"} {
		f.consultation(id(what))
		f.exec(`INSERT INTO evidence_chain (seq, consultation_id, chained_at, hash)
			SELECT coalesce(l.seq, 0) + 1, e.consultation_id, $2, evidence_hash(coalesce(l.hash, ''), e.consultation_id, e.application_id, e.client_id, e.acknowledged_at, e.text_version,
				e.text_sha256, e.stated_version, e.stated_language, e.request_id, e.idempotency_key_sha256, e.address, e.user_agent)
			FROM consultation_evidence e LEFT JOIN (SELECT seq, hash FROM evidence_chain ORDER BY seq DESC LIMIT 1) l ON true WHERE e.consultation_id = $1`, id(what), start)
	}
	f.tx(func(tx postgres.Tx) error {
		return errors.Join(f.wallets.Release(f.t.Context(), tx, id("con_released")),
			f.wallets.Capture(f.t.Context(), tx, id("con_captured")),
			f.wallets.Refund(f.t.Context(), tx, id("con_captured"), 500),
			f.wallets.Withdraw(f.t.Context(), tx, "cli_1", id("top"), 700))
	})
	f.exec(`UPDATE consultations SET status = 'CANCELLED', cancelled_at = $1 WHERE id = $2`, start, id("con_released"))
	f.exec(`UPDATE consultations SET status = 'COMPLETED', lawyer_id = 'law_1', call_started_at = $1, completed_at = $1 WHERE id = $2`, start, id("con_captured"))
	f.exec(`INSERT INTO topup_refunds (id, topup_id, client_id, amount_cents, state, reason, next_at, created_at) VALUES ($2, $3, 'cli_1', 700, 'PENDING', 'r', $1, $1)`,
		start, id("ref"), id("top"))
}

func (f *fixture) examine() books.Check {
	f.t.Helper()
	c, err := f.books.Examine(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

func (f *fixture) examineAll() books.Check {
	f.t.Helper()
	c, err := f.books.ExamineAll(f.t.Context(), func(string) {})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// corruptions change rows of the story with number N.
var corruptions = []struct {
	name, finding string
	sql           []string
}{
	{"posting without its counterpart", "postings sum to", []string{`DELETE FROM postings WHERE account = 'platform_fee' AND transaction_id IN (SELECT id FROM ledger_transactions WHERE consultation_id LIKE '%_N')`}},
	{"posting flipped", "does not match its hash", []string{`UPDATE postings SET amount_cents = -amount_cents WHERE transaction_id IN (SELECT id FROM ledger_transactions WHERE consultation_id = 'con_held_N')`}},
	{"posting of somebody else", "a posting belongs to client cli_2", []string{`UPDATE postings SET client_id = 'cli_2' WHERE account = 'client_held' AND transaction_id IN (SELECT id FROM ledger_transactions WHERE consultation_id = 'con_held_N')`}},
	{"amount", "moved -2000 available",
		[]string{`UPDATE ledger_transactions SET amount_cents = -1999 WHERE consultation_id = 'con_held_N'`}},
	{"description", "does not match its hash",
		[]string{`UPDATE ledger_transactions SET description = 'Something else' WHERE consultation_id = 'con_held_N'`}},
	{"hash", "does not match its hash",
		[]string{`UPDATE ledger_transactions SET hash = sha256(hash) WHERE consultation_id = 'con_held_N'`}},
	{"time", "is older than the previous one", []string{`UPDATE ledger_transactions SET created_at = created_at - interval '1 day' WHERE consultation_id = 'con_held_N'`}},
	{"balance afterwards", "available, the postings give",
		[]string{`UPDATE ledger_transactions SET balance_after_cents = 1 WHERE consultation_id = 'con_held_N'`}},
	{"transaction removed", "is at position", []string{`DELETE FROM postings WHERE transaction_id IN (SELECT id FROM ledger_transactions WHERE consultation_id = 'con_held_N')`,
		`DELETE FROM ledger_transactions WHERE consultation_id = 'con_held_N'`}},
	{"hold forgotten", "consultation con_held_N: is MATCHING, its hold is missing",
		[]string{`DELETE FROM holds WHERE consultation_id = 'con_held_N'`}},
	{"hold of another end", "hold",
		[]string{
			`UPDATE holds SET state = 'RELEASED', refunded_cents = NULL WHERE consultation_id = 'con_captured_N'`,
		}},
	{"consultation charged and cancelled", "con_released_N: is COMPLETED, its hold is RELEASED", []string{
		`UPDATE consultations SET status = 'COMPLETED', lawyer_id = 'law_1', call_started_at = now(), completed_at = now(), cancelled_at = NULL WHERE id = 'con_released_N'`}},
	{"credit without payment", "top-up top_N: is OPEN for 9000 cents",
		[]string{`UPDATE topup_sessions SET status = 'OPEN', ended_at = NULL WHERE id = 'top_N'`}},
	{"refund without movement", "top-up top_N: 800 cents",
		[]string{`UPDATE topup_refunds SET amount_cents = 800 WHERE topup_id = 'top_N'`}},
	{"evidence changed", "evidence of consultation con_held_N: number",
		[]string{`UPDATE consultation_evidence SET address = 'x' WHERE consultation_id = 'con_held_N'`}},
	{"evidence removed", "consultation con_held_N: has no evidence",
		[]string{`DELETE FROM evidence_chain WHERE consultation_id = 'con_held_N'`,
			`DELETE FROM consultation_evidence WHERE consultation_id = 'con_held_N'`}},
}

// The nightly check finds a change made after sealing, for as long as it lasts. A change to sealed rows is found by a
// complete check.
func TestCorruptionIsFoundOnEitherSideOfTheSeal(t *testing.T) {
	t.Parallel()
	for _, c := range corruptions {
		for number, when := range []string{"before", "after"} {
			t.Run(c.name+" "+when, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				f.story(0)
				if first := f.examine(); len(first.Findings) > 0 || !first.Complete {
					t.Fatalf("the first examination: %+v", first)
				}
				f.story(1)
				for _, sql := range c.sql {
					f.corrupt(strings.ReplaceAll(sql, "_N", fmt.Sprint("_", number)))
				}
				examine := f.examineAll
				if when == "after" {
					examine = f.examine
				}
				want := strings.ReplaceAll(c.finding, "_N", fmt.Sprint("_", number))
				for range 2 { // no check seals what is wrong
					if found := examine(); !strings.Contains(strings.Join(found.Findings, "\n"), want) ||
						found.Complete != (when == "before") {
						t.Errorf("%+v lacks %q", found, want)
					}
				}
			})
		}
	}
}

// A wallet whose figures do not follow from its seal is found, even if no money has moved after the seal.
func TestTheFiguresOfEveryWalletFollowFromItsSeal(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.story(0)
	f.examine()
	for name, c := range map[string]struct{ do, undo, finding string }{
		"available": {`UPDATE wallets SET available_cents = available_cents + 1 WHERE client_id = 'cli_2'`,
			`UPDATE wallets SET available_cents = available_cents - 1 WHERE client_id = 'cli_2'`,
			"wallet cli_2: has 4001 available"},
		"number": {`UPDATE wallets SET entry_seq = entry_seq - 1 WHERE client_id = 'cli_1'`,
			`UPDATE wallets SET entry_seq = entry_seq + 1 WHERE client_id = 'cli_1'`, "wallet cli_1: counts"},
		"hash": {`UPDATE wallets SET entry_hash = '\x00' || entry_hash WHERE client_id = 'cli_2'`,
			`UPDATE wallets SET entry_hash = substr(entry_hash, 2) WHERE client_id = 'cli_2'`,
			"wallet cli_2: its newest transaction does not match its stored hash"},
		"seal": {`UPDATE ledger_seals SET available_cents = available_cents + 1 WHERE client_id = 'cli_2'`,
			`UPDATE ledger_seals SET available_cents = available_cents - 1 WHERE client_id = 'cli_2'`,
			"wallet cli_2: "},
		"both": {`WITH w AS (UPDATE wallets SET available_cents = available_cents + 1 WHERE client_id = 'cli_2') UPDATE ledger_seals SET available_cents = available_cents + 1 WHERE client_id = 'cli_2'`,
			`WITH w AS (UPDATE wallets SET available_cents = available_cents - 1 WHERE client_id = 'cli_2') UPDATE ledger_seals SET available_cents = available_cents - 1 WHERE client_id = 'cli_2'`, "wallet cli_2: was sealed at number"},
	} {
		f.corrupt(c.do)
		for _, found := range []books.Check{f.examine(), f.examineAll()} {
			if !strings.Contains(strings.Join(found.Findings, "\n"), c.finding) {
				t.Errorf("%s: %+v", name, found)
			}
		}
		f.corrupt(c.undo)
		if found := f.examine(); len(found.Findings) > 0 || found.Complete {
			t.Errorf("%s, put right: %+v", name, found)
		}
	}
}

// Every nightly check reports a refund rejected by its provider, and still seals.
func TestARefusedRefundIsToldAndSealed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.story(0)
	f.exec(`UPDATE topup_refunds SET state = 'FAILED', ended_at = now(), last_error = 'no'`)
	for i := range 3 {
		if found := f.examine(); len(found.Findings) != 1 || found.Complete != (i == 0) {
			t.Errorf("%+v", found)
		}
	}
}

// Movements that commit during a check raise no alarm, and the next check leaves none of them out.
func TestMovementsDuringAnExaminationRaiseNoAlarm(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.story(0)
	f.examine()
	var moving sync.WaitGroup
	for w := range 4 {
		moving.Go(func() {
			for i := range 25 {
				client := fmt.Sprint("cli_", 1+w%2)
				err := f.db.InTx(t.Context(), func(tx postgres.Tx) error {
					return errors.Join(f.wallets.Adjust(t.Context(), tx, client, 100, "More"),
						f.wallets.Adjust(t.Context(), tx, client, -100, "Less"))
				})
				if err != nil {
					t.Errorf("movement %d: %v", i, err)
				}
			}
		})
	}
	for i := range 10 {
		c, err := f.books.Examine(t.Context())
		if i%5 == 4 {
			c, err = f.books.ExamineAll(t.Context(), func(string) {})
		}
		if err != nil || len(c.Findings) > 0 {
			t.Errorf("%+v, %v", c, err)
		}
	}
	moving.Wait()
	if c := f.examine(); len(c.Findings) > 0 || c.Complete {
		t.Errorf("%+v", c)
	}
	if n := f.unsealed(); n != 0 {
		t.Errorf("%d transactions were not examined", n)
	}
}

func (f *fixture) unsealed() (n int) {
	f.t.Helper()
	err := f.db.Pool().QueryRow(f.t.Context(), `SELECT count(*) FROM ledger_transactions t WHERE NOT EXISTS (SELECT FROM ledger_seals s WHERE s.client_id = t.client_id AND s.seq >= t.seq)`).Scan(&n)
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}
