package web

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/note"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/lawyers"
	"partnerd/internal/server/web/operators"
	"partnerd/internal/server/web/shell"
)

// writeNote makes the first lawyer write or correct the note of a consultation.
func (f *fixture) writeNote(consultationID, text string) {
	f.t.Helper()
	f.tx(func(tx postgres.Tx) {
		if err := dbtest.Exec(f.t.Context(), tx, "UPDATE consultations SET lawyer_id = 'law_1' WHERE id = $1",
			consultationID); err != nil {
			f.t.Fatal(err)
		}
		if _, err := f.notes.Submit(f.t.Context(), tx, consultationID, "law_1", text,
			"preview", note.AnyVersion); err != nil {
			f.t.Fatal(err)
		}
	})
}

func newKey(t *testing.T) *age.X25519Identity {
	t.Helper()
	return must(age.GenerateX25519Identity())
}

// sendKey sends the form with a recipient.
func (b *browser) sendKey(recipient string) page {
	form := b.get(lawyers.KeyChangePage).form(lawyers.KeyChangePage)
	form.Set("recipient", recipient)
	return b.post(lawyers.KeyChangePage, form)
}

func TestALawyerSetsHisKeyAndTakesCopies(t *testing.T) {
	t.Parallel()
	f := newFixture(t).work()
	w := f.lawyer()
	c := f.completed()
	letters := 1 + 1 // the invitation, and the email about the second factor
	f.mail(letters)
	own := newKey(t)
	w.get("/desk/key?lang=en").want(t, 200, "You have not set a key", "There are no copies to download.")
	f.writeNote(c.ID, "what only the client may know")
	w.get(shell.KeyPage).want(t, 200, "There are no copies to download.")

	for bad, said := range map[string]string{
		"": "not an age public key", "age1": "not an age public key",
		own.Recipient().String()[:61]: "not an age public key",
		`"><script>`:                  "not an age public key", " " + strings.ToLower(own.String()): "This was the private key",
		own.String(): "This was the private key", "ssh-ed25519 AAAA": "not an age public key",
		strings.Repeat("a", 5000): "not an age public key",
	} {
		p := w.sendKey(bad)
		p.want(t, 422, said)
		if strings.Contains(strings.ToUpper(p.body), own.String()) || strings.Contains(p.body, `"><script>`) {
			t.Errorf("%.20q: it comes back", bad)
		}
	}
	w.sendKey("\n "+own.Recipient().String()+" ").wantRedirect(t, http.StatusSeeOther, shell.KeyPage+"?done=set")
	if m := f.mail(letters + 1); !strings.Contains(m.Text,
		"the key that encrypts copies of your notes was set") {
		t.Errorf("mail %+v", m)
	}
	// a second tab; no second email, see below
	w.sendKey(own.Recipient().String()).wantRedirect(t, http.StatusSeeOther, shell.KeyPage+"?done=set")
	w.get(shell.KeyPage+"?done=set").want(t, 200, "The key was set.", own.Recipient().String(),
		"There are no copies to download.")

	f.clock.Advance(time.Minute)
	f.writeNote(c.ID, "corrected")
	page := w.get(shell.KeyPage)
	page.want(t, 200, c.ID, "Available until")
	if strings.Contains(page.body, "earlier key") || strings.Contains(page.body, "First downloaded") ||
		strings.Contains(page.body, "only the client") {
		t.Error(page.body)
	}
	form := page.form("/desk/copies/" + c.ID)
	file := w.post("/desk/copies/"+c.ID, form)
	opened := opens(t, file.body, own)
	for name, want := range map[string]string{
		"Content-Type": "application/octet-stream", "Content-Disposition": `attachment; filename="` + c.ID + `.age"`,
		"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
	} {
		if got := file.Header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
	if opened != "corrected" || strings.Contains(file.body, "corrected") {
		t.Errorf("the file holds %q", opened)
	}
	other := f.browser()
	other.client.Jar.SetCookies(must(url.Parse(f.base)), []*http.Cookie{{Name: staff.CookieName(false),
		Value: w.cookie(staff.CookieName(false)), Path: "/"}})
	if opens(t, other.post("/desk/copies/"+c.ID, form).body, own) != "corrected" { // another tab, a broken download
		t.Error("the second time")
	}
	w.get(shell.KeyPage).want(t, 200, "First downloaded on")

	f.clock.Advance(time.Minute)
	w.sendKey(newKey(t).Recipient().String()).wantRedirect(t, http.StatusSeeOther, shell.KeyPage+"?done=set")
	w.get(shell.KeyPage).want(t, 200, "Encrypted to an earlier key of yours.")
	remove := w.get(lawyers.KeyChangePage).form("/desk/key/remove")
	w.post("/desk/key/remove", remove).wantRedirect(t, http.StatusSeeOther, shell.KeyPage+"?done=removed")
	w.post("/desk/key/remove", remove).wantRedirect(t, http.StatusSeeOther, shell.KeyPage+"?done=removed")
	// One email about the other key, one about its removal. Their order is not guaranteed.
	if told := f.mail(letters+2).Text + f.mail(letters+3).Text; !strings.Contains(told, "was removed") {
		t.Errorf("mails %s", told)
	}
	w.get(shell.KeyPage+"?done=removed").want(t, 200, "The key was removed.", "You have not set a key", c.ID)
	f.clock.Advance(note.CopyAgain)
	if got := w.get(shell.KeyPage); got.StatusCode != http.StatusSeeOther {
		got.want(t, 200, "There are no copies to download.")
	}
}

func opens(t *testing.T, file string, key age.Identity) string {
	t.Helper()
	r, err := age.Decrypt(armor.NewReader(strings.NewReader(file)), key)
	if err != nil {
		t.Fatalf("%v: %.100q", err, file)
	}
	return string(must(io.ReadAll(r)))
}

// An unattended browser cannot change the key: the lawyer must sign in again, on the page and for the form.
func TestTheKeyTakesALateSignIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.lawyer()
	key := newKey(t).Recipient().String()
	form := w.get(lawyers.KeyChangePage).form(lawyers.KeyChangePage)
	form.Set("recipient", key)
	f.clock.Advance(staff.FreshSignIn + time.Second)
	const again = "/staff/login?again=1&next=%2Fdesk%2Fkey%2Fchange"
	w.get(lawyers.KeyChangePage).wantRedirect(t, http.StatusSeeOther, again)
	w.post(lawyers.KeyChangePage, form).wantRedirect(t, http.StatusSeeOther, again)
	w.post("/desk/key/remove", form).wantRedirect(t, http.StatusSeeOther, again)
	w.get(shell.KeyPage+"?lang=en").want(t, 200, "You have not set a key")
	login := w.get(again).form("/staff/login")
	login.Set("password", staffPassword)
	w.post("/staff/login", login).wantRedirect(t, http.StatusSeeOther, "/staff/login/code?next=%2Fdesk%2Fkey%2Fchange")
	code := w.get("/staff/login/code?next=%2Fdesk%2Fkey%2Fchange").form("/staff/login/code")
	code.Set("code", w.code())
	w.post("/staff/login/code", code).wantRedirect(t, http.StatusSeeOther, lawyers.KeyChangePage)
	w.sendKey(key).wantRedirect(t, http.StatusSeeOther, shell.KeyPage+"?done=set")
}

// Keys and copies belong to one lawyer. Forms from elsewhere and other people are refused.
func TestACopyIsForNobodyElse(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	w := f.lawyer()
	c := f.completed()
	w.sendKey(newKey(t).Recipient().String())
	f.writeNote(c.ID, "what only the client may know")
	own := w.get(shell.KeyPage).form("/desk/copies/" + c.ID)
	if len(own) == 0 {
		t.Fatal("no copy")
	}
	var stranger lawyer.Lawyer
	f.tx(func(tx postgres.Tx) {
		stranger = must(f.lawyers.Create(t.Context(), tx, lawyer.NewLawyer{Email: "o@bar.example", Name: "O",
			Phone: "+33199000000", Competences: []string{"FAMILY"}, Languages: []string{"FR"}}))
	})
	other := f.lawyerBrowser(stranger.ID)
	theirs := url.Values{"csrf": other.get("/desk").form("/desk/duty")["csrf"]}
	other.get(shell.KeyPage).want(t, 200, "There are no copies to download.")
	other.post("/desk/copies/"+c.ID, theirs).want(t, http.StatusNotFound)
	other.post("/desk/copies/"+c.ID, own).want(t, http.StatusForbidden) // a form of another sign-in
	for _, id := range []string{"con_%00", "..%2fx", "con_1"} {
		w.post("/desk/copies/"+id, own).want(t, http.StatusNotFound)
	}
	for path, page := range map[string]string{
		lawyers.KeyChangePage: lawyers.KeyChangePage, "/desk/key/remove": "/desk/key", "/desk/copies/" + c.ID: "/desk",
	} {
		w.post(path, url.Values{"recipient": {newKey(t).Recipient().String()}}).want(t, http.StatusForbidden)
		f.browser().post(path, own).wantRedirect(t, http.StatusSeeOther, "/staff/login?next="+url.QueryEscape(page))
	}
	boss := f.operator(staff.Admin)
	boss.get(shell.KeyPage).want(t, http.StatusForbidden)
	boss.post("/desk/copies/"+c.ID, url.Values{"csrf": boss.get("/ops").form("/staff/logout")["csrf"]}).
		want(t, http.StatusForbidden)

	// A suspended lawyer keeps access to the copies of their notes, and can sign in only for that.
	by := operator.Act{Actor: "test", Reason: "test"}
	if _, err := f.operators.SuspendLawyer(t.Context(), by, "law_1"); err != nil {
		t.Fatal(err)
	}
	boss.get(operators.Path("lawyers", "law_1")).want(t, http.StatusOK, "only to download copies of notes")
	w.get(shell.KeyPage).wantRedirect(t, http.StatusSeeOther, "/staff/login?next=%2Fdesk%2Fkey")
	back := f.browser()
	f.clock.Advance(time.Minute) // for another code
	w.password(back, staffPassword).want(t, http.StatusForbidden, "next=%2Fdesk%2Fkey")
	form := back.get("/staff/login?next=" + url.QueryEscape(shell.KeyPage)).form("/staff/login")
	form.Set("email", w.email)
	form.Set("password", staffPassword)
	back.post("/staff/login", form)
	w.enter(back, w.code())
	back.post("/desk/copies/"+c.ID, back.get(shell.KeyPage).form("/desk/copies/"+c.ID)).
		want(t, 200, "BEGIN AGE ENCRYPTED FILE")

	// When the client is erased, every copy ends.
	f.tx(func(tx postgres.Tx) {
		if err := f.notes.Erase(t.Context(), tx, []string{c.ID}); err != nil {
			t.Fatal(err)
		}
	})
	back.get(shell.KeyPage+"?lang=en").want(t, 200, "There are no copies to download.")
}
