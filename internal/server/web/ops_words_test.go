package web

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/operators"
)

// A lawyer who was suspended in a call has no time of last activity, instead of the beginning of Unix time.
func TestNobodyWasSeenIn1970(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	subjects, _ := f.opsDesk()
	f.tx(func(tx postgres.Tx) {
		err := dbtest.Exec(t.Context(), tx, `UPDATE lawyers SET state = 'BUSY' WHERE id = $1`, subjects["lawyers"])
		if err == nil {
			err = f.lawyers.Suspend(t.Context(), tx, subjects["lawyers"], lawyer.BySuspension, false)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	for path, page := range f.everyOpsPage(subjects) {
		if strings.Contains(page.body, "1970") {
			t.Errorf("%s shows 1970", path)
		}
	}
}

// everyOpsPage returns every page as an admin sees it.
func (f *fixture) everyOpsPage(subjects map[string]string) map[string]page {
	w, pages := f.operator(staff.Admin), map[string]page{}
	for _, r := range f.pages.operators.Reads() {
		path := addressOf(r.Path, subjects, f.app.ID)
		pages[path] = w.get(path)
	}
	return pages
}

// The page of a consultation shows who proposed a refund and how much, and offers no second one.
func TestAProposedRefundIsSeenAtItsConsultation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	subjects, c := f.opsDesk()
	path := operators.Path("consultations", c.ID)
	p := f.operator(staff.Finance).get(path)
	p.want(t, 200, "A refund of €20.00 proposed by Oscar Other is waiting for a second person.",
		operators.Path("proposals", subjects["proposals"], "confirm"))
	if strings.Contains(p.body, path+"/refund") {
		t.Error("another refund is offered")
	}
	f.clock.Advance(operator.ProposalLifetime)
	f.operator(staff.Finance).get(path).want(t, 200, path+"/refund")
}

// Pages name people, bars, practice areas and reasons. The timeline says whose phone it was.
func TestOperatorsReadWordsAndNames(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	subjects, c := f.opsDesk()
	f.tx(func(tx postgres.Tx) {
		err := dbtest.Exec(t.Context(), tx, `INSERT INTO calls (id, consultation_id, client_id, lawyer_id, attempt, state, record, language, started_at, last_event_at, ended_at, outcome, reason)
			VALUES ('cal_1', $1, $2, 'law_1', 1, 'ENDED', false, 'FR', $3, $3, $3, 'FINISHED', 'by_client')`,
			c.ID, f.client.ID, f.clock.Now())
		if err == nil {
			err = dbtest.Exec(t.Context(), tx,
				`INSERT INTO call_events (call_id, event_id, kind, at, fitted, role) VALUES ('cal_1', 'e1', 'LEG_RINGING', $1, true, 'LAWYER')`, f.clock.Now())
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	w := f.operator(staff.Admin)
	w.get(operators.Path("consultations", c.ID)).want(t, 200, "ringing<span class=\"hint\">, lawyer’s phone</span>",
		"the client hung up", "Family law, French")
	w.get(operators.Path("lawyers", "law_1")).want(t, 200, "<h1>Lawyer L <code")
	w.get(operators.Path("lawyers", "law_1", "check")).want(t, 200, "L", `<option value="Paris">`,
		`<a href="/ops/lawyers" aria-current="true"`)
	w.get(operators.Path("people", subjects["people"], "roles")).want(t, 200, "Oscar Other")
}

// A bar registration check accepts only a known bar and a well-formed number that no other lawyer has. The page shows
// the chosen day.
func TestACheckedRegistrationIsOneThatCanBe(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.opsDesk()
	w := f.operator(staff.Security)
	path := operators.Path("lawyers", "law_1", "check")
	until := f.clock.Now().AddDate(0, 6, 0).Format(time.DateOnly)
	form := func(bar, number string, more ...string) []string {
		return append([]string{"bar", bar, "number", number, "until", until, "reason", "Looked up"}, more...)
	}
	w.opsPost(path, form("Atlantis", "P1")...).want(t, 422, "No bar with this name is known")
	w.opsPost(path, form("Paris", "P\u202e1")...).want(t, 422, "A bar registration number has up to 20")
	w.opsPost(path, form("  pArIs ", "P 123")...).wantRedirect(t, http.StatusSeeOther,
		operators.Path("lawyers", "law_1")+"?done=check")
	w.get(operators.Path("lawyers", "law_1")).want(t, 200, "<dd>Paris</dd>", ">1 December 2026</time>")

	other := f.anotherLawyer()
	w.opsPost(operators.Path("lawyers", other, "check"), form("PARIS", "p123")...).want(t, 422,
		"belongs to another lawyer")
	w.opsPost(operators.Path("lawyers", other, "check"), form("Bruxelles", "P 123", "otherbar",
		"yes")...).wantRedirect(t,
		http.StatusSeeOther, operators.Path("lawyers", other)+"?done=check")
	w.get(operators.Path("lawyers", other)).want(t, 200, "The same number is recorded for L, bar of Paris.")
}

// An operator changes a partner's webhook URL. The URL must respond first, and the partner is notified.
func TestAnOperatorMendsAWebhookURL(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.opsDesk()
	w := f.operator(staff.Security)
	path := operators.Path("applications", f.app.ID, "webhook-url")
	w.get(operators.Path("applications", f.app.ID)).want(t, 200, path)
	w.opsPost(path, "url", "http://[::1", "reason", "Asked for by the partner").want(t, 422, "alert")
	w.opsPost(path, "url", "", "reason", "Asked for by the partner").wantRedirect(t, http.StatusSeeOther,
		operators.Path("applications", f.app.ID)+"?done=webhook-url")
	f.clock.Advance(time.Minute)
	f.operator(staff.Support).get(path).want(t, 403)
}

// Every reason of a call or a lawyer has a text.
func TestReasonsAreInWords(t *testing.T) {
	t.Parallel()
	for _, r := range telephony.Reasons() {
		if cell := operators.ReasonCell(r); cell.Key == "" {
			t.Errorf("%s is not in words", r)
		}
	}
	if cell := operators.ReasonCell("what_is_new"); cell.Text != "what_is_new" {
		t.Errorf("%+v", cell)
	}
}

func (f *fixture) anotherLawyer() (id string) {
	f.t.Helper()
	f.tx(func(tx postgres.Tx) {
		l, err := f.lawyers.Create(f.t.Context(), tx, lawyer.NewLawyer{Email: "second@bar.example",
			Name: "Second Lawyer", Phone: "+33611111111", Competences: []string{"HOUSING"}, Languages: []string{"FR"}})
		if err != nil {
			f.t.Fatal(err)
		}
		id = l.ID
	})
	return id
}

// opsPost fills in the form of an action and sends it.
func (w *worker) opsPost(path string, values ...string) page {
	w.f.t.Helper()
	form := w.get(path).form(path)
	for i := 0; i < len(values); i += 2 {
		form.Set(values[i], values[i+1])
	}
	return w.post(path, form)
}
