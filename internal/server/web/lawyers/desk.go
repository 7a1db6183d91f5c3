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

// Deps contains the dependencies of the desk pages besides the shell.
type Deps struct {
	Catalog *catalog.Service
	Desk    *desk.Service
}

// Pages serves the desk pages.
type Pages struct {
	*signin.Pages
	deps Deps
}

// New creates the pages.
func New(s *signin.Pages, d Deps) *Pages { return &Pages{Pages: s, deps: d} }

// deskRefresh is the interval in seconds after which the desk reloads without the script. It is short enough to show
// offers in time. The desk does not reload while the lawyer may be writing.
const deskRefresh = 8

// Register adds the pages of lawyers. Every action responds with the desk, so that the desk works without the script.
// The script sends the same forms and shows what changed.
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

// Messages that the desk shows once, by their name in the query.
var (
	deskFaults = map[string]string{"elsewhere": "desk.fault.elsewhere", "gone": "desk.fault.gone",
		"busy": "desk.fault.busy", "phone": "desk.fault.phone", "note": "desk.fault.note",
		"confirm": "desk.fault.confirm", "now": "desk.fault.now", "unchecked": "desk.fault.unchecked",
		"finishing": "desk.fault.finishing"}
	deskDone = map[string]string{"note": "desk.done.note", "draft": "desk.draft.saved"}
)

// faultWord returns the word for a refusal in the query string of the desk's URL, or false for any other error.
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

// acted redirects to the desk after an action.
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
	SecondsLeft    int // until an offer expires
	NextAttempt    *time.Time
	Ended          bool // the call is over
	Draft          note.Draft
	Version        string     // of the draft that the texts are based on
	Other          note.Draft // the stored draft, if it differs from that draft
	Conflict       bool       // Other holds such a draft
	NoKey          bool       // the lawyer has set no key and will never be able to read the note
	Fault          string     // text key
	PreviewMax     int
	NoteMax        int
	Correction     bool
	UselessReasons []consultation.Reason
}

// CallState returns the state of its call, or "" without a call.
func (v caseView) CallState() string {
	if v.Call == nil {
		return ""
	}
	return string(v.Call.State)
}

// longDescription is the number of characters above which a description is collapsed, to keep the buttons of an offer
// nearby.
const longDescription = 240

// Long reports whether the description is collapsed.
func (v caseView) Long() bool { return utf8.RuneCountInString(v.Description) > longDescription }

// Start returns the visible beginning of a collapsed description.
func (v caseView) Start() string {
	return strings.TrimSpace(string([]rune(v.Description)[:longDescription/2])) + " …"
}

type deskView struct {
	State   desk.State
	Offered *caseView
	Hand    *caseView
	Notes   []caseView // including the one whose call is in progress
	Zone    *time.Location
	Fault   string // text key
	CSRF    string
	Who     string // staff ID of the lawyer

	labels labels
}

// Off reports whether the lawyer is off duty or has lost the connection.
func (v deskView) Off() bool { return v.State.Connection == desk.None }

// Away reports whether the lawyer is paused: on duty, but without offers.
func (v deskView) Away() bool { return v.State.Presence == lawyer.Away }

// Ready reports whether the lawyer waits for an offer.
func (v deskView) Ready() bool { return v.State.Presence == lawyer.Available }

// labels holds the labels of competences and languages, and the lawyer's time zone.
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

// showDesk renders the desk. refused is a rejected note that is shown again.
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
