package consultation

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/note"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/infra/postgres"
)

// callback creates a consultation that waits for a callback by day. The lawyer is present and has not been offered it.
func (w *world) callback(lawyerID string) string {
	w.Helper()
	lease := w.lease(lawyerID)
	w.do(w.Lawyers.Pause(w.Context(), w.DB.Read(), lease))
	id := w.create()
	w.lawyers = []string{lawyerID}
	w.pass(SearchLimit)
	if got := w.read(id).Status; got != PendingCallback {
		w.Fatalf("it is %s", got)
	}
	w.do(w.Lawyers.SetState(w.Context(), w.DB.Read(), lawyerID, []lawyer.State{lawyer.Away},
		lawyer.On(lawyer.Available)))
	return id
}

// dropped creates a call whose line is lost, and whose redialled leg has failed.
func (w *world) dropped(lawyerID string) string {
	w.Helper()
	id := w.inCall(lawyerID)
	w.clock.Advance(10 * time.Second)
	w.do(w.provider(id, telephony.Event{Kind: telephony.LegsParted, By: telephony.Client}))
	w.do(w.provider(id, telephony.Event{Kind: telephony.LegFailed, Role: telephony.Client, Reason: telephony.NoAnswer}))
	return id
}

// A lawyer sees the client's name from the offer until the consultation leaves them; no one else ever does.
func TestALawyerSeesTheClientWhileItIsHis(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l, other := w.online(), w.online()
	sees := func(lawyerID string) (name string, d Desk) {
		t.Helper()
		d, err := w.Desk(t.Context(), w.DB.Read(), lawyerID)
		w.do(err)
		for _, c := range append(slices.Clone(d.Notes), deref(d.Offered), deref(d.Hand)) {
			if c.ID != "" && (c.Subject != "Séparation" || c.Description != "Que faire ?") {
				t.Errorf("%s reads %q, %q", c.Status, c.Subject, c.Description)
			}
			name += c.ClientName
		}
		return name, d
	}
	expect := func(what, want string) {
		t.Helper()
		if got, _ := sees(l); got != want {
			t.Errorf("%s: he sees %q", what, got)
		}
		if got, _ := sees(other); got != "" {
			t.Errorf("%s: the other sees %q", what, got)
		}
	}
	expect("before", "")
	offer := w.offerTo(l)
	expect("on offer", "Demo Client")
	w.do(w.AcceptOffer(t.Context(), w.lease(l), offer))
	expect("assigned", "Demo Client")
	_, d := sees(l)
	w.confirmed(l, d.Hand.ID)
	if _, d := sees(l); d.Hand.Call == nil || d.Hand.Call.State != telephony.Bridging {
		t.Errorf("the call is %+v", d.Hand.Call)
	}
	w.do(w.provider(d.Hand.ID, telephony.Event{Kind: telephony.LegsJoined}))
	expect("in call", "Demo Client")
	w.clock.Advance(time.Minute)
	w.do(w.EndCall(t.Context(), w.lease(l), d.Hand.ID))
	expect("writing", "Demo Client")
	w.do(w.SubmitNote(t.Context(), w.lease(l), d.Hand.ID, "Texte.", "Aperçu."))
	expect("completed", "")

	w.pass(time.Second)
	w.offerTo(other)
	w.clock.Advance(matching.OfferTime)
	if got, _ := sees(other); got != "" {
		t.Errorf("after the time of the offer he sees %q", got)
	}
}

func deref(c *Case) Case {
	if c == nil {
		return Case{}
	}
	return *c
}

// A lawyer can read a draft while the consultation is theirs, and its text is nowhere in the database. It is deleted
// with the note, with an end without one, and after some time.
func TestADraftLivesAsLongAsItsNoteIsWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l, other := w.online(), w.online()
	const canary = "kanarienvogel"
	draft := note.Draft{Note: canary + " note", Preview: canary + " preview"}
	read := func(lawyerID, id string) (note.Draft, error) { return w.Draft(t.Context(), w.DB.Read(), lawyerID, id) }
	drafts := func() (n int) {
		t.Helper()
		w.do(w.DB.Pool().QueryRow(t.Context(), "SELECT count(*) FROM note_drafts").Scan(&n))
		return n
	}
	id := w.assigned(l)
	if err := w.SaveDraft(t.Context(), w.lease(l), id, draft, note.AnyVersion); !errors.Is(err, ErrForbidden) {
		t.Errorf("before the call: %v", err)
	}
	w.confirmed(l, id)
	w.do(w.provider(id, telephony.Event{Kind: telephony.LegsJoined}))
	w.do(w.SaveDraft(t.Context(), w.lease(l), id, note.Draft{Note: "first"}, note.AnyVersion))
	w.clock.Advance(time.Second)
	w.do(w.SaveDraft(t.Context(), w.lease(l), id, draft, note.AnyVersion))
	if got, err := read(l, id); err != nil || got.Note != draft.Note || got.Preview != draft.Preview ||
		!got.SavedAt.Equal(w.clock.Now()) {
		t.Errorf("the draft is %+v (%v)", got, err)
	}
	if _, err := read(other, id); !errors.Is(err, ErrNotYours) {
		t.Errorf("another reads it: %v", err)
	}
	if err := w.SaveDraft(t.Context(), w.lease(other), id, draft, note.AnyVersion); !errors.Is(err, ErrNotYours) {
		t.Errorf("another writes it: %v", err)
	}
	if found := w.find(canary); len(found) > 0 {
		t.Errorf("the draft is in clear in %v", found)
	}
	w.clock.Advance(90 * time.Second)
	w.do(w.EndCall(t.Context(), w.lease(l), id))
	w.do(w.SubmitNote(t.Context(), w.lease(l), id, "Texte.", "Aperçu."))
	if _, err := read(l, id); !errors.Is(err, ErrNotYours) || drafts() != 0 {
		t.Errorf("after the note: %v, %d drafts", err, drafts())
	}

	w.pass(time.Second)
	id = w.callEnded(other, 90*time.Second)
	w.do(w.SaveDraft(t.Context(), w.lease(other), id, draft, note.AnyVersion))
	w.do(w.NoUsefulCall(t.Context(), w.lease(other), id, TechnicalFault))
	if drafts() != 0 {
		t.Error("a draft outlives an end without a note")
	}
	w.pass(time.Second)
	id = w.callEnded(l, 90*time.Second)
	w.do(w.SaveDraft(t.Context(), w.lease(l), id, draft, note.AnyVersion))
	w.clock.Advance(note.DraftLife + time.Second)
	n, err := w.Notes.PurgeDrafts(t.Context(), w.DB.Read())
	if w.do(err); n != 1 || drafts() != 0 {
		t.Errorf("purged %d", n)
	}
}

// find returns the tables that contain a text, in a text or byte column.
func (w *world) find(text string) (found []string) {
	w.Helper()
	owner := dbtest.Owner(w, w.DB).Pool()
	rows, err := owner.Query(w.Context(), `SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`)
	w.do(err)
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	w.do(err)
	for _, table := range tables {
		var n int
		w.do(owner.QueryRow(w.Context(), "SELECT count(*) FROM "+table+" x WHERE x::text LIKE '%' || $1 || '%' "+
			"OR x::text LIKE '%' || encode($1::bytea, 'hex') || '%'", text).Scan(&n))
		if n > 0 {
			found = append(found, table)
		}
	}
	return found
}

// A lawyer's request during work in hand takes effect when the work is over.
func TestAPauseBeginsWhenWhatIsInHandIsOver(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world, l string){
		"at once": func(w *world, l string) { w.do(w.Lawyers.Pause(w.Context(), w.DB.Read(), w.lease(l))) },
		"after a refusal": func(w *world, l string) {
			offer := w.offerTo(l)
			w.do(w.Lawyers.Pause(w.Context(), w.DB.Read(), w.lease(l)))
			w.expectLawyer(l, lawyer.Offered)
			w.do(w.DeclineOffer(w.Context(), w.lease(l), offer, "busy"))
		},
		"after the note": func(w *world, l string) {
			id := w.inCall(l)
			w.do(w.Lawyers.Pause(w.Context(), w.DB.Read(), w.lease(l)))
			w.clock.Advance(time.Minute)
			w.do(w.EndCall(w.Context(), w.lease(l), id))
			w.expectLawyer(l, lawyer.WrapUp)
			w.do(w.SubmitNote(w.Context(), w.lease(l), id, "Texte.", "Aperçu."))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			l := w.online()
			end(w, l)
			w.expectLawyer(l, lawyer.Away)
			_, err := w.Lawyers.GoOnline(t.Context(), w.DB.Read(), l)
			w.do(err)
			w.expectLawyer(l, lawyer.Available)
			w.offerTo(l) // the request is cancelled
		})
	}
}

// A lawyer who signs on with a note to write gets no other work before the note is written.
func TestSigningOnComesBackToTheNote(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.callEnded(l, 90*time.Second)
	w.do(w.Lawyers.GoOffline(t.Context(), w.DB.Read(), w.lease(l)))
	sign := func() (lease lawyer.Lease) {
		w.tx(func(tx postgres.Tx) (err error) {
			lease, err = w.SignOn(t.Context(), tx, l)
			return err
		})
		return lease
	}
	lease := sign()
	w.expectLawyer(l, lawyer.WrapUp)
	w.do(w.SubmitNote(t.Context(), lease, id, "Texte.", "Aperçu."))
	w.expectLawyer(l, lawyer.Available)
	sign()
	w.expectLawyer(l, lawyer.Available)
}

// A callback that a lawyer claims is offered to them under the rules of a search.
func TestALawyerClaimsACallback(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.callback(l)
	list, err := w.Callbacks(t.Context(), w.DB.Read(), l)
	w.do(err)
	c := w.read(id)
	if len(list) != 1 || list[0].ConsultationID != id || !list[0].DueAt.Equal(*c.CallbackDueAt) || !list[0].Now ||
		list[0].Pair != (matching.Pair{Competence: "FAMILY", Language: "FR"}) {
		t.Fatalf("he sees %+v", list)
	}
	w.do(w.Claim(t.Context(), w.lease(l), id))
	if list, _ = w.Callbacks(t.Context(), w.DB.Read(), l); len(list) != 0 {
		t.Errorf("what is on offer is still listed: %+v", list)
	}
	if err := w.Claim(t.Context(), w.lease(l), id); !errors.Is(err, matching.ErrOfferGone) {
		t.Errorf("twice: %v", err)
	}
	d, err := w.Desk(t.Context(), w.DB.Read(), l)
	if w.do(err); d.Offered == nil || d.Offered.ID != id || d.Offered.ClientName != "Demo Client" {
		t.Fatalf("he is offered %+v", d.Offered)
	}
	w.do(w.DeclineOffer(t.Context(), w.lease(l), d.Offer.ID, matching.ReasonConflict))
	if err := w.Claim(t.Context(), w.lease(l), id); !errors.Is(err, matching.ErrOfferGone) {
		t.Errorf("after he refused it: %v", err)
	}
	other := w.online()
	w.clock.Advance(12 * time.Hour) // into the night
	for what, id := range map[string]string{"by night": id, "no consultation": "con_nobody", "no text": "\x00"} {
		if err := w.Claim(t.Context(), w.lease(other), id); !errors.Is(err, matching.ErrOfferGone) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// A restart by the lawyer moves the next attempt to restore the line forward, once.
func TestARestartBringsTheNextTryForward(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.online()
	id := w.dropped(l)
	due := func() (n int) {
		t.Helper()
		w.do(w.DB.Pool().QueryRow(t.Context(),
			"SELECT count(*) FROM call_commands WHERE kind = 'PLACE_LEG' AND done_at IS NULL AND due_at <= $1",
			w.clock.Now()).Scan(&n))
		return n
	}
	before := due()
	w.do(w.RestartCall(t.Context(), w.lease(l), id))
	w.do(w.RestartCall(t.Context(), w.lease(l), id))
	if got := due(); got != before+1 {
		t.Errorf("%d legs are to be placed now, %d before", got, before)
	}
	w.clock.Advance(time.Second)
	w.do(w.provider(id, telephony.Event{Kind: telephony.LegsJoined}))
	if err := w.RestartCall(t.Context(), w.lease(l), id); !errors.Is(err, ErrForbidden) {
		t.Errorf("while the line holds: %v", err)
	}
}

// A lawyer's history shows their earnings, and nothing about their clients.
func TestHistoryAndEarnings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l, other := w.online(), w.online()
	var ids []string
	for range 3 {
		ids = append(ids, w.completed(l))
		w.pass(time.Second)
		w.clock.Advance(32 * 24 * time.Hour)
		w.tx(func(tx postgres.Tx) error { _, err := w.SignOn(t.Context(), tx, l); return err })
	}
	useless := w.callEnded(l, 30*time.Second)
	w.do(w.NoUsefulCall(t.Context(), w.lease(l), useless, TooShort))
	var got string
	before := Position{}
	for more := true; more; {
		var items []Served
		var err error
		items, more, err = w.History(t.Context(), w.DB.Read(), l, before, 2)
		w.do(err)
		for _, i := range items {
			got += fmt.Sprintf("%s %s %d %d, ", i.ConsultationID, i.Status, *i.DurationSec, i.Fee)
			before = Position{CreatedAt: i.CreatedAt, ID: i.ConsultationID}
		}
	}
	want := useless + " EXPIRED 30 0, " + ids[2] + " COMPLETED 90 1700, " + ids[1] + " COMPLETED 90 1700, " + ids[0] +
		" COMPLETED 90 1700, "
	if got != want {
		t.Errorf("he reads\n%s, want\n%s", got, want)
	}
	months, err := w.Earnings(t.Context(), w.DB.Read(), l)
	w.do(err)
	if len(months) != 3 || months[0].Consultations != 1 || months[0].Fees != 1700 ||
		!months[0].Month.After(months[1].Month) || months[0].Month.Day() != 1 {
		t.Errorf("he earned %+v", months)
	}
	if items, more, err := w.History(t.Context(), w.DB.Read(), other, Position{}, 2); err != nil || more ||
		len(items) != 0 {
		t.Errorf("the other reads %+v (%v)", items, err)
	}
}
