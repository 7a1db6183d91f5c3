package lawyers

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"
	"golang.org/x/text/language"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/catalog"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/desk"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/note"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
	"partnerd/internal/server/web/signin"
)

// Deps is what the desk's pages need beside the shell.
type Deps struct {
	Catalog *catalog.Service
	Desk    *desk.Service
}

// Pages serves the desk's pages.
type Pages struct {
	*signin.Pages
	deps Deps
}

// New returns the pages.
func New(s *signin.Pages, d Deps) *Pages { return &Pages{Pages: s, deps: d} }

// deskRefresh is after how many seconds the desk loads again where no script does it: often enough to see an offer in
// time. Not while somebody may be writing.
const deskRefresh = 8

// Register adds the pages of lawyers. Every act answers with the desk, so that it works without the script, which
// sends the same forms and shows what has changed.
func (p *Pages) Register(e *echo.Echo, read []string) {
	p.registerKey(e, read)
	e.Match(read, shell.LawyersDesk, p.WithLawyer(p.desk))
	e.Match(read, "/desk/callbacks", p.WithLawyer(p.callbacks))
	e.Match(read, "/desk/history", p.WithLawyer(p.history))
	e.Match(read, "/desk/consultations/:id/note", p.WithLawyer(p.correctNoteForm))
	e.GET(barPage, p.WithLawyer(p.bar))
	e.POST("/desk/duty", p.WithLawyer(p.StaffOnce(p.duty)))
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
			return p.deps.Desk.ChooseRedial(c.Request().Context(), s, c.Param("id"),
				c.Request().PostForm.Get("wait") == "yes")
		},
	} {
		e.POST(path,
			p.WithLawyer(p.StaffOnce(func(c echo.Context, s staff.Session) error { return p.acted(c, act(c, s), "") })))
	}
	e.POST("/desk/consultations/:id/draft", p.WithLawyer(p.StaffOnce(p.saveDraft)))
	e.POST("/desk/consultations/:id/note", p.WithLawyer(p.StaffOnce(p.submitNote)))
}

// Sentences that the desk says once, by the word for them in its address.
var (
	deskFaults = map[string]string{"elsewhere": "desk.fault.elsewhere", "gone": "desk.fault.gone",
		"busy": "desk.fault.busy", "phone": "desk.fault.phone", "note": "desk.fault.note",
		"confirm": "desk.fault.confirm", "now": "desk.fault.now", "unchecked": "desk.fault.unchecked",
		"finishing": "desk.fault.finishing"}
	deskDone = map[string]string{"note": "desk.done.note", "draft": "desk.draft.saved"}
)

// faultWord is what the address of the desk says of a refusal; false for an error that is none.
func faultWord(err error) (string, bool) {
	for _, f := range []struct {
		is   error
		word string
	}{{desk.ErrElsewhere, "elsewhere"}, {desk.ErrOfferGone, "gone"}, {desk.ErrLineBusy, "busy"},
		{desk.ErrPhoneLost, "phone"}, {desk.ErrNotNow, "now"}, {desk.ErrUnchecked, "unchecked"},
		{desk.ErrForbidden, "finishing"}, {problem.ErrNotFound, "now"}, {problem.ErrValidation, "note"}} {
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
	target := shell.LawyersDesk
	if c.Request().PostForm.Get("back") == "bar" { // the script, on another page
		target = barPage
	}
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
		return shell.StatusError(http.StatusBadRequest)
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
	Version        string     // of the draft over which the texts are written
	Other          note.Draft // the one that is kept, when it is not the one they were written over
	Conflict       bool       // there is such another one
	NoKey          bool       // the lawyer has told none, and will never read the note again
	Fault          string     // key
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

// longDescription is from how many characters on a description is folded: the buttons of an offer stay near.
const longDescription = 240

// Long tells whether the description is folded.
func (v caseView) Long() bool { return utf8.RuneCountInString(v.Description) > longDescription }

// Start is what is shown of a description that is folded.
func (v caseView) Start() string {
	return strings.TrimSpace(string([]rune(v.Description)[:longDescription/2])) + " …"
}

type deskView struct {
	State   desk.State
	Offered *caseView
	Hand    *caseView
	Notes   []caseView // with the one whose call goes on
	Zone    *time.Location
	Fault   string // key
	CSRF    string
	Who     string // identifier of the lawyer as somebody who signs in

	labels labels
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
	ctx, tag := c.Request().Context(), language.Make(p.Language(c))
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
	v := &caseView{Case: c, Topic: forms.Label(l.competences, c.Competence),
		Tongue: forms.Label(l.languages, c.Language),
		Zone:   l.zone, DialBy: desk.DialBy(c.Consultation), GivenUpAt: desk.LineGivenUpAt(c.Consultation),
		Ended: c.Status == consultation.CallEnded, PreviewMax: note.MaxPreview, NoteMax: note.MaxNote}
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
	ctx, tx := c.Request().Context(), p.DB.Read()
	v, err := p.deskView(c, s)
	if err != nil {
		return err
	}
	var written []consultation.Case
	if hand := v.State.Hand; hand != nil && hand.Status == consultation.InCall {
		written = append(written, *hand)
	}
	written = append(written, v.State.Notes...)
	keyless := false
	if len(written) > 0 {
		_, has, err := p.deps.Desk.Key(ctx, tx, s)
		if err != nil {
			return err
		}
		keyless = !has
	}
	for _, n := range written {
		item, err := p.noteView(ctx, tx, s, v.labels.view(n), refused)
		if err != nil {
			return err
		}
		item.NoKey = keyless
		v.Notes = append(v.Notes, *item)
	}
	page := p.deskPage(c, "desk.title", v)
	page.Done = deskDone[c.QueryParam("done")]
	if len(v.Notes) == 0 {
		page.Refresh = deskRefresh
	}
	return p.RenderStaff(c, status, s, "desk", page)
}

func (p *Pages) noteView(ctx context.Context, tx postgres.Tx, s staff.Session,
	v, refused *caseView,
) (*caseView, error) {
	if refused != nil && refused.ID == v.ID {
		v.Draft, v.Fault, v.Version, v.Other, v.Conflict = refused.Draft, refused.Fault, refused.Version, refused.Other,
			refused.Conflict
		return v, nil
	}
	d, err := p.deps.Desk.Draft(ctx, tx, s, v.ID)
	if err != nil && !errors.Is(err, problem.ErrNotFound) { // it ended meanwhile
		return nil, err
	}
	v.Draft, v.Version = d, d.Version()
	return v, nil
}

// deskPage is a page of the desk, with its script.
func (p *Pages) deskPage(c echo.Context, title string, data any) shell.View {
	c.Response().Header().Set("Content-Security-Policy", deskPolicy)
	return shell.View{Title: title, Scripts: []string{p.Scripts["desk"].Path}, Data: data}
}

func draftOf(c echo.Context) note.Draft {
	form := c.Request().PostForm
	return note.Draft{Note: form.Get("note"), Preview: form.Get("preview")}
}

// saveDraft keeps what was typed, unless another text was kept since: then both are shown, and the lawyer says which
// stays.
func (p *Pages) saveDraft(c echo.Context, s staff.Session) error {
	ctx, form, d := c.Request().Context(), c.Request().PostForm, draftOf(c)
	switch form.Get("take") {
	case "other":
		return p.acted(c, nil, "")
	case "both":
		kept, err := p.deps.Desk.Draft(ctx, p.DB.Read(), s, c.Param("id"))
		if err != nil {
			return p.acted(c, err, "")
		}
		d = joined(d, kept)
	}
	err := p.deps.Desk.SaveDraft(ctx, s, c.Param("id"), d, form.Get("version"))
	if errors.Is(err, desk.ErrDraft) {
		return p.showConflict(c, s, d)
	}
	return p.acted(c, err, "draft")
}

// joined puts the texts of another draft below those of d.
func joined(d, other note.Draft) note.Draft {
	join := func(a, b string) string {
		if a == b || b == "" {
			return a
		}
		return strings.TrimLeft(a+"\n\n"+b, "\n")
	}
	return note.Draft{Note: join(d.Note, other.Note), Preview: join(d.Preview, other.Preview)}
}

// showConflict shows what was typed beside the draft that is kept. A note that was sent meanwhile can only be
// corrected.
func (p *Pages) showConflict(c echo.Context, s staff.Session, typed note.Draft) error {
	kept, err := p.deps.Desk.Draft(c.Request().Context(), p.DB.Read(), s, c.Param("id"))
	v := &caseView{Draft: typed, Other: kept, Conflict: true, Version: kept.Version()}
	v.ID = c.Param("id")
	if errors.Is(err, problem.ErrNotFound) {
		v.Conflict, v.Fault = false, "desk.fault.sent"
		return p.showCorrection(c, http.StatusConflict, s, v)
	}
	if err != nil {
		return err
	}
	return p.showDesk(c, http.StatusConflict, s, v)
}

// submitNote sends a note; what is refused is shown again as it was typed.
func (p *Pages) submitNote(c echo.Context, s staff.Session) error {
	d, form := draftOf(c), c.Request().PostForm
	err := p.deps.Desk.SubmitNote(c.Request().Context(), s, c.Param("id"), d, form.Get("version"),
		form.Get("confirmed") == "yes")
	if errors.Is(err, desk.ErrDraft) {
		return p.showConflict(c, s, d)
	}
	if err == nil {
		return p.noteSent(c, s)
	}
	if !errors.Is(err, problem.ErrValidation) {
		return p.acted(c, err, "")
	}
	refused := &caseView{Draft: d, Version: form.Get("version"), Fault: deskFaults["note"]}
	if problemOf, ok := problem.As(err); ok && len(problemOf.Issues) > 0 {
		refused.Fault = deskFaults["confirm"]
	}
	refused.ID = c.Param("id")
	if form.Get("correction") != "" {
		return p.showCorrection(c, http.StatusUnprocessableEntity, s, refused)
	}
	return p.showDesk(c, http.StatusUnprocessableEntity, s, refused)
}

// noteSent leads back to the desk. Whoever was suspended before their last note is told so here: their session ends
// with it.
func (p *Pages) noteSent(c echo.Context, s staff.Session) error {
	err := p.deps.Desk.Admit(c.Request().Context(), s, "getState")
	switch {
	case errors.Is(err, desk.ErrOut):
		p.SetStaffToken(c, "")
		v := p.StaffLoginView("", s.Person.Email)
		v.Done = "staff.login.suspended.note"
		return p.StaffSuspended(c, v)
	case err != nil && !errors.Is(err, desk.ErrForbidden):
		return fmt.Errorf("admit the lawyer: %w", err)
	}
	return p.acted(c, nil, "note")
}

// correctNoteForm is for a note that was sent: it replaces both texts.
func (p *Pages) correctNoteForm(c echo.Context, s staff.Session) error {
	v := &caseView{}
	v.ID = c.Param("id")
	ctx, tx := c.Request().Context(), p.DB.Read()
	err := p.deps.Desk.TakesNote(ctx, tx, s, v.ID)
	if errors.Is(err, problem.ErrNotFound) {
		return shell.StatusError(http.StatusNotFound)
	}
	if err != nil {
		return err
	}
	_, err = p.deps.Desk.Draft(ctx, tx, s, v.ID)
	if err == nil { // it is still to be sent, and its draft is there
		return c.Redirect(http.StatusSeeOther, shell.LawyersDesk+"#note-"+v.ID)
	}
	if !errors.Is(err, problem.ErrNotFound) {
		return err
	}
	return p.showCorrection(c, http.StatusOK, s, v)
}

func (p *Pages) showCorrection(c echo.Context, status int, s staff.Session, v *caseView) error {
	if !shell.Identifier.MatchString(v.ID) {
		return shell.StatusError(http.StatusNotFound)
	}
	v.Ended, v.Correction, v.PreviewMax, v.NoteMax = true, true, note.MaxPreview, note.MaxNote
	_, has, err := p.deps.Desk.Key(c.Request().Context(), p.DB.Read(), s)
	if err != nil {
		return err
	}
	v.NoKey = !has
	return p.RenderStaff(c, status, s, "desk_note", shell.View{Title: "desk.correct.title", Data: v})
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
	tx := p.DB.Read()
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
		v.Items = append(v.Items, callbackView{item, forms.Label(l.competences, item.Pair.Competence),
			forms.Label(l.languages, item.Pair.Language)})
	}
	return p.RenderStaff(c, http.StatusOK, s, "desk_callbacks", shell.View{Title: "desk.callbacks.title", Data: v})
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
	ctx, tx := c.Request().Context(), p.DB.Read()
	var before consultation.Position
	if at := c.QueryParam("before"); at != "" {
		t, err := time.Parse(time.RFC3339Nano, at)
		if err != nil || t.Year() < 1 || t.Year() > 9999 {
			return shell.StatusError(http.StatusBadRequest)
		}
		before = consultation.Position{CreatedAt: t, ID: c.QueryParam("id")}
		if !shell.Identifier.MatchString(before.ID) {
			return shell.StatusError(http.StatusBadRequest)
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
		v.Items = append(v.Items, servedView{item, forms.Label(l.competences, item.Pair.Competence),
			forms.Label(l.languages, item.Pair.Language)})
	}
	if more {
		last := items[len(items)-1]
		v.Older = "/desk/history?" + url.Values{"before": {last.CreatedAt.Format(time.RFC3339Nano)},
			"id": {last.ConsultationID}}.Encode()
	}
	if before.ID == "" {
		if v.Earnings, err = p.deps.Desk.Earnings(ctx, tx, s); err != nil {
			return fmt.Errorf("read earnings: %w", err)
		}
	}
	return p.RenderStaff(c, http.StatusOK, s, "desk_history", shell.View{Title: "desk.history.title", Data: v})
}
