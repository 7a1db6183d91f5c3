package web

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/privacy"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/developers"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/operators"
)

// ended is a consultation whose call has ended and whose note is missing.
func (f *fixture) ended() consultation.Consultation {
	f.t.Helper()
	c := f.start()
	f.tx(func(tx postgres.Tx) {
		err := dbtest.Exec(f.t.Context(), tx, `UPDATE consultations SET status = 'CALL_ENDED', call_started_at = $2, call_ended_at = $2, duration_sec = 20, assigned_at = $2,
			lawyer_id = 'law_1' WHERE id = $1`, c.ID, f.clock.Now())
		if err != nil {
			f.t.Fatal(err)
		}
	})
	return c
}

// do sends the form of an action.
func (w *worker) do(path string, values ...string) page {
	w.t.Helper()
	form := w.get(path).form(path)
	form.Set("reason", "A test")
	for i := 0; i < len(values); i += 2 {
		form.Set(values[i], values[i+1])
	}
	return w.post(path, form)
}

// Every way to give money counts towards the limit of one person. These are an adjustment, a refund, and closing a
// consultation after its call, which releases the whole price.
func TestEveryWayToGiveMoneyCounts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.lawyer()
	w := f.join(staff.NewPerson{Kind: staff.Operator, Email: "two@partners.example", Name: "Olga Operator",
		Language: "en", Roles: []staff.Role{staff.Support, staff.Finance}})
	second := f.join(staff.NewPerson{Kind: staff.Operator, Email: "second@partners.example", Name: "Oscar Other",
		Language: "en", Roles: []staff.Role{staff.Finance}})
	done, ended := f.completed(), f.ended()
	client, cases := operators.Path("clients", f.client.ID), operators.Path("consultations", ended.ID)
	w.do(client+"/adjust", "amount", "6.00").wantRedirect(t, http.StatusSeeOther, client+"?done=adjust")
	refund := operators.Path("consultations", done.ID, "refund")
	w.get(refund+"?lang=en").want(t, http.StatusOK, `value="20.00"`)
	w.get(refund+"?lang=fr").want(t, http.StatusOK, `value="20,00"`)
	w.get("/ops?lang=en")
	w.do(operators.Path("consultations", done.ID)+"/refund", "amount", "4.01").wantRedirect(t, http.StatusSeeOther,
		operators.Path("consultations", done.ID)+"?done=proposed")
	w.do(cases+"/close", "why", "wrong_person").wantRedirect(t, http.StatusSeeOther, cases+"?done=proposed")
	if c := must(f.consultations.Peek(t.Context(), f.db.Read(), ended.ID)); c.Status != consultation.CallEnded {
		t.Fatalf("closed by one person alone: %s", c.Status)
	}
	w.do(cases+"/close", "why", "wrong_person").want(t, http.StatusUnprocessableEntity, "Another proposal")
	second.get("/ops").want(t, http.StatusOK, "Closure without a note", "Refund")
	before := must(f.wallet.Balance(t.Context(), f.db.Read(), f.client.ID))
	for _, p := range must(f.operators.ProposalsFor(t.Context(), f.db.Read(), ended.ID)) {
		second.do(operators.Path("proposals", p.ID, "confirm")).wantRedirect(t, http.StatusSeeOther,
			"/ops?done=confirm")
	}
	c := must(f.consultations.Peek(t.Context(), f.db.Read(), ended.ID))
	after := must(f.wallet.Balance(t.Context(), f.db.Read(), f.client.ID))
	if c.Status != consultation.Expired || c.EndReason != consultation.WrongPerson ||
		after.Available != before.Available+c.Price {
		t.Errorf("%s because of %s, %d available after %d", c.Status, c.EndReason, after.Available, before.Available)
	}
	w.do(operators.Path("consultations", f.ended().ID)+"/close", "why", "nonsense").want(t,
		http.StatusUnprocessableEntity)
	me := must(f.staff.ByEmail(t.Context(), f.db.Read(), w.email))
	other := f.newClient("other@client.example", "Other Client")
	f.clock.Advance(operator.FourEyesWindow)
	p := must(f.operators.Adjust(t.Context(), operator.Act{Actor: me.ID, Reason: "The day after"}, other.ID,
		operator.FourEyes))
	var left int
	if err := f.db.Pool().QueryRow(t.Context(), "SELECT count(*) FROM operator_amounts").Scan(&left); err != nil ||
		p.ID != "" || left != 1 {
		t.Errorf("a day later: proposed as %q, %d amounts are kept", p.ID, left)
	}
}

// Taking more than is available is refused with a message: alone, when proposed, and when confirmed after the money was
// spent. The second person can then reject the proposal.
func TestTakingMoreThanThereIsIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.operator(staff.Finance)
	path := operators.Path("clients", f.client.ID, "adjust")
	w.do(path, "amount", "-5.00").want(t, http.StatusUnprocessableEntity,
		"The wallet has less than this amount available.")
	other := must(f.staff.ByEmail(t.Context(), f.db.Read(), w.email))
	f.clock.Advance(1)
	second := f.join(staff.NewPerson{Kind: staff.Operator, Email: "second@partners.example", Name: "Oscar Other",
		Language: "en", Roles: []staff.Role{staff.Finance}})
	w.do(path, "amount", "-20.00").want(t, http.StatusUnprocessableEntity,
		"The wallet has less than this amount available.",
		"<dt>Available</dt><dd>€0.00</dd>")
	if open := must(f.operators.Proposals(t.Context(), f.db.Read())); len(open) != 0 {
		t.Fatalf("proposed: %+v", open)
	}
	gives := func(cents money.Cents) {
		f.tx(func(tx postgres.Tx) {
			if err := f.wallet.Adjust(t.Context(), tx, f.client.ID, cents, "test"); err != nil {
				t.Fatal(err)
			}
		})
	}
	gives(2000)
	p := must(f.operators.Adjust(t.Context(), operator.Act{Actor: other.ID, Reason: "x"}, f.client.ID, -2000))
	gives(-1)
	confirm, refuse := operators.Path("proposals", p.ID, "confirm"), operators.Path("proposals", p.ID, "refuse")
	second.do(confirm).want(t, http.StatusUnprocessableEntity,
		"The wallet has less than this amount available.", "€19.99")
	for _, at := range []string{"/ops", operators.Path("clients", f.client.ID)} {
		second.get(at).want(t, http.StatusOK, confirm, refuse)
		if body := w.get(at).body; strings.Contains(body, confirm) || !strings.Contains(body, refuse) {
			t.Errorf("%s: whoever proposed it can take it back, and no more", at)
		}
	}
	second.do(refuse).wantRedirect(t, http.StatusSeeOther, "/ops?done=refuse")
}

// A client's page shows an open proposal to adjust the wallet instead of a link to another one.
func TestAWaitingAdjustmentIsShownAtItsClient(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.operator(staff.Finance)
	client := operators.Path("clients", f.client.ID)
	w.get(client).want(t, http.StatusOK, client+"/adjust")
	w.do(client+"/adjust", "amount", "20.00").wantRedirect(t, http.StatusSeeOther, client+"?done=proposed")
	p := w.get(client)
	p.want(t, http.StatusOK, "An adjustment of €20.00 proposed by Olga Operator is waiting for a second person.")
	if strings.Contains(p.body, client+"/adjust") {
		t.Error("a second adjustment is offered")
	}
	f.exec("UPDATE operator_proposals SET expires_at = $1", f.clock.Now())
	w.get(client).want(t, http.StatusOK, client+"/adjust")
}

// Before an operator is invited again or disabled, the form shows which proposals end. Afterwards, the pages of the
// consultation and the client say when, why and by whom.
func TestProposalsEndWithTheirProposerInWords(t *testing.T) {
	t.Parallel()
	for _, act := range []string{"reinvite", "disable"} {
		t.Run(act, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.lawyer()
			admin := f.operator(staff.Admin)
			proposer := f.join(staff.NewPerson{Kind: staff.Operator, Email: "p@partners.example",
				Name: "Paula Proposer", Language: "en", Roles: []staff.Role{staff.Finance}})
			who := must(f.staff.ByEmail(t.Context(), f.db.Read(), proposer.email))
			by := operator.Act{Actor: who.ID, Reason: "x"}
			done := f.completed()
			must(f.operators.Adjust(t.Context(), by, f.client.ID, 2000))
			must(f.operators.GiveBack(t.Context(), by, done.ID, done.Price))
			f.clock.Advance(time.Minute)

			form := operators.Path("people", who.ID, act)
			admin.get(form).want(t, http.StatusOK, "open proposals", "€20.00, "+done.ID, "€20.00, "+f.client.ID)
			admin.do(form)
			early := "ended: its author lost the role, was disabled or was invited again"
			cases := admin.get(operators.Path("consultations", done.ID))
			cases.want(t, http.StatusOK, early, "proposal.end", "Olga Operator: A test",
				operators.Path("consultations", done.ID, "refund"))
			if strings.Contains(cases.body, "expired") {
				t.Error("it is said to have run out")
			}
			client := operators.Path("clients", f.client.ID)
			admin.get(client).want(t, http.StatusOK, "proposal.end", client+"/adjust")
			for _, p := range must(f.operators.ProposalsFor(t.Context(), f.db.Read(), done.ID)) {
				if end := p.EndedAt(f.clock.Now()); end == nil || !end.Equal(f.clock.Now()) || p.DecidedBy != "" {
					t.Errorf("%+v", p)
				}
			}
		})
	}
}

func TestProposalsEndWithTheRoleThatTheyNeed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.lawyer()
	f.operator(staff.Admin)
	proposer := f.join(staff.NewPerson{Kind: staff.Operator, Email: "p@partners.example", Name: "Paula Proposer",
		Language: "en", Roles: []staff.Role{staff.Finance}})
	who := must(f.staff.ByEmail(t.Context(), f.db.Read(), proposer.email)).ID
	adjustment := must(f.operators.Adjust(t.Context(), operator.Act{Actor: who, Reason: "x"}, f.client.ID, 2000))
	done := f.completed()
	refund := must(f.operators.GiveBack(t.Context(), operator.Act{Actor: who, Reason: "x"}, done.ID, done.Price))
	open := func(p operator.Proposal) bool {
		list := must(f.operators.ProposalsFor(t.Context(), f.db.Read(), p.Subject))
		return slices.ContainsFunc(list,
			func(q operator.Proposal) bool { return q.ID == p.ID && q.EndedAt(f.clock.Now()) == nil })
	}
	for _, step := range []struct {
		role                 staff.Role
		adjusting, givesBack bool
	}{{staff.Finance, true, true}, {staff.Support, false, true}, {staff.Security, false, false}} {
		err := f.operators.SetRoles(t.Context(), operator.Act{Actor: "cli", Reason: "y"}, who, []staff.Role{step.role})
		if err != nil || open(adjustment) != step.adjusting || open(refund) != step.givesBack {
			t.Errorf("as %s: adjustment open %t, refund open %t: %v", step.role, open(adjustment), open(refund), err)
		}
	}
}

// An open proposal prevents an erasure, and no money moves on an erased account.
func TestMoneyAndErasure(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.lawyer()
	ctx, o := t.Context(), f.operators
	w := f.operator(staff.Finance)
	me := must(f.staff.ByEmail(ctx, f.db.Read(), w.email))
	by := operator.Act{Actor: me.ID, Reason: "A test"}
	done := f.completed()
	f.tx(func(tx postgres.Tx) {
		b := must(f.wallet.Balance(ctx, tx, f.client.ID))
		if err := f.wallet.Adjust(ctx, tx, f.client.ID, -b.Available, "test"); err != nil {
			t.Fatal(err)
		}
	})
	erase := func() error {
		return f.db.InTx(ctx,
			func(tx postgres.Tx) error { return f.deps.Privacy.EraseAgain(ctx, tx, f.client.ID) })
	}
	for _, propose := range []func() (operator.Proposal, error){
		func() (operator.Proposal, error) { return o.Adjust(ctx, by, f.client.ID, 2000) },
		func() (operator.Proposal, error) { return o.GiveBack(ctx, by, done.ID, consultation.Price) },
	} {
		p := must(propose())
		var refused privacy.Refused
		if err := erase(); !errors.As(err, &refused) || !refused.Has(privacy.MoneyProposed) || len(refused) != 1 {
			t.Fatalf("erased while money is proposed: %v", err)
		}
		must(o.Refuse(ctx, by, p.ID))
	}
	if err := erase(); err != nil {
		t.Fatal(err)
	}
	f.tx(func(tx postgres.Tx) { // as an older version could have left it
		err := dbtest.Exec(ctx, tx, `INSERT INTO operator_proposals (id, kind, subject, amount_cents, proposed_by, reason, state, created_at, expires_at)
			VALUES ('prp_test_1', 'REFUND', $1, 2000, $2, 'x', 'OPEN', $3::timestamptz, $3::timestamptz + interval '4 days'), ('prp_test_2', 'ADJUSTMENT', $4, 2000, $2, 'x', 'OPEN', $3::timestamptz, $3::timestamptz + interval '4 days')`,
			done.ID, me.ID, f.clock.Now(), f.client.ID)
		if err != nil {
			t.Fatal(err)
		}
	})
	second := operator.Act{Actor: "stf_other", Reason: "A test"}
	_, refund := o.GiveBack(ctx, by, done.ID, 100)
	_, adjust := o.Adjust(ctx, by, f.client.ID, 100)
	_, direct := o.AdjustWallet(ctx, wallet.Correction{ClientID: f.client.ID, Amount: 100, Actor: "cli:demo",
		Reason: "A test"})
	_, consult := o.RefundConsultation(ctx, operator.Act{Actor: "cli:demo", Reason: "A test"}, done.ID, 100)
	_, first := o.Confirm(ctx, second, "prp_test_1")
	_, next := o.Confirm(ctx, second, "prp_test_2")
	for name, err := range map[string]error{
		"refund": refund, "adjust": adjust, "wallet adjust": direct, "consultation refund": consult,
		"confirm a refund": first, "confirm": next,
	} {
		if !errors.Is(err, operator.ErrErased) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if f.balance() != 0 {
		t.Errorf("%d cents in a wallet of nobody", f.balance())
	}
	w.do(operators.Path("clients", f.client.ID, "adjust"), "amount", "1.00").want(t, http.StatusUnprocessableEntity,
		"account has been erased")
}

// Forms accept amounts in the format in which they display them, and accept either decimal mark in either language.
func TestAmountsAreWrittenAsTheyAreRead(t *testing.T) {
	t.Parallel()
	for lang, want := range map[string]string{"en": "1234.05", "fr": "1234,05"} {
		if got := operators.AmountInput(123405, lang); got != want {
			t.Errorf("%s: %q", lang, got)
		}
	}
	for written, want := range map[string]money.Cents{
		"20,00": 2000, "20.00": 2000, "20": 2000, "-1,50": -150, "-1.50": -150, "0,01": 1,
		"12,5": 1250, "12.5": 1250, " 12,50 ": 1250, "+7": 700, "1234,50": 123450, "-0,5": -50,
	} {
		if got, err := forms.Amount(url.Values{"amount": {written}}, "amount", false); err != nil || got != want {
			t.Errorf("%q: %d, %v", written, got, err)
		}
	}
	for _, bad := range []string{"1 234,50", "1\u202f234,50", "1,234.50", "1.234,50", "1.234", "1,234", "1'234", "12,",
		",5", "12,505", "x", "1e3", ""} {
		if got, err := forms.Amount(url.Values{"amount": {bad}}, "amount", false); !errors.Is(err, forms.ErrInput) {
			t.Errorf("%q: %d, %v", bad, got, err)
		}
	}
}

// Every form with an amount applies the same rule, and says at the field what is wrong.
func TestEveryFormTakesAmountsByOneRule(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.lawyer()
	w, done := f.operator(staff.Support, staff.Finance), f.completed()
	adjust, refund := operators.Path("clients", f.client.ID, "adjust"),
		operators.Path("consultations", done.ID, "refund")
	partner := f.member(portal.Owner)
	for _, form := range []struct {
		w           *worker
		path, field string
	}{{w, adjust, "amount"}, {w, refund, "amount"}, {partner, developers.Path(f.app.ID, "clients", "new"), "euros"}} {
		for _, bad := range []string{"1 234,50", "1,234.50"} {
			form.w.do(form.path, "name", "N", form.field, bad).want(t, http.StatusUnprocessableEntity,
				`id="`+form.field+`-fault"`, "“"+bad+"” is not an amount in euros, such as 1234.50. Leave out "+
					"thousands separators.")
		}
		if p := form.w.do(form.path, "name", "N", form.field, "1,5"); p.StatusCode != http.StatusSeeOther {
			t.Errorf("%s: %d\n%s", form.path, p.StatusCode, p.body)
		}
	}
	made := developers.Path(f.app.ID, "clients", "new")
	partner.do(made, "name", "N", "euros", "2000,01").want(t, http.StatusUnprocessableEntity,
		"is not an amount from 0 to 2000 euros.")
	if b := must(f.wallet.Balance(t.Context(), f.db.Read(), f.client.ID)).Balance; b != 5000-2000+2*150 {
		t.Errorf("the wallet has %d", b)
	}
}

// The form to change a person's roles shows the proposals that end with the role, in both languages.
func TestTheFormForRolesShowsWhatEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	subjects, c := f.opsDesk()
	w := f.operator(staff.Admin)
	path := operators.Path("people", subjects["people"], "roles")
	w.get(path+"?lang=en").want(t, http.StatusOK, "Proposal that ends unless a remaining role allows it", "Refund",
		"€20.00, "+c.ID)
	w.get(path+"?lang=fr").want(t, http.StatusOK,
		"Proposition qui prend fin si aucun rôle conservé ne permet de la faire", "20,00\u00a0€, "+c.ID)
}
