package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/server/web/shell"
)

// lawyerPages lists all pages of a lawyer besides the desk itself.
var lawyerPages = []string{"/desk/callbacks", "/desk/history", "/desk/key", "/desk/key/change", "/desk/bar",
	"/staff/security", "/staff/login?again=1", "/ops"}

// Every page of a lawyer is a heartbeat. It contains the script that sends further heartbeats, and the offer with its
// buttons.
func TestEveryPageOfALawyerKeepsThemOnDuty(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, b := f.newLawyer()
	b.press("/desk/duty", "do", "on")
	for _, path := range lawyerPages {
		f.clock.Advance(lawyer.LeaseLost - time.Second)
		if strings.HasPrefix(path, "/desk/key/change") { // needs a recent sign-in
			f.exec("UPDATE staff_sessions SET created_at = $1", f.clock.Now())
		}
		got := b.get(path)
		if got.StatusCode != http.StatusOK && path != "/ops" {
			t.Fatalf("%s: %d", path, got.StatusCode)
		}
		for _, want := range []string{
			`data-desk="/desk/bar"`, `src="` + f.pages.shell.Scripts["desk"].Path, "<noscript>",
			"On duty, waiting for an offer",
		} {
			if !strings.Contains(got.body, want) {
				t.Errorf("%s has no %s", path, want)
			}
		}
		if policy := got.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "connect-src 'self'") ||
			!strings.Contains(policy, "script-src 'self'") {
			t.Errorf("%s: the script may not run: %s", path, policy)
		}
		if _, err := f.lawyers.SignOffLost(t.Context(), f.db.Read()); err != nil {
			t.Fatal(err)
		}
		if l := must(f.lawyers.Get(t.Context(), f.db.Read(), id)); l.State != lawyer.Available {
			t.Fatalf("%s: %s", path, l.State)
		}
	}
	f.start()
	if err := f.consultations.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range lawyerPages {
		b.get(path).want(t, b.get(path).StatusCode, "A consultation is offered to you", f.client.Name, `/accept"`,
			`/decline"`)
	}
	page := b.get("/desk/bar")
	var offer string
	if err := f.db.Pool().QueryRow(t.Context(), "SELECT id FROM offers WHERE state = 'OPEN'").Scan(&offer); err != nil {
		t.Fatal(err)
	}
	form := page.form("/desk/offers/" + offer + "/decline")
	form.Set("reason", "busy")
	form.Set("back", "bar") // as the script does, so that the page stays
	b.post("/desk/offers/"+offer+"/decline", form).wantRedirect(t, http.StatusSeeOther, "/desk/bar")
}

// The desk says when and why the lawyer was taken off duty.
func TestTheDeskSaysWhyTheLawyerIsOffDuty(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, b := f.newLawyer()
	b.press("/desk/duty", "do", "on")
	f.clock.Advance(2 * lawyer.LeaseLost)
	if _, err := f.lawyers.SignOffLost(t.Context(), f.db.Read()); err != nil {
		t.Fatal(err)
	}
	b.get("/desk").want(t, http.StatusOK, "Off duty", "you were taken off duty because you did not have the desk open in a browser.")
	b.get("/desk/history?lang=fr").want(t, http.StatusOK,
		"vous avez été retiré de la permanence, car aucune page du bureau n’était ouverte.")
	back := b.press("/desk/duty", "do", "on")
	if strings.Contains(back.body, "was open") {
		t.Error("the reason stays on duty")
	}
	b.press("/desk/duty", "do", "off").want(t, http.StatusOK, "vous avez quitté la permanence.")
}

// Only the author of a note can open the page to correct it. No other lawyer is asked for a note that they could not
// send.
func TestANoteIsCorrectedByItsLawyerAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, b := f.newLawyer()
	path := "/desk/consultations/" + f.completedBy(id) + "/note"
	b.get(path).want(t, http.StatusOK, "Correct note")
	f.lawyerBrowser(f.anotherLawyer()).get(path).want(t, http.StatusNotFound)
}

// A paused lawyer sees how many clients wait in their fields, and nothing else about them.
func TestAPausedLawyerSeesThatSomebodyWaits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, b := f.newLawyer()
	b.press("/desk/duty", "do", "on")
	b.press("/desk/duty", "do", "pause")
	f.start()
	got := b.get("/desk")
	got.want(t, http.StatusOK, "One client is waiting in your practice areas.")
	if strings.Contains(got.body, f.client.Name) {
		t.Error("the client is named")
	}
}

// inCall brings the lawyer of b to a call in progress, and returns its consultation.
func (f *fixture) inCall(b *browser) (id string) {
	f.t.Helper()
	b.press("/desk/duty", "do", "on")
	id = f.start().ID
	if err := f.consultations.Sweep(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	var offer, call string
	if err := f.db.Pool().QueryRow(f.t.Context(), "SELECT id FROM offers WHERE state = 'OPEN'").
		Scan(&offer); err != nil {
		f.t.Fatal(err)
	}
	b.press("/desk/offers/"+offer+"/accept", "", "")
	b.press("/desk/consultations/"+id+"/call", "", "")
	if err := f.db.Pool().QueryRow(f.t.Context(), "SELECT id FROM calls").Scan(&call); err != nil {
		f.t.Fatal(err)
	}
	for i, e := range []telephony.Event{{Kind: telephony.LegAnswered, Role: telephony.Lawyer},
		{Kind: telephony.LegDigits, Role: telephony.Lawyer, Digits: "1"},
		{Kind: telephony.LegAnswered, Role: telephony.Client},
		{Kind: telephony.LegDigits, Role: telephony.Client, Digits: "1"}, {Kind: telephony.LegsJoined}} {
		e.ID, e.CallID, e.At = string(rune('a'+i)), call, f.clock.Now()
		if err := f.consultations.HandleCallEvent(f.t.Context(), e); err != nil {
			f.t.Fatal(err)
		}
	}
	return id
}

// If two windows write one note, neither loses its text. Both texts are shown, and the lawyer chooses.
func TestTwoWindowsDoNotOverwriteOneDraft(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	_, b := f.newLawyer()
	id := f.inCall(b)
	path := "/desk/consultations/" + id
	first, second := b.get("/desk").form(path+"/note"), b.get("/desk").form(path+"/note")
	second.Set("note", "Written in the second window.")
	b.post(path+"/draft", second).wantRedirect(t, http.StatusSeeOther, "/desk?done=draft")
	first.Set("note", "Written in the first window.")
	conflict := b.post(path+"/draft", first)
	conflict.want(t, http.StatusConflict, "changed in another window", "Written in the second window.",
		"Written in the first window.")
	kept := b.get("/desk")
	if kept.want(t, http.StatusOK, "Written in the second window."); strings.Contains(kept.body, "first window") {
		t.Error("the draft was replaced")
	}
	choose := conflict.form(path + "/note")
	choose.Set("note", "Written in the first window.")
	choose.Set("take", "both")
	b.post(path+"/draft", choose).wantRedirect(t, http.StatusSeeOther, "/desk?done=draft")
	b.get("/desk").want(t, http.StatusOK, "Written in the first window.\n\nWritten in the second window.")

	stale := b.get("/desk").form(path + "/note")
	stale.Set("note", "An old window sends this.")
	stale.Set("preview", "Old.")
	stale.Set("confirmed", "yes")
	f.clock.Advance(90 * time.Second)
	b.press(path+"/end", "", "")
	newer := b.get("/desk").form(path + "/note")
	newer.Set("note", "The newest.")
	b.post(path+"/draft", newer).wantRedirect(t, http.StatusSeeOther, "/desk?done=draft")
	b.post(path+"/note", stale).want(t, http.StatusConflict, "changed in another window", "The newest.",
		"An old window sends this.")
	sent := b.get("/desk").form(path + "/note")
	for _, note := range []struct{ text, preview string }{{"The newest.", "What may leave."}} {
		sent.Set("note", note.text)
		sent.Set("preview", note.preview)
		sent.Set("confirmed", "yes")
	}
	b.post(path+"/note", sent).wantRedirect(t, http.StatusSeeOther, "/desk?done=note")
	b.post(path+"/note", sent).wantRedirect(t, http.StatusSeeOther, "/desk?done=note") // the same again
	b.post(path+"/note", stale).want(t, http.StatusConflict, "The note was sent from another window.",
		"An old window sends this.", "Correct note")
}

// A lawyer who is suspended during a call keeps the call and its note, and nothing else, until the note is sent.
func TestALawyerSuspendedInACallFinishesIt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id, b := f.newLawyer()
	c := f.inCall(b)
	path := "/desk/consultations/" + c
	duty := b.get("/desk").form(path + "/note")["csrf"]
	if _, err := f.operators.SuspendLawyer(t.Context(), operator.Act{Actor: "test", Reason: "test"}, id); err != nil {
		t.Fatal(err)
	}
	suspended := must(f.lawyers.Get(t.Context(), f.db.Read(), id))
	if told := must(f.pages.operators.SignInOf(t.Context(), f.db.Read(),
		suspended, staff.Active)); told.Key != "ops.lawyer.finishes" {
		t.Errorf("operators read that the lawyer may sign in %+v", told)
	}
	desk := b.get("/desk")
	desk.want(t, http.StatusOK, "Call in progress", f.client.Name, "An operator has suspended your account.",
		"an operator suspended your account.", "Full note (confidential)")
	if strings.Contains(desk.body, `value="pause"`) {
		t.Error("a suspended lawyer can pause")
	}
	for _, page := range lawyerPages {
		switch got := b.get(page); {
		case page == "/desk/bar":
			got.want(t, http.StatusOK, "Return to your consultation")
		case page == shell.KeyPage:
			got.want(t, http.StatusOK)
		case page == "/staff/login?again=1":
		default:
			got.wantRedirect(t, http.StatusSeeOther, "/desk?fault=finishing")
		}
	}
	for _, do := range []string{"off", "pause"} {
		b.post("/desk/duty", url.Values{"csrf": duty, "do": {do}}).wantRedirect(t, http.StatusSeeOther,
			"/desk?fault=finishing")
	}
	draft := desk.form(path + "/note")
	draft.Set("note", "Half a note.")
	b.post(path+"/draft", draft).wantRedirect(t, http.StatusSeeOther, "/desk?done=draft")
	f.clock.Advance(90 * time.Second)
	b.press(path+"/end", "", "").want(t, http.StatusOK, "Half a note.", "The preview contains nothing confidential.")
	other := f.lawyerBrowser(id) // another device, for example because the battery of the first is empty
	other.press("/desk/duty", "do", "on").want(t, http.StatusOK, "Half a note.")
	form := other.get("/desk").form(path + "/note")
	form.Set("note", "The whole note.")
	form.Set("preview", "What may leave.")
	form.Set("confirmed", "yes")
	out := other.post(path+"/note", form)
	out.want(t, http.StatusForbidden, "Your note was sent.", "Your account is suspended")
	if other.cookie("partnerd_staff") != "" {
		t.Error("the session stays")
	}
	other.get("/desk").wantRedirect(t, http.StatusSeeOther, "/staff/login?next=%2Fdesk")
	if strings.Contains(out.body, f.client.Name) {
		t.Error("the client is still shown")
	}
	b.get("/desk").wantRedirect(t, http.StatusSeeOther, "/staff/login?next=%2Fdesk")
	if l := must(f.lawyers.Get(t.Context(), f.db.Read(), id)); l.State != lawyer.Offline {
		t.Errorf("the lawyer is %s", l.State)
	}
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if err := dbtest.Exec(f.t.Context(), f.db.Read(), sql, args...); err != nil {
		f.t.Fatal(err)
	}
}
