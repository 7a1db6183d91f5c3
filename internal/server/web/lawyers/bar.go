package lawyers

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/desk"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/shell"
)

// barPage is what the desk script reads on all other pages of a lawyer.
const barPage = shell.LawyersDesk + "/bar"

// deskPolicy is the content security policy of pages with the desk script.
const deskPolicy = shell.Policy + "; script-src 'self'; connect-src 'self'"

// WithDesk keeps a lawyer on duty on a page other than the desk. The page gets the script that sends heartbeats, and
// the bar with the open offer. Loading the page is a heartbeat too.
func (p *Pages) WithDesk(c echo.Context, s staff.Session, v *shell.View) error {
	if s.Person.Kind != staff.Lawyer {
		return nil
	}
	bar, err := p.deskView(c, s)
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Security-Policy", deskPolicy)
	v.Bar, v.Scripts = &bar, append(v.Scripts, p.Scripts["desk"].Path)
	return nil
}

// bar serves the bar alone to the script.
func (p *Pages) bar(c echo.Context, s staff.Session) error {
	return p.RenderStaff(c, http.StatusOK, s, "desk_bar", shell.View{Title: "desk.title"})
}

// beat renews the presence of a lawyer who opens a page of the desk.
func (p *Pages) beat(c echo.Context, s staff.Session) error {
	if s.LeaseEpoch == 0 {
		return nil
	}
	if err := p.deps.Desk.Beat(c.Request().Context(), s); err != nil && !errors.Is(err, desk.ErrElsewhere) {
		return err
	}
	return nil
}

// deskView returns the desk without notes and drafts.
func (p *Pages) deskView(c echo.Context, s staff.Session) (v deskView, err error) {
	if err := p.beat(c, s); err != nil {
		return v, err
	}
	tx := p.DB.Read()
	st, err := p.deps.Desk.State(c.Request().Context(), tx, s)
	if err != nil {
		return v, err
	}
	l, err := p.labels(c, tx, s)
	if err != nil {
		return v, err
	}
	v = deskView{State: st, Fault: deskFaults[c.QueryParam("fault")], Zone: l.zone, CSRF: p.StaffCSRF(c),
		Who: s.Person.ID, labels: l}
	if st.Offered != nil {
		v.Offered = l.view(*st.Offered)
		v.Offered.SecondsLeft = int(st.Offer.ExpiresAt.Sub(st.Now).Seconds())
	}
	if st.Hand != nil {
		v.Hand = l.view(*st.Hand)
	}
	return v, nil
}

// Left returns the text key for the reason why the lawyer is off duty. It is empty if there is nothing to explain, or
// if the missed call explains it better.
func (v deskView) Left() string {
	if v.State.Left.Why == "" || v.State.Missed != nil && v.State.Left.Why == lawyer.NotReached {
		return ""
	}
	return "desk.left." + string(v.State.Left.Why)
}

// webActs maps the method and route of each desk page to its action, for [desk.Service.Admit].
var webActs = map[string]desk.Act{"GET " + shell.LawyersDesk: "getState", "HEAD " + shell.LawyersDesk: "getState",
	"GET " + barPage: "getState", "POST /desk/duty": "goOnDuty", "POST /desk/consultations/:id/draft": "saveDraft",
	"POST /desk/consultations/:id/note": "submitNote", "POST /desk/consultations/:id/end": "endCall",
	"POST /desk/consultations/:id/restart": "restartCall", "POST /desk/consultations/:id/useless": "closeUseless",
	"GET " + shell.KeyPage: "getKey", "HEAD " + shell.KeyPage: "getKey", "POST /desk/copies/:id": "takeCopy"}

// webAct returns the desk action of a request. It is empty for actions closed to suspended lawyers.
func webAct(c echo.Context) desk.Act {
	r := c.Request()
	act := webActs[r.Method+" "+c.Path()]
	if act == "goOnDuty" && r.PostForm.Get("do") != "on" {
		act = "pause"
	}
	return act
}

// RestOn returns the premise of a lawyer's actions at the desk, the same as in the Desk API.
func (p *Pages) RestOn(c echo.Context, s staff.Session) postgres.Rests {
	return desk.Acting{Session: s, Act: webAct(c)}
}

// Admit decides whether a lawyer may carry out the request. done reports that the response has been sent.
func (p *Pages) Admit(c echo.Context, s staff.Session) (done bool, err error) {
	if s.Person.Kind != staff.Lawyer {
		return false, nil
	}
	err = p.deps.Desk.Admit(c.Request().Context(), s, webAct(c))
	switch {
	case errors.Is(err, desk.ErrOut):
		p.SetStaffToken(c, "")
		return true, p.StaffSuspended(c, p.StaffLoginView("", s.Person.Email))
	case errors.Is(err, desk.ErrForbidden):
		return true, p.acted(c, err, "")
	case err != nil:
		return false, fmt.Errorf("admit the lawyer: %w", err)
	}
	return false, nil
}
