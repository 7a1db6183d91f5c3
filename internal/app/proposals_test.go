package app

import (
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/books"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/postgres"
)

// TestMoneyAboveTheLimitTakesTwoPeople checks that above the limit one person proposes and another confirms, once,
// however many try at the same time.
func TestMoneyAboveTheLimitTakesTwoPeople(t *testing.T) {
	t.Parallel()
	cfg := good()
	cfg.DatabaseURL, cfg.DataDir, cfg.DatabaseConns = dbtest.URL(t), filepath.Join(t.TempDir(), "data"), 12
	a, err := Open(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	ctx, o := t.Context(), a.Operator
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	person := func(email string) operator.Act {
		var p staff.Person
		must(a.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
			p, _, err = a.Staff.Invite(ctx, tx, staff.NewPerson{Kind: staff.Operator, Email: email, Name: "An Operator",
				Language: "en", Roles: []staff.Role{staff.Finance}})
			return err
		}))
		return operator.Act{Actor: p.ID, Reason: "The line dropped"}
	}
	ann, ben := person("ann@partners.example"), person("ben@partners.example")
	c, err := o.CreateClient(ctx, ann,
		account.NewClient{Email: "a@client.example", Password: "for the tests only, please", Name: "A Client"}, 5000)
	must(err)
	balance := func(want int64) {
		t.Helper()
		b, err := a.Wallet.Balance(ctx, a.DB.Read(), c.ID)
		must(err)
		if int64(b.Available) != want {
			t.Errorf("%d cents are available, want %d", b.Available, want)
		}
	}

	p, err := o.Adjust(ctx, ann, c.ID, operator.FourEyes)
	if must(err); p.ID != "" {
		t.Error("the limit itself needs a second person")
	}
	balance(6000)
	once := ann
	once.Entry = "aud_test_0000000000000000000000000a"
	forget := func() {
		if _, err := a.DB.Pool().Exec(ctx, "DELETE FROM operator_amounts"); err != nil {
			t.Fatal(err)
		}
	}
	forget()
	for i, want := range []error{nil, audit.ErrRepeated} {
		if _, err := o.Adjust(ctx, once, c.ID, -500); !errors.Is(err, want) {
			t.Errorf("form sent for the %d. time: %v", i+1, err)
		}
	}
	balance(5500)
	if p, err = o.Adjust(ctx, ben, c.ID, -501); err != nil || p.ID == "" {
		t.Errorf("two people moved more of one client than one alone may: %+v, %v", p, err)
	}
	_, err = o.Refuse(ctx, ben, p.ID)
	must(err)
	_, err = o.Adjust(ctx, ben, c.ID, -500)
	must(err)
	balance(5000)
	forget()

	p, err = o.Adjust(ctx, ann, c.ID, operator.FourEyes+1)
	must(err)
	balance(5000)
	if _, err := o.Adjust(ctx, ben, c.ID, -2000); !errors.Is(err, operator.ErrProposed) {
		t.Errorf("a second proposal for the client: %v", err)
	}
	if _, err := o.Confirm(ctx, ann, p.ID); !errors.Is(err, operator.ErrOwn) {
		t.Errorf("confirmed by the one who proposed: %v", err)
	}
	if _, err := o.Confirm(ctx, operator.Act{Actor: ben.Actor}, p.ID); !errors.Is(err, operator.ErrNoReason) {
		t.Errorf("confirmed without a reason: %v", err)
	}
	var wg sync.WaitGroup
	results := make([]error, 8)
	must(a.DB.InTx(ctx, func(tx postgres.Tx) error { // so that all have begun before one ends
		if err := dbtest.Exec(ctx, tx, "SELECT FROM operator_proposals WHERE id = $1 FOR UPDATE", p.ID); err != nil {
			return err
		}
		for i := range results {
			wg.Go(func() { _, results[i] = o.Confirm(ctx, ben, p.ID) })
		}
		dbtest.AwaitWaiters(t, a.DB, len(results))
		return nil
	}))
	wg.Wait()
	done := 0
	for _, err := range results {
		if err == nil {
			done++
		} else if !errors.Is(err, operator.ErrDecided) {
			t.Error(err)
		}
	}
	if done != 1 {
		t.Errorf("%d of %d confirmations succeeded", done, len(results))
	}
	balance(6001)

	p, err = o.Adjust(ctx, ben, c.ID, 3000)
	must(err)
	_, err = o.Refuse(ctx, ann, p.ID)
	must(err)
	if _, err := o.Confirm(ctx, ann, p.ID); !errors.Is(err, operator.ErrDecided) {
		t.Errorf("confirmed what was refused: %v", err)
	}
	p, err = o.Adjust(ctx, ben, c.ID, 3000)
	must(err)
	if _, err := a.DB.Pool().Exec(ctx, `UPDATE operator_proposals SET created_at = created_at - $1::interval, expires_at = expires_at - $1::interval WHERE id = $2`,
		operator.ProposalLifetime+time.Second, p.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Confirm(ctx, ann, p.ID); !errors.Is(err, operator.ErrDecided) {
		t.Errorf("confirmed what ran out: %v", err)
	}
	if _, err = o.Adjust(ctx, ben, c.ID, 3001); err != nil {
		t.Errorf("proposed again after the first ran out: %v", err)
	}
	balance(6001)
	if _, err := o.Adjust(ctx, ben, c.ID, wallet.MaxAdjustment+1); !errors.Is(err, wallet.ErrTooMuch) {
		t.Errorf("more than one adjustment may move: %v", err)
	}

	// Concurrent actions by one person: those within the limit are done, and one of the others is proposed.
	other, err := o.CreateClient(ctx, ann,
		account.NewClient{Email: "b@client.example", Password: "for the tests only, please", Name: "B Client"}, 0)
	must(err)
	forget()
	outcomes := make([]error, 10)
	must(a.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := dbtest.Exec(ctx, tx, "SELECT FROM staff WHERE id = $1 FOR UPDATE", ann.Actor); err != nil {
			return err
		}
		for i := range outcomes {
			wg.Go(func() { _, outcomes[i] = o.Adjust(ctx, ann, other.ID, 400) })
		}
		dbtest.AwaitWaiters(t, a.DB, len(outcomes))
		return nil
	}))
	wg.Wait()
	refused := 0
	for _, err := range outcomes {
		if errors.Is(err, operator.ErrProposed) {
			refused++
		} else if err != nil {
			t.Error(err)
		}
	}
	b, err := a.Wallet.Balance(ctx, a.DB.Read(), other.ID)
	must(err)
	if b.Available != 800 || refused != len(outcomes)-3 {
		t.Errorf("%d cents are available, %d refused", b.Available, refused)
	}
	// No one can confirm a proposal of a disabled person.
	must(o.DisablePerson(ctx, ben, ann.Actor))
	open, err := o.OpenFor(ctx, a.DB.Read(), other.ID)
	if must(err); open {
		t.Error("the proposal of a disabled person is open")
	}

	entries, err := audit.List(ctx, a.DB.Read(), c.ID, 0, 100)
	must(err)
	counts := map[string]int{}
	for _, e := range entries {
		counts[e.Action]++
	}
	for action, want := range map[string]int{
		"wallet.adjust": 3, "wallet.propose_adjust": 5, "proposal.confirm": 1, "proposal.refuse": 2,
	} {
		if counts[action] != want {
			t.Errorf("%d entries of %s, want %d", counts[action], action, want)
		}
	}
	findings, err := books.Verify(ctx, a.DB.Read())
	if must(err); len(findings) > 0 {
		t.Error(findings)
	}
}
