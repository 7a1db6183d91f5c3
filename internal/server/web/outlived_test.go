package web

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/id"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/sandbox"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/operators"
	"partnerd/internal/server/web/shell"
)

// visitors lists the forms that need no sign-in.
var visitors = []string{"/login", "/login/passkey", "/logout", "/checkout/:id", "/signup", "/signup/confirm",
	"/password/forgot", "/password/reset", "/email/undo", "/developers/signup", "/developers/join", shell.StaffLogin,
	"/staff/login/code", "/staff/login/factor", "/staff/login/passkey", "/staff/logout", "/staff/invitation",
	"/staff/password/forgot", "/staff/password/reset"}

// early lists forms that only read, or that are refused by their own rules before they act.
var early = []string{"/desk/copies/:id", "/ops/applications/:id/redeliver-one", "/ops/lawyers/:id/duty",
	"/ops/consultations/:id/assign", "/developers/apps/:app/webhooks/signature"}

// forms returns the paths of all forms for signed-in people.
func (f *fixture) forms() (paths []string) {
	e := echo.New()
	f.pages.Register(e)
	for _, r := range e.Routes() {
		if r.Method == http.MethodPost && !slices.Contains(visitors, r.Path) {
			paths = append(paths, r.Path)
		}
	}
	if len(paths) < 90 {
		f.t.Fatalf("%d forms", len(paths))
	}
	return paths
}

// signer is a person who sends forms and whose session or right ends.
type signer struct {
	*browser
	csrf string
	end  func(tx postgres.Tx) error
}

// signClientIn begins a session of the client. It ends with all of their sessions, as when they are disabled.
func (f *fixture) signClientIn() signer {
	s := signer{browser: f.browser()}
	f.tx(func(tx postgres.Tx) {
		token := must(f.accounts.SignInFrom(f.t.Context(), tx, f.client.ID, account.Device{}))
		s.meanwhile(shell.SessionCookie, token)
		s.csrf = shell.WithPageKey(shell.CSRFToken(token))
	})
	s.end = func(tx postgres.Tx) error {
		if _, err := f.accounts.Lock(f.t.Context(), tx, f.client.ID); err != nil {
			return err
		}
		_, err := f.accounts.EndSessions(f.t.Context(), tx, f.client.ID)
		return err
	}
	return s
}

// signStaffIn begins a session of a staff member. It ends with all of their sessions, as when they are disabled.
func (f *fixture) signStaffIn(staffID string) signer {
	s, token := signer{browser: f.browser()}, ""
	f.tx(func(tx postgres.Tx) {
		token = tx.NewSecret("test")
		err := dbtest.Exec(f.t.Context(), tx,
			`INSERT INTO staff_sessions (token_hash, staff_id, complete, lease_epoch, user_agent,
			address, created_at, last_used_at, expires_at) VALUES ($1, $2, true, 0, 'test', '192.0.2.1', $3, $3, $4)`,
			id.DigestOf(token), staffID, tx.Now, tx.Now.Add(time.Hour))
		if err != nil {
			f.t.Fatal(err)
		}
	})
	s.meanwhile(staff.CookieName(false), token)
	s.csrf = shell.WithPageKey(staff.FormToken(token))
	s.end = func(tx postgres.Tx) error {
		if _, err := f.staff.Lock(f.t.Context(), tx, staffID); err != nil {
			return err
		}
		_, err := f.staff.EndSessions(f.t.Context(), tx, staffID, "")
		return err
	}
	return s
}

// overtaken sends a form while the session or the right of its sender is being ended. The ending commits once the form
// waits or has its response.
func (f *fixture) overtaken(s signer, path string, form url.Values) page {
	f.t.Helper()
	form.Set("csrf", s.csrf)
	form.Set(shell.OnceField, shell.NewFormKey())
	form.Set(shell.EntryField, f.db.Read().NewID(id.Audit))
	answered := make(chan page, 1)
	f.tx(func(tx postgres.Tx) {
		if err := s.end(tx); err != nil {
			f.t.Fatal(err)
		}
		go func() { answered <- s.post(path, form) }()
		for waiting := 0; waiting == 0 && len(answered) == 0; {
			err := f.db.Pool().QueryRow(f.t.Context(), `SELECT count(*) FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
			if err != nil {
				f.t.Fatal(err)
			}
		}
	})
	return <-answered
}

// acts is [fixture.state] without what an ending changes.
func (f *fixture) acts() map[string]string {
	state := f.state()
	for _, name := range []string{"browser_sessions", "application_members"} {
		delete(state, name)
	}
	return state
}

// A form whose sender's session ends during the request has no effect and leads to the sign-in.
func TestNoFormOutlivesItsSession(t *testing.T) {
	t.Parallel()
	f, ops := newFixture(t, generous), newFixture(t, generous)
	subjects, _ := ops.opsDesk()
	operator := ops.personOf(ops.operator(staff.Admin))
	lawyerID, _ := f.newLawyer()
	lawyer, member := must(f.staff.OfLawyer(t.Context(), f.db.Read(), lawyerID)).ID, f.personOf(f.member(portal.Owner))
	address, values := f.portalOf(), f.formValues()
	for _, path := range f.forms() {
		of, target, to := f, strings.Replace(path, ":id", "con_none", 1), shell.StaffLogin
		var s signer
		switch {
		case path == shell.ConsentPath:
			s, to = f.signClientIn(), "/login?next="+url.QueryEscape(shell.AuthorizePath)
		case strings.HasPrefix(path, "/account"):
			s, to = f.signClientIn(), "/login?next="
		case strings.HasPrefix(path, shell.LawyersDesk+"/"):
			s = f.signStaffIn(lawyer)
		case strings.HasPrefix(path, shell.OperatorDesk):
			of, s, target = ops, ops.signStaffIn(operator), strings.Replace(path, ":id",
				subjects[operators.SectionOf(path)], 1)
		default:
			s, target = f.signStaffIn(member), address(path, member)
		}
		before := of.acts()
		got := of.overtaken(s, target, values(path))
		if !strings.HasPrefix(got.Header.Get("Location"), to) && !slices.Contains(early, path) {
			t.Errorf("%s: %d to %q", path, got.StatusCode, got.Header.Get("Location"))
		}
		of.untouched(before, path)
	}
}

// The same holds for an action in the portal whose member is being removed: it is refused. Checking a signature changes
// nothing.
func TestNoActOfAMemberOutlivesTheMembership(t *testing.T) {
	t.Parallel()
	f := newFixture(t, generous)
	address, values, member := f.portalOf(), f.formValues(), f.personOf(f.member(portal.Owner))
	s := f.signStaffIn(member)
	s.end = func(tx postgres.Tx) error {
		return dbtest.Exec(t.Context(), tx, "DELETE FROM application_members WHERE staff_id = $1", member)
	}
	for _, a := range f.pages.developers.Acts() {
		if a.Need == "" || a.Name == "signature" {
			continue
		}
		target := address(a.Path, member)
		before := f.acts()
		if got := f.overtaken(s, target, values(a.Path)); got.StatusCode != http.StatusForbidden {
			t.Errorf("%s: %d to %q", a.Path, got.StatusCode, got.Header.Get("Location"))
		}
		f.untouched(before, a.Path)
		f.exec(`INSERT INTO application_members (application_id, staff_id, role, created_at) VALUES ($1, $2, 'owner', now())`,
			f.app.ID, member)
	}
}

func (f *fixture) personOf(w *worker) string {
	f.t.Helper()
	return must(f.staff.ByEmail(f.t.Context(), f.db.Read(), w.email)).ID
}

// untouched is [fixture.unchanged] for the state of [fixture.acts].
func (f *fixture) untouched(before map[string]string, what string) {
	f.t.Helper()
	for name, now := range f.acts() {
		if before[name] != now {
			f.t.Errorf("%s changes %s", what, name)
		}
	}
}

// portalValues are the values that forms of the portal require, by the name of the action.
func portalValues() map[string]url.Values {
	application := url.Values{"name": {"New CRM"}, "redirects": {redirectURI}}
	return map[string]url.Values{
		"create": application, "edit": application, "secret": {"hours": {"24"}},
		"hook-test": {"type": {string(webhook.Completed)}}, "clock": {"minutes": {"30"}},
		"redeliver-range": {"from": {"2026-05-31T00:00"}, "to": {"2026-06-02T00:00"}},
		"invite":          {"email": {"new@crm.example"}, "role": {string(portal.Viewer)}, "tongue": {"en"}},
		"client-new":      {"name": {"Camille"}, "euros": {"100"}},
		"client-scenario": {"scenario": {sandbox.Scenarios()[0]}},
		"lawyer-new":      {"name": {"Dominique"}, "competences": {"TAX"}, "languages": {"FR"}},
	}
}

// formValues returns the values that the form at a path requires to reach its action.
func (f *fixture) formValues() func(path string) url.Values {
	all := map[string]url.Values{}
	for _, a := range f.pages.operators.Acts() {
		all[a.Path] = actValues()[a.Name]
	}
	for _, a := range f.pages.developers.Acts() {
		all[a.Path] = portalValues()[a.Name]
	}
	authorize := strings.TrimPrefix(f.authorizeURL("profile:read"), shell.AuthorizePath+"?")
	all[shell.ConsentPath] = url.Values{"request": {authorize}, "decision": {"allow"}, "scope": {"profile:read"}}
	return func(path string) url.Values {
		form := url.Values{"reason": {"A test"}, "present": {testPassword}}
		maps.Copy(form, all[path])
		return form
	}
}
