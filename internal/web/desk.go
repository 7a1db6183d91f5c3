package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/text/language"

	"partnerd/internal/catalog"
	"partnerd/internal/consultation"
	"partnerd/internal/desk"
	"partnerd/internal/lawyer"
	"partnerd/internal/note"
	"partnerd/internal/postgres"
	"partnerd/internal/problem"
	"partnerd/internal/staff"
)

// deskRefresh is after how many seconds the desk loads again where no script does it: often enough to see an offer in time.
// Not while somebody may be writing.
const deskRefresh = 8

// registerDesk adds the pages of lawyers. Every act answers with the desk, so that it works without the script, which sends the
// same forms and shows what has changed.
func (p *Pages) registerDesk(e *echo.Echo, read []string) {
	e.Match(read, p.deskScript.path, p.deskScript.serve)
	e.Match(read, lawyersDesk, p.withLawyer(p.desk))
	e.Match(read, "/desk/callbacks", p.withLawyer(p.callbacks))
	e.Match(read, "/desk/history", p.withLawyer(p.history))
	e.Match(read, "/desk/consultations/:id/note", p.withLawyer(p.correctNoteForm))
	e.POST("/desk/duty", p.withLawyer(p.duty))
	for path, act := range map[string]func(echo.Context, staff.Session) error{
		"/desk/offers/:id/accept": func(c echo.Context, s staff.Session) error {
			return p.deps.Desk.Accept(c.Request().Context(), s, c.Param("id"))
		},
		"/desk/offers/:id/decline": func(c echo.Context, s staff.Session) error {
			return p.deps.Desk.Decline(c.Request().Context(), s, c.Param("id"), c.Request().PostForm.Get("reason"))
		},
		"/desk/callbacks/:id/claim": func(c echo.Context, s staff.Session) error {
			return p.deps.Desk.Claim(c.Request().Context(), s, c.Param("id"))
		},
		"/desk/consultations/:id/call": func(c echo.Context, s staff.Session) error {
			return p.deps.Desk.StartCall(c.Request().Context(), s, c.Param("id"))
		},
		"/desk/consultations/:id/restart": func(c echo.Context, s staff.Session) error {
			return p.deps.Desk.RestartCall(c.Request().Context(), s, c.Param("id"))
		},
		"/desk/consultations/:id/end": func(c echo.Context, s staff.Session) error {
			return p.deps.Desk.EndCall(c.Request().Context(), s, c.Param("id"))
		},
		"/desk/consultations/:id/withdraw": func(c echo.Context, s staff.Session) error {
			return p.deps.Desk.Withdraw(c.Request().Context(), s, c.Param("id"), c.Request().PostForm.Get("reason"))
		},
		"/desk/consultations/:id/useless": func(c echo.Context, s staff.Session) error {
			return p.deps.Desk.Useless(c.Request().Context(), s, c.Param("id"), c.Request().PostForm.Get("reason"))
		},
		"/desk/consultations/:id/choice": func(c echo.Context, s staff.Session) error {
			return p.deps.Desk.ChooseRedial(c.Request().Context(), s, c.Param("id"), c.Request().PostForm.Get("wait") == "yes")
		},
	} {
		e.POST(path, p.withLawyer(func(c echo.Context, s staff.Session) error { return p.acted(c, act(c, s), "") }))
	}
	e.POST("/desk/consultations/:id/draft", p.withLawyer(func(c echo.Context, s staff.Session) error {
		return p.acted(c, p.deps.Desk.SaveDraft(c.Request().Context(), s, c.Param("id"), draftOf(c)), "draft")
	}))
	e.POST("/desk/consultations/:id/note", p.withLawyer(p.submitNote))
}

// Sentences that the desk says once, by the word for them in its address.
var (
	deskFaults = map[string]string{"elsewhere": "desk.fault.elsewhere", "gone": "desk.fault.gone", "busy": "desk.fault.busy", "phone": "desk.fault.phone",
		"note": "desk.fault.note", "confirm": "desk.fault.confirm", "now": "desk.fault.now", "unchecked": "desk.fault.unchecked"}
	deskDone = map[string]string{"note": "desk.done.note", "draft": "desk.draft.saved"}
)

// faultWord is what the address of the desk says of a refusal; false for an error that is none.
func faultWord(err error) (string, bool) {
	for _, f := range []struct {
		is   error
		word string
	}{{desk.ErrElsewhere, "elsewhere"}, {desk.ErrOfferGone, "gone"}, {desk.ErrLineBusy, "busy"}, {desk.ErrPhoneLost, "phone"}, {desk.ErrNotNow, "now"}, {desk.ErrUnchecked, "unchecked"},
		{problem.ErrNotFound, "now"}, {problem.ErrValidation, "note"}} {
		if errors.Is(err, f.is) {
			return f.word, true
		}
	}
	return "", false
}

// acted leads back to the desk after an act.
func (p *Pages) acted(c echo.Context, err error, done string) error {
	q := url.Values{}
	if word, refused := faultWord(err); refused {
		q.Set("fault", word)
	} else if err != nil {
		return err
	} else if done != "" {
		q.Set("done", done)
	}
	target := lawyersDesk
	if len(q) > 0 {
		target += "?" + q.Encode()
	}
	return c.Redirect(http.StatusSeeOther, target)
}

func (p *Pages) duty(c echo.Context, s staff.Session) (err error) {
	ctx := c.Request().Context()
	switch c.Request().PostForm.Get("do") {
	case "on":
		_, err = p.deps.Desk.GoOnDuty(ctx, s)
	case "pause":
		err = p.deps.Desk.Pause(ctx, s)
	case "off":
		_, err = p.deps.Desk.GoOffDuty(ctx, s)
	default:
		return statusError(http.StatusBadRequest)
	}
	return p.acted(c, err, "")
}

// caseView is a consultation as the desk shows it.
type caseView struct {
	consultation.Case
	Topic, Tongue  string // labels of competence and language
	Zone           *time.Location
	DialBy         *time.Time
	GivenUpAt      *time.Time
	SecondsLeft    int // of an offer
	NextAttempt    *time.Time
	Ended          bool // the call is over
	Draft          note.Draft
	Fault          string // key
	PreviewMax     int
	NoteMax        int
	Correction     bool
	UselessReasons []consultation.Reason
}

// CallState is where its call stands; empty without one.
func (v caseView) CallState() string {
	if v.Call == nil {
		return ""
	}
	return string(v.Call.State)
}

type deskView struct {
	State   desk.State
	Offered *caseView
	Hand    *caseView
	Notes   []caseView // with the one whose call goes on
	Zone    *time.Location
	Fault   string // key
}

// Off tells whether the lawyer is off duty, or was lost.
func (v deskView) Off() bool { return v.State.Connection == desk.None }

// Away tells whether he does not get offers though he is on duty.
func (v deskView) Away() bool { return v.State.Presence == lawyer.Away }

// Ready tells whether he waits for work.
func (v deskView) Ready() bool { return v.State.Presence == lawyer.Available }

// labels are the names of competences and languages, and the zone in which a lawyer reads times.
type labels struct {
	competences, languages []catalog.Entry
	zone                   *time.Location
}

func (p *Pages) labels(c echo.Context, tx postgres.Tx, s staff.Session) (l labels, err error) {
	ctx, tag := c.Request().Context(), language.Make(p.language(c))
	if l.zone, err = p.deps.Desk.Zone(ctx, tx, s); err != nil {
		return l, err
	}
	if l.competences, err = p.deps.Catalog.Competences(ctx, tx, tag); err != nil {
		return l, err
	}
	l.languages, err = p.deps.Catalog.Languages(ctx, tx, tag)
	return l, err
}

func (l labels) view(c consultation.Case) *caseView {
	v := &caseView{Case: c, Topic: label(l.competences, c.Competence), Tongue: label(l.languages, c.Language), Zone: l.zone, DialBy: desk.DialBy(c.Consultation),
		GivenUpAt: desk.LineGivenUpAt(c.Consultation), Ended: c.Status == consultation.CallEnded, PreviewMax: note.MaxPreview, NoteMax: note.MaxNote}
	if c.Status == consultation.Assigned {
		v.NextAttempt = c.NextDialAt
	}
	v.UselessReasons = []consultation.Reason{consultation.WrongPerson, consultation.TechnicalFault}
	if c.DurationSec != nil && *c.DurationSec < int(consultation.UsefulCall/time.Second) {
		v.UselessReasons = append(v.UselessReasons, consultation.TooShort)
	}
	return v
}

func (p *Pages) desk(c echo.Context, s staff.Session) error {
	return p.showDesk(c, http.StatusOK, s, nil)
}

// showDesk renders the desk; refused is a note that was not taken, to be shown again.
func (p *Pages) showDesk(c echo.Context, status int, s staff.Session, refused *caseView) error {
	ctx, tx := c.Request().Context(), p.deps.DB.Read()
	if s.LeaseEpoch > 0 { // where no script keeps a stream open, the page that loads again is the heartbeat
		if err := p.deps.Desk.Beat(ctx, s); err != nil && !errors.Is(err, desk.ErrElsewhere) {
			return err
		}
	}
	st, err := p.deps.Desk.State(ctx, tx, s)
	if err != nil {
		return err
	}
	l, err := p.labels(c, tx, s)
	if err != nil {
		return err
	}
	v := deskView{State: st, Fault: deskFaults[c.QueryParam("fault")], Zone: l.zone}
	if st.Offered != nil {
		v.Offered = l.view(*st.Offered)
		v.Offered.SecondsLeft = int(st.Offer.ExpiresAt.Sub(st.Now) / time.Second)
	}
	var written []consultation.Case
	if st.Hand != nil {
		v.Hand = l.view(*st.Hand)
		if st.Hand.Status == consultation.InCall {
			written = append(written, *st.Hand)
		}
	}
	for _, n := range append(written, st.Notes...) {
		item, err := p.noteView(ctx, tx, s, l.view(n), refused)
		if err != nil {
			return err
		}
		v.Notes = append(v.Notes, *item)
	}
	page := p.deskPage(c, "desk.title", v)
	page.Done = deskDone[c.QueryParam("done")]
	if len(v.Notes) == 0 {
		page.Refresh = deskRefresh
	}
	return p.renderStaff(c, status, s, "desk", page)
}

func (p *Pages) noteView(ctx context.Context, tx postgres.Tx, s staff.Session, v, refused *caseView) (*caseView, error) {
	if refused != nil && refused.ID == v.ID {
		v.Draft, v.Fault = refused.Draft, refused.Fault
		return v, nil
	}
	d, err := p.deps.Desk.Draft(ctx, tx, s, v.ID)
	if err != nil && !errors.Is(err, problem.ErrNotFound) { // it ended meanwhile
		return nil, err
	}
	v.Draft = d
	return v, nil
}

// deskPage is a page of the desk, with its script.
func (p *Pages) deskPage(c echo.Context, title string, data any) view {
	c.Response().Header().Set("Content-Security-Policy", policy+"; script-src 'self'; connect-src 'self'")
	return view{Title: title, Scripts: []string{p.deskScript.path}, Data: data}
}

func draftOf(c echo.Context) note.Draft {
	form := c.Request().PostForm
	return note.Draft{Note: form.Get("note"), Preview: form.Get("preview")}
}

// submitNote sends a note; what is refused is shown again as it was typed.
func (p *Pages) submitNote(c echo.Context, s staff.Session) error {
	d := draftOf(c)
	err := p.deps.Desk.SubmitNote(c.Request().Context(), s, c.Param("id"), d.Note, d.Preview, c.Request().PostForm.Get("confirmed") == "yes")
	if !errors.Is(err, problem.ErrValidation) {
		return p.acted(c, err, "note")
	}
	refused := &caseView{Draft: d, Fault: deskFaults["note"]}
	if problemOf, ok := problem.As(err); ok && len(problemOf.Issues) > 0 {
		refused.Fault = deskFaults["confirm"]
	}
	refused.ID = c.Param("id")
	if c.Request().PostForm.Get("correction") != "" {
		return p.showCorrection(c, http.StatusUnprocessableEntity, s, refused)
	}
	return p.showDesk(c, http.StatusUnprocessableEntity, s, refused)
}

// correctNoteForm is for a note that was sent: it replaces both texts.
func (p *Pages) correctNoteForm(c echo.Context, s staff.Session) error {
	v := &caseView{}
	v.ID = c.Param("id")
	return p.showCorrection(c, http.StatusOK, s, v)
}

func (p *Pages) showCorrection(c echo.Context, status int, s staff.Session, v *caseView) error {
	if !identifier.MatchString(v.ID) {
		return statusError(http.StatusNotFound)
	}
	v.Ended, v.Correction, v.PreviewMax, v.NoteMax = true, true, note.MaxPreview, note.MaxNote
	return p.renderStaff(c, status, s, "desk_note", p.deskPage(c, "desk.correct.title", v))
}

type callbacksView struct {
	Items []callbackView
	Zone  *time.Location
}

type callbackView struct {
	consultation.Callback
	Topic, Tongue string
}

func (p *Pages) callbacks(c echo.Context, s staff.Session) error {
	tx := p.deps.DB.Read()
	list, err := p.deps.Desk.Callbacks(c.Request().Context(), tx, s)
	if err != nil {
		return err
	}
	l, err := p.labels(c, tx, s)
	if err != nil {
		return err
	}
	v := callbacksView{Zone: l.zone}
	for _, item := range list {
		v.Items = append(v.Items, callbackView{item, label(l.competences, item.Pair.Competence), label(l.languages, item.Pair.Language)})
	}
	return p.renderStaff(c, http.StatusOK, s, "desk_callbacks", p.deskPage(c, "desk.callbacks.title", v))
}

type servedView struct {
	consultation.Served
	Topic, Tongue string
}

type historyView struct {
	Items    []servedView
	Earnings []consultation.Earned
	Older    string // address of the next page
	Zone     *time.Location
}

const servedPerPage = 20

func (p *Pages) history(c echo.Context, s staff.Session) error {
	ctx, tx := c.Request().Context(), p.deps.DB.Read()
	var before consultation.Position
	if at := c.QueryParam("before"); at != "" {
		t, err := time.Parse(time.RFC3339Nano, at)
		if err != nil || t.Year() < 1 || t.Year() > 9999 {
			return statusError(http.StatusBadRequest)
		}
		before = consultation.Position{CreatedAt: t, ID: c.QueryParam("id")}
		if !identifier.MatchString(before.ID) {
			return statusError(http.StatusBadRequest)
		}
	}
	items, more, err := p.deps.Desk.History(ctx, tx, s, before, servedPerPage)
	if err != nil {
		return err
	}
	l, err := p.labels(c, tx, s)
	if err != nil {
		return err
	}
	v := historyView{Zone: l.zone}
	for _, item := range items {
		v.Items = append(v.Items, servedView{item, label(l.competences, item.Pair.Competence), label(l.languages, item.Pair.Language)})
	}
	if more {
		last := items[len(items)-1]
		v.Older = "/desk/history?" + url.Values{"before": {last.CreatedAt.Format(time.RFC3339Nano)}, "id": {last.ConsultationID}}.Encode()
	}
	if before.ID == "" {
		if v.Earnings, err = p.deps.Desk.Earnings(ctx, tx, s); err != nil {
			return fmt.Errorf("read earnings: %w", err)
		}
	}
	return p.renderStaff(c, http.StatusOK, s, "desk_history", p.deskPage(c, "desk.history.title", v))
}
