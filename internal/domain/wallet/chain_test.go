package wallet_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"partnerd/internal/infra/postgres"
)

// Verify names every changed transaction or posting, even if all sums still agree, because the transaction's hash no
// longer matches.
func TestTheChainNamesAChangedRow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	client := f.client()
	session := f.session(client, 9000)
	f.must(func(tx postgres.Tx) error {
		return f.wallets.TopUp(t.Context(), tx, client, application, session, 9000)
	})
	err := errors.Join(f.hold(f.wallets, client, "con_1", 2000), f.capture("con_1"), f.refund("con_1", 500))
	if err != nil {
		t.Fatal(err)
	}
	f.sound()
	const of = ` WHERE transaction_id = (SELECT id FROM ledger_transactions WHERE seq = `
	for name, c := range map[string]struct {
		number int // the transaction that must be named
		sql    []string
	}{
		"flipped posting": {2,
			[]string{`UPDATE postings SET amount_cents = -amount_cents` + of + `2) AND account = 'client_held'`}},
		"flipped pair": {4, []string{`UPDATE postings SET amount_cents = -amount_cents` + of + `4)`}},
		"fees exchanged": {3,
			[]string{`UPDATE postings SET amount_cents = 2000 - amount_cents WHERE account IN ('lawyer_fee', 'platform_fee')`}},
		"moved posting": {4, []string{`UPDATE postings SET account = 'adjustments' WHERE account = 'refunds'`}},
		"amount": {1,
			[]string{`UPDATE ledger_transactions SET amount_cents = amount_cents + 1 WHERE seq = 1`}},
		"description": {3, []string{`UPDATE ledger_transactions SET description = 'Something else' WHERE seq = 3`}},
		"time": {4,
			[]string{
				`UPDATE ledger_transactions SET created_at = created_at + interval '1 microsecond' WHERE seq = 4`,
			}},
		"application": {2, []string{`UPDATE ledger_transactions SET application_id = NULL WHERE seq = 2`}},
		"hash":        {2, []string{`UPDATE ledger_transactions SET hash = sha256(hash) WHERE seq = 2`}},
		"removed, the others renumbered": {2, []string{`DELETE FROM postings` + of + `2)`,
			`DELETE FROM ledger_transactions WHERE seq = 2`,
			`UPDATE ledger_transactions SET seq = seq - 1 WHERE seq > 2`}},
	} {
		want := fmt.Sprintf("number %d of wallet %s does not match its hash", c.number, client)
		findings := f.manipulated(c.sql...)
		if !slices.ContainsFunc(findings, func(s string) bool { return strings.Contains(s, want) }) {
			t.Errorf("%s: findings %q do not name number %d", name, findings, c.number)
		}
	}
	if findings := f.manipulated(`UPDATE wallets SET entry_hash = sha256(entry_hash)`); len(findings) != 1 {
		t.Errorf("another newest hash in the wallet: findings %q", findings)
	}
	f.sound()
}

// BenchmarkHold measures a hold and its release on one wallet. BenchmarkHash measures the cost of the hash chain in a
// movement.
func BenchmarkHold(b *testing.B) {
	f := newFixture(b)
	client := f.funded(2000)
	for i := 0; b.Loop(); i++ {
		id := fmt.Sprintf("con_%d", i)
		if err := errors.Join(f.hold(f.wallets, client, id, 2000), f.release(id)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHash(b *testing.B) {
	f := newFixture(b)
	const each = 1000
	for b.Loop() {
		f.exec(`SELECT count(ledger_hash(sha256('x'), 'txn_' || n, 'cli_1', n, 'HOLD', -2000, 10000, 8000, 'app_1', 'con_1', NULL,
			'Consultation reserved', now(), 'client_available:' || -n || ',client_held:' || n)) FROM generate_series(1::bigint, $1) n`, each)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*each), "µs/hash")
}
