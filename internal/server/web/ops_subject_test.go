package web

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/sandbox"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/operators"
)

// everyKind returns an ID of each kind at the desk, with its section ("" for none).
func (f *fixture) everyKind() map[string]struct{ section, id string } {
	f.t.Helper()
	subjects, _ := f.opsDesk()
	partner := f.member(portal.Owner)
	person := func(email string) string { return must(f.staff.ByEmail(f.t.Context(), f.db.Read(), email)).ID }
	var crew sandbox.CrewLawyer
	f.tx(func(tx postgres.Tx) {
		n := sandbox.NewCrewLawyer{Name: "Dominique", Competences: []string{"FAMILY"}, Languages: []string{"FR"}}
		crew = must(f.deps.Playground.Crews.Create(f.t.Context(), tx, "test", f.app.ID, n))
	})
	var invitation portal.Invitation
	f.tx(func(tx postgres.Tx) {
		var err error
		if invitation, _, err = f.deps.Portal.InviteTo(f.t.Context(), tx, "cli", f.app, "new@crm.example",
			portal.Viewer, "en"); err != nil {
			f.t.Fatal(err)
		}
	})
	kinds := map[string]struct{ section, id string }{
		"the person of a lawyer": {"", person("l@bar.example")},
		"a person of a partner":  {"people", person(partner.email)}, "a simulated lawyer": {"lawyers", crew.ID},
		"an invitation": {"", invitation.ID}, "nothing": {"", "stf_none"},
	}
	for section, id := range subjects {
		kinds["one of "+section] = struct{ section, id string }{section, id}
	}
	return kinds
}

// state returns a digest of every table, except for changes caused by viewing a page.
func (f *fixture) state() map[string]string {
	f.t.Helper()
	rows, err := f.db.Pool().Query(f.t.Context(), `SELECT tablename FROM pg_tables WHERE schemaname = 'public'
		AND tablename NOT IN ('staff_sessions', 'rate_buckets') AND has_table_privilege('public.' || tablename, 'SELECT') ORDER BY tablename`)
	if err != nil {
		f.t.Fatal(err)
	}
	var tables []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			f.t.Fatal(err)
		}
		tables = append(tables, name)
	}
	state := map[string]string{}
	for _, name := range tables {
		var digest string
		sql := fmt.Sprintf("SELECT md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), '')) FROM %s t", name)
		if err := f.db.Pool().QueryRow(f.t.Context(), sql).Scan(&digest); err != nil {
			f.t.Fatal(name, err)
		}
		state[name] = digest
	}
	return state
}

func (f *fixture) unchanged(before map[string]string, what string) {
	f.t.Helper()
	for name, now := range f.state() {
		if before[name] != now {
			f.t.Errorf("%s changes %s", what, name)
		}
	}
}

// An action or a page accepts only the subjects of its section. Any other ID is "not found", and nothing happens.
func TestActsTakeSubjectsOfTheirSectionOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	kinds := f.everyKind()
	w := f.join(staff.NewPerson{Kind: staff.Operator, Email: "admin@partners.example", Name: "Olga Operator",
		Language: "en", Roles: []staff.Role{staff.Admin}})
	values, before := actValues(), f.state()
	foreign := func(path string, do func(kind, path string)) {
		for kind, k := range kinds {
			if section := operators.SectionOf(path); strings.Contains(path, ":id") && k.section != section {
				do(kind, strings.Replace(path, ":id", k.id, 1))
			}
		}
	}
	for _, r := range f.pages.operators.Reads() {
		foreign(r.Path, func(kind, path string) {
			if p := w.get(path); p.StatusCode != http.StatusNotFound {
				t.Errorf("%s with %s: %d", r.Path, kind, p.StatusCode)
			}
		})
	}
	for _, a := range f.pages.operators.Acts() {
		foreign(a.Path, func(kind, path string) {
			if p := w.get(path); p.StatusCode != http.StatusNotFound {
				t.Errorf("the form of %s for %s: %d", a.Name, kind, p.StatusCode)
			}
			form := url.Values{"csrf": {staff.FormToken(w.cookie(staff.CookieName(false)))},
				"entry": {f.db.Read().NewID("aud")}, "reason": {"A test"}}
			for name, v := range values[a.Name] {
				form[name] = v
			}
			if p := w.post(path, form); p.StatusCode != http.StatusNotFound {
				t.Errorf("%s on %s: %d", a.Name, kind, p.StatusCode)
			}
		})
	}
	f.unchanged(before, "an act on a foreign subject")
}

// The domain enforces the same for the command line: a person who is not an operator cannot be the subject of these
// actions.
func TestPeopleAreInvitedAgainAsWhatTheyAre(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	kinds := f.everyKind()
	ctx, o, by := t.Context(), f.operators, operator.Act{Actor: "cli:demo", Reason: "A test"}
	before := f.state()
	for kind, k := range kinds {
		acts := map[string]error{}
		if k.section != "lawyers" || kind == "a simulated lawyer" {
			_, _, acts["ReinviteLawyer"] = o.ReinviteLawyer(ctx, by, k.id, "fr")
		}
		if k.section != "people" {
			_, _, acts["ReinvitePerson"] = o.ReinvitePerson(ctx, by, k.id)
			_, _, acts["RecoverPerson"] = o.RecoverPerson(ctx, by, k.id)
			acts["DisablePerson"] = o.DisablePerson(ctx, by, k.id)
		}
		if kind != "one of people" {
			acts["SetRoles"] = o.SetRoles(ctx, by, k.id, []staff.Role{staff.Admin})
		}
		for name, err := range acts {
			if err == nil {
				t.Errorf("%s takes %s", name, kind)
			}
		}
	}
	f.unchanged(before, "an act on a foreign subject")
}

// A person who may reinvite lawyers cannot reinvite an operator. Nobody becomes an admin through another section.
func TestSecurityDoesNotReinviteAnAdmin(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.lawyer()
	join := func(email string, role staff.Role) *worker {
		return f.join(staff.NewPerson{Kind: staff.Operator, Email: email, Name: "Olga Operator", Language: "en",
			Roles: []staff.Role{role}})
	}
	admin, w := join("admin@partners.example", staff.Admin), join("security@partners.example", staff.Security)
	id := must(f.staff.ByEmail(t.Context(), f.db.Read(), admin.email)).ID
	form := w.get("/ops/lawyers/law_1/reinvite").form("/ops/lawyers/law_1/reinvite")
	form.Set("reason", "A test")
	w.post("/ops/lawyers/"+id+"/reinvite", form).want(t, http.StatusNotFound)
	w.post("/ops/people/"+id+"/reinvite", form).want(t, http.StatusForbidden)
	admin.get("/ops/people/"+id).want(t, http.StatusOK)

	path := "/ops/people/" + id + "/reinvite"
	form = admin.get(path).form(path)
	form.Set("reason", "A test")
	admin.post(path, form).want(t, http.StatusUnprocessableEntity, "At least one active admin must remain")
	admin.get("/ops/people/"+id).want(t, http.StatusOK)
}

// If two admins reinvite each other at the same time, one of them remains.
func TestAnAdminIsLeftWhenAdminsInviteEachOtherAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var ids [2]string
	for i := range ids {
		n := staff.NewPerson{Kind: staff.Operator, Email: fmt.Sprintf("admin%d@partners.example", i),
			Name: "Olga Operator", Language: "en", Roles: []staff.Role{staff.Admin}}
		ids[i] = must(f.staff.ByEmail(t.Context(), f.db.Read(), f.join(n).email)).ID
	}
	var wg sync.WaitGroup
	var errs [2]error
	f.tx(func(tx postgres.Tx) { // so that both have begun before one ends
		if err := dbtest.Exec(t.Context(), tx, "SELECT FROM staff FOR UPDATE"); err != nil {
			t.Fatal(err)
		}
		for i := range ids {
			wg.Go(func() {
				_, _, errs[i] = f.operators.ReinvitePerson(t.Context(), operator.Act{Actor: ids[i], Reason: "A test"},
					ids[1-i])
			})
		}
		dbtest.AwaitWaiters(t, f.db, len(ids))
	})
	wg.Wait()
	if (errs[0] == nil) == (errs[1] == nil) || !slices.Contains(errs[:], staff.ErrLastAdmin) {
		t.Errorf("%v", errs)
	}
}
