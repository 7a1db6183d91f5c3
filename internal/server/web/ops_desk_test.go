package web

import (
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/note"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/operators"
	"partnerd/internal/server/web/shell"
)

var update = flag.Bool("update", false, "write operators.md")

// completed is a consultation that is paid and whose note was sent.
func (f *fixture) completed() consultation.Consultation {
	f.t.Helper()
	c := f.start()
	f.tx(func(tx postgres.Tx) {
		ctx := f.t.Context()
		err := dbtest.Exec(ctx, tx, `UPDATE consultations SET status = 'COMPLETED', timer_at = NULL, assigned_at = $2, call_started_at = $2, call_ended_at = $2, duration_sec = 300,
			completed_at = $2, lawyer_id = (SELECT id FROM lawyers LIMIT 1) WHERE id = $1`, c.ID, f.clock.Now())
		if err == nil {
			err = f.wallet.Capture(ctx, tx, c.ID)
		}
		if err != nil {
			f.t.Fatal(err)
		}
	})
	return c
}

// opsDesk creates everything that the desk shows, and returns the IDs by the section of their page.
func (f *fixture) opsDesk() (subjects map[string]string, c consultation.Consultation) {
	f.lawyer()
	c = f.completed()
	var other staff.Person
	f.tx(func(tx postgres.Tx) {
		var err error
		if _, err = f.webhooks.CreateEndpoint(f.t.Context(), tx, f.app.ID, ""); err != nil {
			f.t.Fatal(err)
		}
		other, _, err = f.staff.Invite(f.t.Context(), tx, staff.NewPerson{Kind: staff.Operator,
			Email: "other@partners.example", Name: "Oscar Other", Language: "en",
			Roles: []staff.Role{staff.Finance, staff.Admin}})
		if err != nil {
			f.t.Fatal(err)
		}
	})
	p := must(f.operators.GiveBack(f.t.Context(), operator.Act{Actor: other.ID, Reason: "The line dropped"}, c.ID,
		consultation.Price))
	var delivery string
	if err := f.db.Pool().QueryRow(f.t.Context(), "SELECT id FROM webhook_deliveries LIMIT 1").
		Scan(&delivery); err != nil {
		f.t.Fatal(err)
	}
	return map[string]string{"consultations": c.ID, "clients": f.client.ID, "lawyers": "law_1",
		"applications": f.app.ID, "people": other.ID, "proposals": p.ID, "deliveries": delivery}, c
}

func addressOf(path string, subjects map[string]string, app string) string {
	section := strings.Split(path, "/")[min(2, strings.Count(path, "/"))]
	path = strings.Replace(path, ":id", subjects[section], 1)
	if section == "deliveries" {
		path += "?application=" + app
	}
	return path
}

// One table defines who may see and do what, and every route follows it.
func TestEveryRoleSeesAndDoesWhatTheTableSays(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	subjects, _ := f.opsDesk()
	for i, role := range staff.Roles() {
		w := f.join(staff.NewPerson{Kind: staff.Operator, Email: fmt.Sprintf("%s@partners.example", role),
			Name: "Olga Operator", Language: "en", Roles: staff.Roles()[i : i+1]})
		may := func(roles []staff.Role) bool {
			return role == staff.Admin || len(roles) == 0 || slices.Contains(roles, role)
		}
		for _, r := range f.pages.operators.Reads() {
			want := 200
			if !may(r.Roles) {
				want = 403
			}
			if p := w.get(addressOf(r.Path, subjects, f.app.ID)); p.StatusCode != want {
				t.Errorf("%s: %s is %d, want %d", role, r.Path, p.StatusCode, want)
			}
		}
		for _, a := range f.pages.operators.Acts() {
			path := addressOf(a.Path, subjects, f.app.ID)
			form := url.Values{"csrf": {staff.FormToken(w.cookie(staff.CookieName(false)))},
				"entry": {f.db.Read().NewID("aud")}}
			ask, do := 200, 422 // the reason is missing
			if !may(a.Roles) {
				ask, do = 403, 403
			}
			if p := w.get(path); p.StatusCode != ask {
				t.Errorf("%s: the page of %s is %d, want %d\n%s", role, a.Name, p.StatusCode, ask, p.body)
			}
			if p := w.post(path, form); p.StatusCode != do {
				t.Errorf("%s: %s is %d, want %d", role, a.Name, p.StatusCode, do)
			}
			form.Del("csrf")
			form.Set("reason", "A test")
			if p := w.post(path, form); p.StatusCode != http.StatusForbidden {
				t.Errorf("%s: %s without the token of the form is %d", role, a.Name, p.StatusCode)
			}
		}
	}
}

// Actions that give access or move money need a recent sign-in, which leads back to the form. Others do not.
func TestActsOfTheDeskTakeAFreshSignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	subjects, _ := f.opsDesk()
	w := f.operator(staff.Admin)
	f.clock.Advance(staff.FreshSignIn + time.Second)
	for _, a := range f.pages.operators.Acts() {
		path := addressOf(a.Path, subjects, f.app.ID)
		again := "/staff/login?again=1&next=" + url.QueryEscape(path)
		p := w.get(path)
		if sent := p.StatusCode == http.StatusSeeOther && p.Header.Get("Location") == again; sent != a.Fresh {
			t.Errorf("%s: %d to %s", a.Name, p.StatusCode, p.Header.Get("Location"))
		}
		if a.Fresh {
			w.post(path, url.Values{"csrf": {staff.FormToken(w.cookie(staff.CookieName(false)))}}).
				wantRedirect(t, http.StatusSeeOther, again)
		}
	}
	path := operators.Path("people", subjects["people"], "disable")
	form := w.get("/staff/login?again=1&next=" + url.QueryEscape(path)).form("/staff/login")
	form.Set("email", w.email)
	form.Set("password", staffPassword)
	p := w.post("/staff/login", form)
	form = w.get(p.Header.Get("Location")).form("/staff/login/code")
	form.Set("code", w.code())
	w.post("/staff/login/code", form).wantRedirect(t, http.StatusSeeOther, path)
	w.get(path).want(t, http.StatusOK, "Disable")
}

// The table of roles in operators.md matches the program.
func TestOperatorsTableIsWrittenDown(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("# Permissions at the operators' desk\n\nGenerated by ops_desk_test.go -update from the tables in operators/acts*.go. Admins have every permission, lawyers none.\n\n")
	row := func(what string, roles []staff.Role, fresh bool, tells operators.Told) {
		fmt.Fprintf(&b, "| %s |", what)
		for _, r := range staff.Roles() {
			mark := " |"
			if r == staff.Admin || len(roles) == 0 || slices.Contains(roles, r) {
				mark = " x |"
			}
			b.WriteString(mark)
		}
		b.WriteString(map[bool]string{true: " x |", false: " |"}[fresh] + strings.TrimRight(" "+string(tells), " ") +
			" |\n")
	}
	b.WriteString("| | support | finance | security | admin | fresh sign-in | is emailed " +
		"|\n|---|---|---|---|---|---|---|\n")
	for _, r := range (&operators.Pages{}).Reads() {
		row("`"+r.Path+"`", r.Roles, false, "")
	}
	for _, a := range (&operators.Pages{}).Acts() {
		row(a.Name, a.Roles, a.Fresh, a.Tells)
	}
	if *update {
		if err := os.WriteFile("operators.md", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(must(os.ReadFile("operators.md"))); got != b.String() {
		t.Error("operators.md is out of date: run this test with -update")
	}
}

// settled waits until every email has been sent, and returns all of them.
func (f *fixture) settled() []mail.Message {
	f.t.Helper()
	waiting := 1
	for deadline := time.Now().Add(20 * time.Second); waiting > 0 &&
		time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		err := f.db.Pool().QueryRow(f.t.Context(), "SELECT count(*) FROM river.river_job WHERE finalized_at IS NULL").
			Scan(&waiting)
		if err != nil {
			f.t.Fatal(err)
		}
	}
	f.outbox.mu.Lock()
	defer f.outbox.mu.Unlock()
	return slices.Clone(f.outbox.mails)
}

var linkToken = regexp.MustCompile(`lnk_\S+`)

// actValues are the values of each action's form, except the reason.
func actValues() map[string]url.Values {
	return map[string]url.Values{
		"close": {"why": {"wrong_person"}}, "refund": {"amount": {"7,50"}}, "adjust": {"amount": {"-1.50"}},
		"unlink-client": {"application": {""}}, "skills": {"competences": {"TAX", "FAMILY"}, "languages": {"FR"}},
		"phone": {"phone": {"+33199000009"}},
		"check": {"bar": {"Paris"}, "number": {"P1"}, "until": {"2026-12-31"}},
		"invite-lawyer": {"name": {"New Lawyer"}, "email": {"new@bar.example"}, "phone": {"+33199000010"},
			"tongue": {"fr"}, "competences": {"TAX"}, "languages": {"FR"}},
		"create-application": {"name": {"New CRM"}, "redirects": {"https://new.example/cb"}, "scopes": {"profile:read"},
			"rate": {"0"}, "clientrate": {"0"}},
		"update-application": {"name": {"Demo CRM"}, "redirects": {redirectURI}, "scopes": {"profile:read"},
			"rate": {"10"}, "clientrate": {"0"}, "contact": {"it@crm.example"}},
		"rotate-secret": {"hours": {"24"}}, "redeliver": {"from": {"2026-05-31T00:00"},
			"to": {"2026-06-02T00:00"}},
		"invite-member": {"email": {"dev@crm.example"}, "role": {"owner"}, "tongue": {"fr"}},
		"invite": {"name": {"New Person"}, "email": {"new@partners.example"}, "tongue": {"en"},
			"roles": {"support"}}, "roles": {"roles": {"support"}},
	}
}

// Every action leaves one audit entry with the person and the reason, however often its form is sent. No page shows a
// secret.
func TestEveryActOfTheDeskIsRecordedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t).work()
	subjects, c := f.opsDesk()
	owner := f.member(portal.Owner)
	contact := "it@crm.example"
	f.tx(func(tx postgres.Tx) {
		if _, _, err := f.apps.Update(t.Context(), tx, f.app.ID, application.Change{ContactEmail: &contact},
			false); err != nil {
			t.Fatal(err)
		}
	})
	token := f.redeem(f.answer(f.browser().signIn(f.client.Email), allScopes, "allow"))
	f.tx(func(tx postgres.Tx) {
		if _, err := f.notes.Submit(t.Context(), tx, c.ID, "law_1", "A planted note", "A planted preview",
			note.AnyVersion); err != nil {
			t.Fatal(err)
		}
	})
	w := f.join(staff.NewPerson{Kind: staff.Operator, Email: "admin@partners.example", Name: "Olga Operator",
		Language: "en", Roles: []staff.Role{staff.Admin}})
	me := must(f.staff.ByEmail(t.Context(), f.db.Read(), w.email))
	var pages strings.Builder
	ended := func(status string) string { // a consultation in that status
		started := f.start()
		if status == "MATCHING" {
			return started.ID
		}
		f.tx(func(tx postgres.Tx) {
			err := dbtest.Exec(t.Context(), tx, `UPDATE consultations SET status = $2, call_started_at = $3, call_ended_at = $3, duration_sec = 20, assigned_at = $3,
				lawyer_id = 'law_1' WHERE id = $1`, started.ID, status, f.clock.Now())
			if err != nil {
				t.Fatal(err)
			}
		})
		return started.ID
	}
	values := actValues()
	for _, a := range f.pages.operators.Acts() {
		on := subjects
		switch a.Name {
		case "cancel":
			on = map[string]string{"consultations": ended("MATCHING")}
		case "assign": // one with its own client, who is in no call
			f.tx(func(tx postgres.Tx) {
				if err := f.lawyers.SetPhone(t.Context(), tx, "law_1", "+33199000008"); err != nil {
					t.Fatal(err)
				}
				for _, sql := range []string{
					`UPDATE lawyers SET state = 'AVAILABLE', idle_since = now() WHERE id = 'law_1'`,
					`INSERT INTO lawyer_pairs (competence, language, lawyer_id, idle_since) VALUES ('FAMILY', 'FR', 'law_1', now())`,
					`INSERT INTO lawyer_presence (lawyer_id, heartbeat_at) VALUES ('law_1', now() + interval '1 year')`,
				} {
					if err := dbtest.Exec(t.Context(), tx, sql); err != nil {
						t.Fatal(err)
					}
				}
			})
			on = map[string]string{"consultations": ended("MATCHING")}
			values["assign"] = url.Values{"lawyer": {"law_1"}}
		case "return-money":
			paid := f.newCheckout(3000)
			f.tx(func(tx postgres.Tx) {
				if err := f.provider.Pay(t.Context(), tx, paid.ID); err != nil {
					t.Fatal(err)
				}
			})
			f.report(paid)
		case "close":
			on = map[string]string{"consultations": ended("CALL_ENDED")}
		case "refuse":
			on = map[string]string{"proposals": must(f.operators.Adjust(t.Context(),
				operator.Act{Actor: subjects["people"], Reason: "x"}, f.client.ID, 2000)).ID}
		case "redeliver-one":
			var delivery string
			if err := f.db.Pool().
				QueryRow(t.Context(), "SELECT id FROM webhook_deliveries WHERE application_id = $1 LIMIT 1", f.app.ID).
				Scan(&delivery); err != nil {
				t.Fatal(err)
			}
			values["redeliver-one"] = url.Values{"delivery": {delivery}}
		case "refund": // the refund of the desk is confirmed by another action
			on = map[string]string{"consultations": f.completed().ID}
		}
		path := addressOf(a.Path, on, f.app.ID)
		page := w.get(path)
		pages.WriteString(page.body)
		form := page.form(path)
		for name, v := range values[a.Name] {
			form[name] = v
		}
		form.Set("reason", "Because of "+a.Name)
		before := len(must(audit.List(t.Context(), f.db.Read(), "", 0, 1000)))
		mailed := len(f.settled())
		first := w.post(path, form)
		to := first.Header.Get("Location")
		if first.StatusCode != http.StatusSeeOther {
			t.Errorf("%s: %d\n%s", a.Name, first.StatusCode, first.body)
		}
		pages.WriteString(w.get(to).body)
		w.post(path, form).wantRedirect(t, http.StatusSeeOther, to)
		if again := w.get(to); strings.HasPrefix(to, shell.ShownPage) {
			again.want(t, 200, "was shown once")
		}
		form.Set("reason", "Another reason")
		w.post(path, form).want(t, http.StatusConflict, "with other values")
		var mailedTo []string
		for _, m := range f.settled()[mailed:] {
			mailedTo = append(mailedTo, m.To)
			if m.To != f.client.Email {
				pages.WriteString(linkToken.ReplaceAllString(m.Text, ""))
			}
		}
		invited := values[a.Name].Get("email")
		want := map[operators.Told][]string{operators.ToldClient: {f.client.Email},
			operators.ToldLawyer: {"l@bar.example"},
			operators.ToldPerson: {"other@partners.example"}, operators.ToldPartner: {owner.email, contact},
			operators.ToldInvited: {invited},
			operators.ToldJoining: {invited, owner.email, contact}}[a.Tells]
		if slices.Sort(mailedTo); !slices.Equal(mailedTo, slices.Sorted(slices.Values(want))) ||
			want == nil && !strings.HasPrefix(string(a.Tells), "no one: ") {
			t.Errorf("%s tells %v, want %v: %q", a.Name, mailedTo, want, a.Tells)
		}
		after := must(audit.List(t.Context(), f.db.Read(), "", 0, 1000))
		if len(after) != before+1 || after[0].Actor != me.ID || after[0].Reason != "Because of "+a.Name {
			t.Errorf("%s: %d entries after %d, the newest %+v", a.Name, len(after), before, after[0])
		}
	}
	for _, r := range f.pages.operators.Reads() {
		if r.Path == operators.Path("consultations", ":id", "proof.json") {
			continue
		}
		for _, lang := range []string{"", "?lang=fr"} {
			path := addressOf(r.Path, subjects, f.app.ID)
			if strings.Contains(path, "?") {
				lang = strings.Replace(lang, "?", "&", 1)
			}
			p := w.get(path + lang)
			p.want(t, 200)
			pages.WriteString(p.body)
		}
	}
	for _, secret := range []string{"Separation", "custody", "What to do", "Second line", "33639980002", "639980002",
		"33199000009", "33199000008", f.client.Email, f.client.Name, f.secret, testPassword, "planted note",
		"planted preview", token.AccessToken, token.RefreshToken} {
		if strings.Contains(pages.String(), secret) {
			t.Errorf("a page of the desk shows %q", secret)
		}
	}
	timeline := w.get(operators.Path("consultations", c.ID) + "?lang=en")
	timeline.want(t, 200, "consultation.created", "charged", "refunded",
		"proposal.confirm", "Olga Operator: Because of confirm", "case-7", "Request note correction")
	w.get("/ops/consultations?q=case-7").want(t, 200, c.ID)
	w.get("/ops/consultations?q="+c.ID).wantRedirect(t, 303, operators.Path("consultations", c.ID))
	w.get("/ops/consultations?status=COMPLETED&age=0").want(t, 200, c.ID)
	if p := w.get("/ops/consultations?age=24"); strings.Contains(p.body, c.ID) {
		t.Error("what is young is among what is old")
	}
	w.get("/ops/clients?q="+url.QueryEscape(strings.ToUpper(f.client.Email))).wantRedirect(t, 303,
		operators.Path("clients", f.client.ID))
	w.get("/ops/consultations/con_none").want(t, 404)
	w.get("/ops/lawyers/law_none").want(t, 404)
}

// The audit chain, which keeps growing, is verified on request, not with every view of the page. Operators read why a
// consultation ended, and no rows about deliveries that do not exist.
func TestWhyAConsultationEndedIsSaidInWords(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.start().ID
	f.tx(func(tx postgres.Tx) {
		if err := dbtest.Exec(t.Context(), tx,
			"UPDATE consultations SET status = 'EXPIRED', timer_at = NULL, expired_at = now(), end_reason = 'client_not_reached' WHERE id = $1", id); err != nil {
			t.Fatal(err)
		}
	})
	w := f.operator(staff.Support)
	w.get(operators.Path("consultations", id)+"?lang=fr").want(t, 200, "client non joint")
	p := w.get(operators.Path("consultations", id) + "?lang=en")
	p.want(t, 200, "the client was not reached")
	if strings.Contains(p.body, "client_not_reached") {
		t.Error("the code is shown")
	}
	if p = w.get(operators.Path("applications", f.app.ID)); p.StatusCode != 200 || strings.Contains(p.body, "100%") {
		t.Errorf("everything was delivered of nothing: %d", p.StatusCode)
	}
}

func TestTheChainIsFollowedWhenAskedFor(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.operator(staff.Security)
	const whole = "every entry matches its hash"
	page := w.get("/ops/audit")
	page.want(t, http.StatusOK, "Verify the whole chain", "?follow=yes")
	if strings.Contains(page.body, whole) {
		t.Error("the chain was followed")
	}
	w.get("/ops/audit?follow=yes").want(t, http.StatusOK, whole)
}

// Operators change when a lawyer may be alerted, take them off duty, and redeliver one event.
func TestOperatorsOnDuty(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	subjects, _ := f.opsDesk()
	w := f.operator(staff.Support)
	act := func(section, name string, values ...string) page {
		t.Helper()
		path := "/ops/" + section + "/" + subjects[section] + "/" + name
		form := w.get(path).form(path)
		form.Set("reason", "Told by phone")
		for i := 0; i < len(values); i += 2 {
			form.Set(values[i], values[i+1])
		}
		return w.post(path, form)
	}
	back := "/ops/lawyers/" + subjects["lawyers"]
	for _, bad := range [][]string{{"zone", "Mars/Olympus"}, {"hours", "mon 12:00-09:00"}, {"hours", "monday"},
		{"hours", "mon 09:00-12:00\nmon 11:00-13:00"}} {
		act("lawyers", "duty", bad...).want(t, http.StatusUnprocessableEntity, bad[1])
	}
	act("lawyers", "duty", "zone", "Indian/Reunion", "hours", "mon-tue 09:00-12:30\r\n\r\nsun 00:00-24:00",
		"oncall", "yes").wantRedirect(t, http.StatusSeeOther, back+"?done=duty")
	w.get(back).want(t, http.StatusOK, "Indian/Reunion", "mon 09:00-12:30, tue 09:00-12:30, sun 00:00-24:00")

	f.tx(func(tx postgres.Tx) {
		if err := f.lawyers.SetPhone(t.Context(), tx, "law_1", "+33199000000"); err != nil {
			t.Fatal(err)
		}
		if _, err := f.consultations.SignOn(t.Context(), tx, "law_1"); err != nil {
			t.Fatal(err)
		}
	})
	act("lawyers", "home").wantRedirect(t, http.StatusSeeOther, back+"?done=send-home")
	if l := must(f.lawyers.Get(t.Context(), f.db.Read(), "law_1")); l.State != lawyer.Offline || l.Suspended ||
		!l.HeartbeatAt.IsZero() {
		t.Errorf("%+v", l)
	}
	act("lawyers", "suspend").wantRedirect(t, http.StatusSeeOther, back+"?done=suspend-lawyer")
	act("lawyers", "home").want(t, http.StatusUnprocessableEntity, "The lawyer is suspended.")
	if l := must(f.lawyers.Get(t.Context(), f.db.Read(), "law_1")); !l.Suspended {
		t.Error("sending home lifts a suspension")
	}

	for _, bad := range []string{"", "dlv_1", "../x", "<b>"} {
		if got := act("applications", "redeliver-one",
			"delivery", bad); got.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%q: %d", bad, got.StatusCode)
		}
	}
	act("applications", "redeliver-one", "delivery", subjects["deliveries"]).wantRedirect(t, http.StatusSeeOther,
		"/ops/applications/"+subjects["applications"]+"?done=redeliver-one")
	var entries int
	if err := f.db.Pool().QueryRow(t.Context(),
		"SELECT count(*) FROM audit_entries WHERE action IN ('lawyer.duty', 'lawyer.send_home', 'webhook.redeliver')").
		Scan(&entries); err != nil || entries != 3 {
		t.Errorf("%d entries, %v", entries, err)
	}
}
