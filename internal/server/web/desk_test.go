package web

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/shell"
)

// newLawyer creates a lawyer for family law in French, signed in in a browser.
func (f *fixture) newLawyer() (id string, b *browser) {
	f.t.Helper()
	f.tx(func(tx postgres.Tx) {
		l := must(f.lawyers.Create(f.t.Context(), tx, lawyer.NewLawyer{Email: "l@bar.example",
			Name: "Maître Léa Martin", Phone: "+33199000000", Competences: []string{"FAMILY"},
			Languages: []string{"FR"}}))
		id = l.ID
	})
	return id, f.lawyerBrowser(id)
}

func (f *fixture) lawyerBrowser(lawyerID string) *browser {
	f.t.Helper()
	b := f.browser()
	b.client.Jar.SetCookies(must(url.Parse(f.base)), []*http.Cookie{{Name: staff.CookieName(false),
		Value: dbtest.SignIn(f.t, f.db, lawyerID), Path: "/"}})
	return b
}

// press sends the form of an action on the desk with a button's value, twice. It returns the desk after that. A refusal
// may get a different response the second time.
func (b *browser) press(action, name, value string) page {
	b.t.Helper()
	desk := b.get("/desk")
	form := desk.form(action)
	if len(form) == 0 {
		b.t.Fatalf("the desk has no form for %s: %s", action, desk.body)
	}
	if name != "" {
		form.Set(name, value)
	}
	answer := b.post(action, form)
	if answer.StatusCode != http.StatusSeeOther {
		b.t.Fatalf("%s: %d %s", action, answer.StatusCode, answer.body)
	}
	to := answer.Header.Get("Location")
	if !strings.Contains(to, "fault=") {
		b.post(action, form).wantRedirect(b.t, http.StatusSeeOther, to)
	}
	return b.get(to)
}

// A lawyer can work from sign-in to note without the script. A tab that was taken over has no effect and shows nothing
// about the client.
func TestALawyerWorksAtTheDeskWithoutAScript(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, b := f.newLawyer()
	event := func(consultation string, e telephony.Event) {
		t.Helper()
		var call string
		if err := f.db.Pool().QueryRow(t.Context(), "SELECT id FROM calls WHERE consultation_id = $1", consultation).
			Scan(&call); err != nil {
			t.Fatal(err)
		}
		e.ID, e.CallID, e.At = string(e.Kind)+string(e.Role), call, f.clock.Now()
		if err := f.consultations.HandleCallEvent(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	b.get("/desk").want(t, http.StatusOK, "Off duty", `http-equiv="refresh"`)
	b.press("/desk/duty", "do", "on").want(t, http.StatusOK, "On duty, waiting for an offer")
	c := f.start()
	if err := f.consultations.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	offered := b.get("/desk")
	offered.want(t, http.StatusOK, "A consultation is offered to you", f.client.Name, "Separation & custody",
		"Second line.", "Conflict of interest")
	if strings.Contains(offered.body, "+3363998") || offered.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("the number is on the page, or it may be kept: %v", offered.Header)
	}
	var offer string
	if err := f.db.Pool().QueryRow(t.Context(), "SELECT id FROM offers WHERE state = 'OPEN'").Scan(&offer); err != nil {
		t.Fatal(err)
	}
	other := f.lawyerBrowser(id)
	seen := other.get("/desk")
	seen.want(t, http.StatusOK, "You are connected elsewhere")
	if strings.Contains(seen.body, f.client.Name) {
		t.Error("the older tab sees the client")
	}
	stale := other.post("/desk/offers/"+offer+"/accept", url.Values{"csrf": seen.form("/desk/duty")["csrf"]})
	stale.wantRedirect(t, http.StatusSeeOther, "/desk?fault=elsewhere")

	b.press("/desk/offers/"+offer+"/accept", "", "").want(t, http.StatusOK, "Call the client", "Call client now",
		f.client.Name)
	b.press("/desk/consultations/"+c.ID+"/call", "", "").want(t, http.StatusOK, "Your phone is ringing")
	event(c.ID, telephony.Event{Kind: telephony.LegAnswered, Role: telephony.Lawyer})
	b.get("/desk").want(t, http.StatusOK, "Press 1 on your phone")
	event(c.ID, telephony.Event{Kind: telephony.LegDigits, Role: telephony.Lawyer, Digits: "1"})
	event(c.ID, telephony.Event{Kind: telephony.LegAnswered, Role: telephony.Client})
	event(c.ID, telephony.Event{Kind: telephony.LegDigits, Role: telephony.Client, Digits: "1"})
	event(c.ID, telephony.Event{Kind: telephony.LegsJoined})
	talking := b.get("/desk")
	talking.want(t, http.StatusOK, "Call in progress", "of 20 minutes", "Full note (confidential)",
		"This exact text is shared with the client’s CRM.", "Once sent, this note can never be read again")
	if strings.Contains(talking.body, `http-equiv="refresh"`) {
		t.Error("the page loads again while the lawyer writes")
	}
	draft := talking.form("/desk/consultations/" + c.ID + "/note")
	draft.Set("note", "Half a <note>")
	f.sendsTwice(b, "/desk/consultations/"+c.ID+"/draft", draft)
	f.clock.Advance(90 * time.Second)
	b.press("/desk/consultations/"+c.ID+"/end", "", "").want(t, http.StatusOK, "Writing the note", "Half a <note>",
		"The preview contains nothing confidential.")
	form := b.get("/desk").form("/desk/consultations/" + c.ID + "/note")
	form.Set("note", "The whole note.")
	form.Set("preview", "What may leave.")
	b.post("/desk/consultations/"+c.ID+"/note", form).want(t, http.StatusUnprocessableEntity,
		"Confirm that the preview contains nothing confidential.", "The whole note.")
	form.Set("confirmed", "yes")
	form.Set("preview", strings.Repeat("x", 501))
	b.post("/desk/consultations/"+c.ID+"/note", form).want(t, http.StatusUnprocessableEntity, "Enter both texts.")
	form.Set("preview", "What may leave.")
	f.sendsTwice(b, "/desk/consultations/"+c.ID+"/note", form)
	done := b.get("/desk?done=note")
	done.want(t, http.StatusOK, "The note was sent.", "On duty, waiting for an offer")
	b.get("/desk/history?lang=fr").want(t, http.StatusOK, "Historique et honoraires", "17,00", c.ID)
	for _, p := range []string{"/desk", "/desk/history", "/desk/callbacks"} {
		if page := b.get(p); strings.Contains(page.body, f.client.Name) ||
			strings.Contains(page.body, "The whole note.") {
			t.Errorf("%s still shows what is over", p)
		}
	}
}

// If nobody presses 1 on the lawyer's phone, the desk says why the lawyer is paused, until they resume work.
func TestTheDeskSaysWhyTheLawyerWasNotReached(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, b := f.newLawyer()
	b.press("/desk/duty", "do", "on")
	c := f.start()
	if err := f.consultations.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	var offer, call string
	if err := f.db.Pool().QueryRow(t.Context(), "SELECT id FROM offers WHERE state = 'OPEN'").Scan(&offer); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(time.Second)
	b.press("/desk/offers/"+offer+"/accept", "", "")
	b.press("/desk/consultations/"+c.ID+"/call", "", "")
	if err := f.db.Pool().QueryRow(t.Context(), "SELECT id FROM calls").Scan(&call); err != nil {
		t.Fatal(err)
	}
	for i, kind := range []telephony.EventKind{telephony.LegAnswered, telephony.LegDigits} {
		e := telephony.Event{ID: fmt.Sprint(i), CallID: call, Kind: kind, Role: telephony.Lawyer, At: f.clock.Now()}
		if err := f.consultations.HandleCallEvent(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	b.get("/desk").want(t, http.StatusOK, "Paused", "did not reach you (no one pressed 1)", "Resume work")
	b.get("/desk?lang=fr").want(t, http.StatusOK, "sans vous joindre (personne n’a appuyé sur 1)")
	f.clock.Advance(time.Second)
	b.press("/desk/duty", "do", "on")
	if again := b.press("/desk/duty", "do", "pause"); strings.Contains(again.body, "sans vous joindre") ||
		!strings.Contains(again.body, "En pause") {
		t.Errorf("a pause of his own is explained by an old call: %s", again.body)
	}
}

// The pages of the desk are for lawyers who are signed in.
func TestTheDeskIsForLawyers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, path := range []string{"/desk", "/desk/callbacks", "/desk/history", "/desk/consultations/con_1/note"} {
		if got := f.browser().get(path); got.StatusCode != http.StatusSeeOther ||
			!strings.HasPrefix(got.Header.Get("Location"), shell.StaffLogin) {
			t.Errorf("%s: %d", path, got.StatusCode)
		}
	}
	_, b := f.newLawyer()
	b.post("/desk/duty", url.Values{"do": {"on"}}).want(t, http.StatusForbidden)
}
