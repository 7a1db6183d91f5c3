package lawyers

import (
	"errors"
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

// deskPage is a page of the desk, with its script.
func (p *Pages) deskPage(c echo.Context, title string, data any) shell.View {
	c.Response().Header().Set("Content-Security-Policy", deskPolicy)
	return shell.View{Title: title, Scripts: []string{p.Scripts["desk"].Path}, Data: data}
}
