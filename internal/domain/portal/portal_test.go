package portal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/problem"
	"partnerd/internal/base/seal"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/queue"
	"partnerd/internal/infra/ratelimit"
)

// house is a portal on its own database, with three members of one application.
type house struct {
	*Service
	t      *testing.T
	clock  *clock.Manual
	box    *seal.Box
	outbox *outbox
	app    application.Application
	people map[Role]string
}

type outbox struct {
	mu   sync.Mutex
	sent []mail.Message
}

// Send implements [mail.Sender].
func (o *outbox) Send(_ context.Context, m mail.Message) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent = append(o.sent, m)
	return nil
}

func (o *outbox) to(address string) (list []mail.Message) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range o.sent {
		if m.To == address {
			list = append(list, m)
		}
	}
	return list
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

const phrase = "a long phrase for the portal"

func newHouse(t *testing.T, sandbox bool) *house {
	t.Helper()
	h := &house{t: t, clock: clock.NewManual(time.Date(2026, 6, 1, 8, 30, 0, 0, time.UTC)), outbox: &outbox{},
		people: map[Role]string{}}
	db := dbtest.NewWithClock(t, h.clock)
	h.box = must(seal.OpenBox(must(seal.NewKey())))
	q := must(queue.New(db, slog.New(slog.DiscardHandler)))
	post := mail.New(q, h.box, h.outbox)
	const base = "https://partners.example"
	people := must(staff.New(staff.Deps{DB: db, Box: h.box, Queue: q, Mail: post, BaseURL: base}))
	h.Service = must(New(Deps{DB: db, Box: h.box, Queue: q, Mail: post, Staff: people, Applications: application.New(),
		Webhooks: webhook.New(db, h.box, webhook.Config{Sandbox: sandbox}),
		Limiter:  ratelimit.New(), BaseURL: base, Sandbox: sandbox, ApplicationPerMinute: 3000, ClientPerMinute: 300}))
	h.tx(func(tx postgres.Tx) error {
		a, _, err := h.deps.Applications.Create(t.Context(), tx, application.NewApplication{Name: "Demo CRM",
			RedirectURIs: []string{"https://crm.example/cb"}})
		h.app = a
		if err == nil {
			_, err = h.deps.Webhooks.CreateEndpoint(t.Context(), tx, a.ID, "")
		}
		return err
	})
	for _, r := range Roles() {
		h.people[r] = h.join(string(r)+"@crm.example", r)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = q.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return h
}

func (h *house) tx(do func(tx postgres.Tx) error) {
	h.t.Helper()
	if err := h.deps.DB.InTx(h.t.Context(), do); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) in(do func(tx postgres.Tx) error) error { return h.deps.DB.InTx(h.t.Context(), do) }

// queued counts all jobs so far, which here are emails.
func (h *house) queued() (n int) {
	h.t.Helper()
	if err := h.deps.DB.Pool().QueryRow(h.t.Context(), "SELECT count(*) FROM river.river_job").Scan(&n); err != nil {
		h.t.Fatal(err)
	}
	return n
}

func (h *house) create(staffID string, n application.NewApplication) (made Created, err error) {
	err = h.in(func(tx postgres.Tx) error { made, err = h.Create(h.t.Context(), tx, staffID, n); return err })
	return made, err
}

func (h *house) invite(by Caller, email string, role Role, language string) error {
	return h.in(func(tx postgres.Tx) error { return h.Invite(h.t.Context(), tx, by, email, role, language) })
}

func (h *house) sendTest(by Caller, kind webhook.Type) error {
	if err := h.Take(h.t.Context(), by, ratelimit.TestEvents, ratelimit.PostsPerMinute); err != nil {
		return err
	}
	return h.in(func(tx postgres.Tx) error { _, err := h.SendTest(h.t.Context(), tx, by, kind); return err })
}

// invited sends an invitation as an operator and returns the token of its link.
func (h *house) invited(email string, role Role) (token string) {
	h.t.Helper()
	h.tx(func(tx postgres.Tx) error {
		_, link, err := h.InviteTo(h.t.Context(), tx, "cli", h.app, email, role, "en")
		token = tokenOf(link)
		return err
	})
	return token
}

func tokenOf(link string) string {
	return must(url.Parse(link)).Query().Get("token")
}

func tokenIn(m mail.Message) string {
	return tokenOf(strings.Fields(m.Text[strings.Index(m.Text, "https://"):])[0])
}

func (h *house) join(email string, role Role) (staffID string) {
	h.t.Helper()
	token := h.invited(email, role)
	h.tx(func(tx postgres.Tx) error {
		p, _, err := h.Join(h.t.Context(), tx, token, "Pia Partner", phrase, staff.Device{})
		staffID = p.ID
		return err
	})
	return staffID
}

func (h *house) by(role Role) Caller { return Caller{StaffID: h.people[role], ApplicationID: h.app.ID} }

// mailed waits for an email to address that contains part.
func (h *house) mailed(address, part string) mail.Message {
	h.t.Helper()
	for range 2000 {
		for _, m := range h.outbox.to(address) {
			if strings.Contains(m.Text, part) {
				return m
			}
		}
		select {
		case <-h.t.Context().Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
	h.t.Fatalf("nothing with %q was mailed to %s", part, address)
	return mail.Message{}
}

// act is an action of a caller.
type act struct {
	name string
	need Role
	do   func(h *house, by Caller) error
}

func acts() []act {
	ctx := context.Background()
	return []act{
		{"application.update", Developer, func(h *house, by Caller) error {
			name := "Named by " + by.actor() // a change without effect leaves no entry
			_, err := h.Update(ctx, by, Change{Name: &name})
			return err
		}},
		{"application.rotate_secret", Developer, func(h *house, by Caller) error {
			return h.in(func(tx postgres.Tx) error {
				_, _, err := h.RotateSecret(ctx, tx, by, application.Rotation{Overlap: time.Hour, EndPrevious: true})
				return err
			})
		}},
		{"application.end_previous_secret", Developer,
			func(h *house, by Caller) error { return h.EndPreviousSecret(ctx, by) }},
		{"webhook.set_url", Developer, func(h *house, by Caller) error { return h.SetWebhookURL(ctx, by, "") }},
		{"webhook.rotate_secret", Developer, func(h *house, by Caller) error {
			return h.in(func(tx postgres.Tx) error {
				_, _, err := h.RotateWebhookSecret(ctx, tx, by, webhook.Rotation{EndPrevious: true})
				return err
			})
		}},
		{"webhook.set_events", Developer, func(h *house, by Caller) error {
			return h.SetEnabledEvents(ctx, by, []webhook.Type{webhook.ClientDisconnected})
		}},
		{"webhook.enable", Developer, func(h *house, by Caller) error { return h.EnableWebhooks(ctx, by) }},
		{"webhook.test", Developer, func(h *house, by Caller) error { return h.sendTest(by, webhook.Completed) }},
		{"webhook.redeliver", Developer, func(h *house, by Caller) error {
			list, _, err := h.deps.Webhooks.Deliveries(ctx, h.deps.DB.Read(), h.app.ID, webhook.DeliveryFilter{})
			if err != nil || len(list) == 0 {
				return errors.Join(err, errors.New("no delivery"))
			}
			return h.in(func(tx postgres.Tx) error { _, err := h.Redeliver(ctx, tx, by, list[0].ID, true); return err })
		}},
		{"webhook.redeliver_range", Developer, func(h *house, by Caller) error {
			f := webhook.RedeliveryFilter{From: h.clock.Now().Add(-time.Hour), To: h.clock.Now().Add(time.Hour)}
			return h.in(func(tx postgres.Tx) error { _, _, err := h.RedeliverRange(ctx, tx, by, f); return err })
		}},
		{"application.invite", Owner,
			func(h *house, by Caller) error { return h.invite(by, "new@crm.example", Viewer, "fr") }},
		{"application.cancel_invitation", Owner,
			func(h *house, by Caller) error { return h.CancelInvitation(ctx, by, "inv_none") }},
		{"application.set_role", Owner,
			func(h *house, by Caller) error { return h.SetRole(ctx, by, h.people[Viewer], Viewer) }},
		{"application.remove_person", Owner,
			func(h *house, by Caller) error { return h.Remove(ctx, by, h.people["extra"]) }},
	}
}

// Each role can do what the table in doc.go says, and each action leaves one audit entry with its person. To strangers
// the application does not exist.
func TestEveryActIsForItsRolesAndIsRecorded(t *testing.T) {
	t.Parallel()
	h := newHouse(t, true)
	h.tx(func(tx postgres.Tx) error {
		_, err := h.deps.Webhooks.SendTest(t.Context(), tx, h.app.ID, webhook.Created)
		return err
	})
	h.people["extra"] = h.join("extra@crm.example", Viewer)
	stranger, err := h.create(h.people[Viewer], application.NewApplication{Name: "Other",
		RedirectURIs: []string{"https://other.example/"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range acts() {
		for _, r := range slices.Backward(Roles()) { // the owner last: their actions remove people
			before := must(audit.List(t.Context(), h.deps.DB.Read(), h.app.ID, 0, 1000))
			err := a.do(h, h.by(r))
			after := must(audit.List(t.Context(), h.deps.DB.Read(), h.app.ID, 0, 1000))
			if !r.May(a.need) {
				if !errors.Is(err, ErrForbidden) || len(after) != len(before) {
					t.Errorf("%s by a %s: %v, %d entries more", a.name, r, err, len(after)-len(before))
				}
				continue
			}
			if err != nil || len(after) != len(before)+1 || after[0].Action != a.name || after[0].Actor != h.people[r] {
				t.Errorf("%s by a %s: %v, %+v", a.name, r, err, after[:1])
			}
		}
		for who, by := range map[string]Caller{
			"a stranger":                      {StaffID: "stf_none", ApplicationID: h.app.ID},
			"somebody of another application": {StaffID: h.people[Developer], ApplicationID: stranger.Application.ID},
		} {
			if err := a.do(h, by); !errors.Is(err, problem.ErrNotFound) {
				t.Errorf("%s by %s: %v", a.name, who, err)
			}
		}
	}
	for _, a := range acts()[:10] { // those of the Platform API
		if err := a.do(h, Itself(h.app.ID, "203.0.113.7")); err != nil {
			t.Errorf("%s by the application: %v", a.name, err)
		}
		if e := must(audit.List(t.Context(), h.deps.DB.Read(), h.app.ID, 0, 1))[0]; e.Action != a.name ||
			e.Actor != h.app.ID {
			t.Errorf("%+v", e)
		}
	}
	if err := h.invite(Itself(h.app.ID, "203.0.113.7"), "x@crm.example",
		Viewer, "en"); !errors.Is(err, problem.ErrNotFound) {
		t.Errorf("an application invites: %v", err)
	}
	if got := must(h.Applications(t.Context(), h.deps.DB.Read(), h.people[Viewer])); len(got) != 2 ||
		got[0].Application.ID != h.app.ID || got[0].Role != Viewer || got[1].Role != Owner {
		t.Errorf("%+v", got)
	}
	for _, by := range []Caller{{StaffID: h.people[Owner], ApplicationID: stranger.Application.ID},
		{StaffID: "stf_none", ApplicationID: h.app.ID}} {
		if _, err := h.Membership(t.Context(), h.deps.DB.Read(), by); !errors.Is(err, problem.ErrNotFound) {
			t.Errorf("%+v: %v", by, err)
		}
		if _, _, err := h.People(t.Context(), h.deps.DB.Read(), by); !errors.Is(err, problem.ErrNotFound) {
			t.Errorf("people for %+v: %v", by, err)
		}
	}
	h.mailed("owner@crm.example", "extra@crm.example was removed")
	for i := range h.outbox.to("viewer@crm.example") {
		if m := h.outbox.to("viewer@crm.example")[i]; strings.Contains(m.Text, "secret") {
			t.Errorf("a viewer is told %q", m.Text)
		}
	}
}

// An application keeps an owner, even if its owners try to remove each other at the same time.
func TestAnApplicationKeepsAnOwner(t *testing.T) {
	t.Parallel()
	h := newHouse(t, true)
	ctx := t.Context()
	for what, err := range map[string]error{"demote": h.SetRole(ctx, h.by(Owner), h.people[Owner], Developer),
		"go": h.Remove(ctx, h.by(Owner), h.people[Owner])} {
		if !errors.Is(err, ErrLastOwner) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for round := range 15 {
		if err := h.SetRole(ctx, h.by(Owner), h.people[Developer], Owner); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		pair := []string{h.people[Owner], h.people[Developer]}
		faults := make([]error, 2)
		for i := range pair {
			wg.Add(1)
			go func() {
				defer wg.Done()
				if round%2 == 0 {
					faults[i] = h.SetRole(ctx, Caller{StaffID: pair[i], ApplicationID: h.app.ID}, pair[1-i], Developer)
				} else {
					faults[i] = h.SetRole(ctx, Caller{StaffID: pair[i], ApplicationID: h.app.ID}, pair[i], Developer)
				}
			}()
		}
		wg.Wait()
		members, _, err := h.PeopleOf(ctx, h.deps.DB.Read(), h.app.ID)
		if err != nil {
			t.Fatal(err)
		}
		var owners []string
		for _, m := range members {
			if m.Role == Owner {
				owners = append(owners, m.StaffID)
			}
		}
		if len(owners) != 1 || (faults[0] == nil) == (faults[1] == nil) {
			t.Fatalf("round %d: owners %v, %v", round, owners, faults)
		}
		if owners[0] != h.people[Owner] { // start the next round with the same owner
			if err := errors.Join(h.SetRole(ctx, Caller{StaffID: owners[0], ApplicationID: h.app.ID},
				h.people[Owner], Owner), h.SetRole(ctx, h.by(Owner), owners[0], Developer)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := h.Remove(ctx, h.by(Viewer), h.people[Viewer]); err != nil {
		t.Errorf("a viewer goes: %v", err)
	}
}

// In a sandbox a person can create ten applications, even with many concurrent attempts. In live they can create none.
func TestApplicationsAreCountedByPerson(t *testing.T) {
	t.Parallel()
	h := newHouse(t, true)
	n := application.NewApplication{Name: "Mine", RedirectURIs: []string{"http://localhost:3000/cb"}}
	var wg sync.WaitGroup
	var mu sync.Mutex
	made, refused := 0, 0
	for range MaxApplications + 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			got, err := h.create(h.people[Viewer], n)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case errors.Is(err, ErrTooMany):
				refused++
			case err == nil && strings.HasPrefix(got.Application.ID, "app_") && strings.HasPrefix(got.Secret, "sk_") &&
				strings.HasPrefix(got.SigningSecret, "whsec_"):
				made++
			default:
				t.Errorf("%+v %v", got, err)
			}
		}()
	}
	wg.Wait()
	if made != MaxApplications || refused != 4 {
		t.Errorf("%d made, %d refused", made, refused)
	}
	if _, err := newHouse(t, false).create("stf_x", n); !errors.Is(err, ErrLive) {
		t.Errorf("live: %v", err)
	}
	n.RedirectURIs = nil
	if _, err := h.create(h.people[Developer], n); !errors.Is(err, application.ErrInvalid) {
		t.Errorf("without redirect URI: %v", err)
	}
}

// A sign-up proves the address by a link that works once. Someone who is already known learns so only by email.
func TestSigningUp(t *testing.T) {
	t.Parallel()
	h := newHouse(t, true)
	ask := func(email string) {
		t.Helper()
		h.tx(func(tx postgres.Tx) error { return h.RequestSignUp(t.Context(), tx, email, "fr") })
	}
	ask(" fresh@crm.example ")
	m := h.mailed("fresh@crm.example", "/developers/join?token=")
	if !strings.Contains(m.Subject, "portail") {
		t.Fatalf("%+v", m)
	}
	token := tokenIn(m)
	if p := must(h.PendingLink(t.Context(), h.deps.DB.Read(), token)); p.Email != "fresh@crm.example" ||
		p.Application != nil || p.Known {
		t.Errorf("%+v", p)
	}
	join := func(token, plain string) (p staff.Person, session string, err error) {
		err = h.deps.DB.InTx(t.Context(), func(tx postgres.Tx) error {
			p, session, err = h.Join(t.Context(), tx, token, "Fred Fresh", plain, staff.Device{})
			return err
		})
		return p, session, err
	}
	if _, _, err := join(token, "short"); !errors.Is(err, staff.ErrInvalid) {
		t.Errorf("short password: %v", err)
	}
	p, session, err := join(token, phrase)
	if err != nil || p.Kind != staff.Partner || p.Language != "fr" || p.State != staff.Active {
		t.Fatalf("%+v %v", p, err)
	}
	if waits, err := h.deps.Staff.Pending(t.Context(), h.deps.DB.Read(), session); err != nil || waits.ID != p.ID ||
		waits.SecondFactor {
		t.Errorf("%+v %v", waits, err)
	}
	if _, _, err := join(token, phrase); !errors.Is(err, ErrBadLink) {
		t.Errorf("a second time: %v", err)
	}
	ask("FRESH@crm.example")
	if m := h.mailed("FRESH@crm.example", "/developers/login"); strings.Contains(m.Text, "token=") {
		t.Errorf("%+v", m)
	}
	ask("late@crm.example")
	late := tokenIn(h.mailed("late@crm.example", "token="))
	h.clock.Advance(SignUpLifetime)
	if _, _, err := join(late, phrase); !errors.Is(err, ErrBadLink) {
		t.Errorf("late: %v", err)
	}
	h.tx(func(tx postgres.Tx) error {
		if err := h.RequestSignUp(t.Context(), tx, "nobody", "fr"); !errors.Is(err, ErrInvalid) {
			t.Errorf("no address: %v", err)
		}
		return nil
	})
	live := newHouse(t, false)
	live.tx(func(tx postgres.Tx) error {
		if err := live.RequestSignUp(t.Context(), tx, "x@crm.example", "fr"); !errors.Is(err, ErrLive) {
			t.Errorf("live: %v", err)
		}
		return nil
	})
	h.clock.Advance(25 * time.Hour)
	if n := must(h.Purge(t.Context())); n == 0 {
		t.Error("nothing is purged")
	}
}

// An email about a change says who made it and from where, in the reader's language.
func TestMailsSayWhoChangedAnApplicationAndFromWhere(t *testing.T) {
	t.Parallel()
	h := newHouse(t, true)
	const agent = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	by := h.by(Developer)
	by.Device = staff.Device{UserAgent: agent, Address: "203.0.113.7"}
	contact := "viewer@crm.example"
	if _, err := h.Update(t.Context(), by, Change{ContactEmail: &contact}); err != nil {
		t.Fatal(err)
	}
	rotate := func(by Caller) {
		h.tx(func(tx postgres.Tx) error {
			_, _, err := h.RotateSecret(t.Context(), tx, by, application.Rotation{EndPrevious: true})
			return err
		})
	}
	rotate(by)
	const person = "by Pia Partner (developer@crm.example), with Firefox, Linux, from the IP address 203.0.113.7"
	h.mailed("owner@crm.example", "its client secret was replaced (2026-06-01 08:30 UTC, "+person+")")
	h.mailed(contact, person)
	h.mailed("owner@crm.example", "its settings were changed. Name: Demo CRM")
	h.tx(func(tx postgres.Tx) error { return h.deps.Staff.SetLanguage(t.Context(), tx, h.people[Owner], "fr") })
	rotate(Itself(h.app.ID, "203.0.113.8"))
	h.mailed("owner@crm.example", "avec le secret client de l’application, depuis l’adresse IP 203.0.113.8")
	owner := h.by(Owner)
	owner.Device.Address = "203.0.113.9"
	if err := h.Remove(t.Context(), owner, h.people[Viewer]); err != nil {
		t.Fatal(err)
	}
	h.mailed("owner@crm.example", "par Pia Partner (owner@crm.example), depuis l’adresse IP 203.0.113.9")
}

// A name stored before today's validation rules cannot lead the reader of an invitation anywhere.
func TestAnInvitationNamesNothingThatLeadsAway(t *testing.T) {
	t.Parallel()
	h := newHouse(t, true)
	for _, statement := range []string{
		"UPDATE applications SET name = 'Pay at evil.com'", "UPDATE staff SET name = 'Call https://evil.com'",
	} {
		if _, err := h.deps.DB.Pool().Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	h.tx(func(tx postgres.Tx) (err error) {
		h.app, err = h.deps.Applications.Get(t.Context(), tx, h.app.ID)
		return err
	})
	if err := h.invite(h.by(Owner), "stranger@crm.example", Viewer, "fr"); err != nil {
		t.Fatal(err)
	}
	m := h.mailed("stranger@crm.example", "/join?token=")
	if strings.Contains(m.Text, "evil.com") || !strings.Contains(m.Text,
		"invité par owner@crm.example à rejoindre l’application «\u00a0"+h.app.ID) {
		t.Error(m.Text)
	}
}

// An invitation is for the reader of the email. A known person joins; a stranger creates an account first. The email
// names the sender and the application.
func TestInvitations(t *testing.T) {
	t.Parallel()
	h := newHouse(t, true)
	ctx := t.Context()
	h.tx(func(tx postgres.Tx) error {
		_, _, err := h.deps.Staff.Invite(ctx, tx, staff.NewPerson{Kind: staff.Operator, Email: "op@partners.example",
			Name: "Olga", Language: "en", Roles: []staff.Role{staff.Support}})
		return err
	})
	other, err := h.create(h.people[Developer], application.NewApplication{Name: "Second",
		RedirectURIs: []string{"https://second.example/"}})
	if err != nil {
		t.Fatal(err)
	}
	by, token := Caller{StaffID: h.people[Developer], ApplicationID: other.Application.ID}, ""
	for _, email := range []string{"stranger@crm.example", "viewer@crm.example", "op@partners.example"} {
		if err := h.invite(by, email, Viewer, "en"); err != nil {
			t.Errorf("%s: %v", email, err)
		}
	}
	if err := h.invite(by, "DEVELOPER@crm.example", Viewer, "en"); !errors.Is(err, ErrMember) {
		t.Errorf("a member: %v", err)
	}
	for _, bad := range []string{"", "x", "a b@c.example"} {
		if err := h.invite(by, bad, Viewer, "en"); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if m := h.mailed("op@partners.example", "different address"); strings.Contains(m.Text, "token=") ||
		!strings.Contains(m.Text, "(developer@crm.example) to join the application “Second”") {
		t.Errorf("%+v", m)
	}
	h.tx(func(tx postgres.Tx) error { // from the operator's call, because several were mailed
		_, link, err := h.InviteTo(ctx, tx, "cli", other.Application, "viewer@crm.example", Viewer, "en")
		token = tokenOf(link)
		return err
	})
	for _, email := range []string{"stranger@crm.example", "viewer@crm.example"} {
		h.mailed(email, "invited by Pia Partner (developer@crm.example) to join the application “Second”")
	}
	if m := h.mailed("viewer@crm.example", "replaces the one sent on 2026-06-01 08:30 UTC"); !strings.Contains(m.Text,
		"invited by the partnerd team") ||
		m.Subject != "Your new invitation to join an application" {
		t.Errorf("%+v", m)
	}
	_, waiting, err := h.People(ctx, h.deps.DB.Read(), by)
	if err != nil || len(waiting) != 3 {
		t.Fatalf("%+v %v", waiting, err)
	}
	pending := must(h.PendingLink(ctx, h.deps.DB.Read(), token))
	if !pending.Known || pending.Application.ID != other.Application.ID {
		t.Fatalf("%+v", pending)
	}
	h.tx(func(tx postgres.Tx) error {
		p, session, err := h.Join(ctx, tx, token, "", "", staff.Device{})
		if session != "" || p.ID != h.people[Viewer] {
			t.Errorf("%+v %q", p, session)
		}
		return err
	})
	if got := must(h.Membership(ctx, h.deps.DB.Read(), Caller{StaffID: h.people[Viewer],
		ApplicationID: other.Application.ID})); got.Role != Viewer {
		t.Errorf("%+v", got)
	}
	for _, i := range waiting {
		if err := h.CancelInvitation(ctx, by, i.ID); err != nil {
			t.Error(err)
		}
		if err := h.CancelInvitation(ctx, h.by(Owner), i.ID); err != nil {
			t.Error(err)
		}
	}
	if _, waiting, _ = h.People(ctx, h.deps.DB.Read(), by); len(waiting) != 0 {
		t.Errorf("%+v", waiting)
	}
	// Concurrent uses of one link create one membership, and none for a disabled person.
	twice := h.invited("twice@crm.example", Viewer)
	var wg sync.WaitGroup
	faults := make([]error, 4)
	for i := range faults {
		wg.Add(1)
		go func() {
			defer wg.Done()
			faults[i] = h.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
				_, _, err := h.Join(ctx, tx, twice, "Twice", phrase, staff.Device{})
				return err
			})
		}()
	}
	wg.Wait()
	worked := 0
	for _, err := range faults {
		if err == nil {
			worked++
		} else if !errors.Is(err, ErrBadLink) {
			t.Error(err)
		}
	}
	if worked != 1 {
		t.Errorf("%d of the same link worked", worked)
	}
	out := h.invited("viewer2@crm.example", Viewer)
	h.tx(func(tx postgres.Tx) error {
		p, _, err := h.deps.Staff.Register(ctx, tx, staff.NewPerson{Kind: staff.Partner, Email: "viewer2@crm.example",
			Name: "V", Language: "en"}, phrase, staff.Device{})
		if err == nil {
			_, err = h.deps.Staff.Disable(ctx, tx, p.ID)
		}
		return err
	})
	if _, err := h.PendingLink(ctx, h.deps.DB.Read(), out); !errors.Is(err, ErrBadLink) {
		t.Errorf("kept out: %v", err)
	}
	for i := range linksPerHour {
		if err := h.invite(h.by(Owner), "flood@crm.example", Viewer, "en"); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if err := h.invite(h.by(Owner), "flood@crm.example", Viewer, "en"); !errors.Is(err, ErrTooMany) {
		t.Errorf("a flood: %v", err)
	}
}

// Anyone can name a stranger as contact and choose the names and URIs of an application. The stranger sees none of
// these texts, and the emails to them are limited.
func TestAContactWhoIsNoMemberReadsFixedWords(t *testing.T) {
	t.Parallel()
	h := newHouse(t, true)
	ctx := t.Context()
	name, stranger := "Your Bank calls", "stranger@elsewhere.example"
	for _, by := range []Caller{Itself(h.app.ID, "203.0.113.7"), h.by(Owner)} {
		h.tx(func(tx postgres.Tx) error {
			return h.deps.Webhooks.SetURL(ctx, tx, h.app.ID, "https://evil.example/hooks")
		})
		must(h.Update(ctx, by, Change{Name: &name, RedirectURIs: []string{"https://evil.example/" + by.actor()},
			ContactEmail: &stranger}))
		h.tx(func(tx postgres.Tx) error {
			return third(h.RotateWebhookSecret(ctx, tx, by, webhook.Rotation{EndPrevious: true}))
		})
		h.tx(func(tx postgres.Tx) error {
			return third(h.RotateSecret(ctx, tx, by, application.Rotation{Overlap: time.Hour, EndPrevious: true}))
		})
		if err := errors.Join(h.EndPreviousSecret(ctx, by), h.SetWebhookURL(ctx, by, "")); err != nil {
			t.Fatal(err)
		}
	}
	for _, what := range []string{
		"settings were", "signing secret", "client secret was", "previous client secret", "URL of its webhooks",
	} {
		h.mailed(stranger, what)
	}
	for _, m := range h.outbox.to(stranger) {
		for _, foreign := range []string{"Bank", "evil", "Pia", "owner@", "203.0.113.7"} {
			if strings.Contains(m.Subject+m.Text, foreign) {
				t.Errorf("a stranger reads %q in %+v", foreign, m)
			}
		}
		if !strings.Contains(m.Text, h.app.ID) {
			t.Errorf("%q does not say which application", m.Text)
		}
	}

	colleague := "developer@crm.example"
	must(h.Update(ctx, h.by(Owner), Change{ContactEmail: &colleague}))
	h.mailed(colleague, "Your Bank calls")
	for contact, want := range map[string]string{colleague: name, "other@elsewhere.example": h.app.ID, "": ""} {
		a := h.app
		a.Name, a.ContactEmail = name, contact
		h.tx(func(tx postgres.Tx) error {
			called, written, err := h.Contact(ctx, tx, a)
			if called != want || written != (contact != "") {
				t.Errorf("a mail to %q calls the application %q (%t)", contact, called, written)
			}
			return err
		})
	}
}

// The contact setting cannot be used to write to strangers without limit. Their number is limited, and so are the
// emails to each.
func TestMailsToContactsAreBounded(t *testing.T) {
	t.Parallel()
	h := newHouse(t, true)
	ctx, itself := t.Context(), Itself(h.app.ID, "203.0.113.7")
	set := func(contact string) error { return second(h.Update(ctx, itself, Change{ContactEmail: &contact})) }
	named := 0
	for i := range 3 * contactQuota.Burst {
		switch err := set(fmt.Sprintf("stranger%d@elsewhere.example", i)); {
		case err == nil:
			named++
		case !errors.Is(err, problem.ErrRateLimited):
			t.Fatal(err)
		}
	}
	if named != contactQuota.Burst {
		t.Errorf("%d strangers were named at once", named)
	}
	if err := set(""); err != nil {
		t.Errorf("no contact: %v", err)
	}
	h.clock.Advance(contactQuota.Interval)
	before := h.queued()
	if err := set("one@elsewhere.example"); err != nil {
		t.Fatal(err)
	}
	changes := 3 * contactMailQuota.Burst
	for i := range changes - 1 {
		name := fmt.Sprint("Name ", i)
		must(h.Update(ctx, itself, Change{Name: &name}))
	}
	if got, want := h.queued()-before, changes+contactMailQuota.Burst; got != want { // the owner is notified each time
		t.Errorf("%d mails about %d changes, want %d", got, changes, want)
	}
	h.tx(func(tx postgres.Tx) error {
		_, written, err := h.Contact(ctx, tx, must(h.deps.Applications.Get(ctx, tx, h.app.ID)))
		if written {
			t.Error("a mail about webhooks goes past the quota")
		}
		return err
	})
}

// Whoever gains or loses a role is notified, and so are the owners before and after.
func TestPeopleAreToldOfTheirRoles(t *testing.T) {
	t.Parallel()
	h := newHouse(t, true)
	ctx := t.Context()
	h.people["second"] = h.join("second@crm.example", Owner)
	for _, c := range []struct {
		person Role
		email  string
		next   Role
	}{
		{"second", "second@crm.example", Viewer}, {Viewer, "viewer@crm.example", Developer},
		{Developer, "developer@crm.example", Owner},
		{Viewer, "viewer@crm.example", Viewer},
	} {
		if err := h.SetRole(ctx, h.by(Owner), h.people[c.person], c.next); err != nil {
			t.Fatal(err)
		}
		for _, to := range []string{c.email, "owner@crm.example"} {
			h.mailed(to, fmt.Sprintf("%s is now %s", c.email, c.next))
		}
	}
	before := h.queued()
	if err := h.SetRole(ctx, h.by(Owner), h.people[Viewer], Viewer); err != nil || h.queued() != before {
		t.Errorf("a role that stays: %v, %d mails", err, h.queued()-before)
	}
	if err := h.Remove(ctx, h.by(Owner), h.people[Viewer]); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"viewer@crm.example", "owner@crm.example", "developer@crm.example"} {
		h.mailed(to, "viewer@crm.example was removed")
	}
}

// The webhook URL decides who receives data about clients. Whoever changes it, the owners are notified, once per
// change.
func TestOwnersAreToldWhereWebhooksGo(t *testing.T) {
	t.Parallel()
	h := newHouse(t, false)
	ctx := t.Context()
	for who, by := range map[string]Caller{
		"a developer": h.by(Developer), "the application": Itself(h.app.ID, "203.0.113.7"),
	} {
		h.tx(func(tx postgres.Tx) error {
			return h.deps.Webhooks.SetURL(ctx, tx, h.app.ID, "https://crm.example/hooks")
		})
		before := h.queued()
		for range 2 {
			if err := h.SetWebhookURL(ctx, by, ""); err != nil {
				t.Fatalf("%s: %v", who, err)
			}
		}
		if n := h.queued() - before; n != 1 {
			t.Errorf("%d mails about one change by %s", n, who)
		}
	}
	h.mailed("owner@crm.example", "the URL of its webhooks was removed")
}

// Operations that send webhooks count towards the application's limit, whichever way they are called.
func TestPostsAreCounted(t *testing.T) {
	t.Parallel()
	h := newHouse(t, true)
	var last error
	for range ratelimit.PostsPerMinute + 1 {
		last = h.sendTest(h.by(Developer), webhook.Created)
	}
	if !errors.Is(last, problem.ErrRateLimited) {
		t.Errorf("%v", last)
	}
	if u := h.Usage(t.Context(), h.app); u.Client != 300 || u.Partner.Limit != 3000 || u.Platform.Remaining != 3000 {
		t.Errorf("%+v", u)
	}
}

// A removed role cannot act: the action happens before the removal, or waits for it and fails.
func TestARoleThatIsTakenAwayDoesNotAct(t *testing.T) {
	t.Parallel()
	h := newHouse(t, true)
	ctx := t.Context()
	locked, release, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- h.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
			if err := updateRole(ctx, tx, h.app.ID, h.people[Developer], Viewer); err != nil {
				return err
			}
			close(locked)
			<-release
			return nil
		})
	}()
	<-locked
	acted := make(chan error, 1)
	go func() { acted <- h.EndPreviousSecret(ctx, h.by(Developer)) }()
	for waits := false; !waits; {
		select {
		case err := <-acted:
			close(release)
			t.Fatalf("it did not wait: %v", errors.Join(err, <-done))
		case <-time.After(5 * time.Millisecond):
		}
		if err := h.deps.DB.Pool().QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database())").Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := <-acted; !errors.Is(err, ErrForbidden) {
		t.Errorf("%v", err)
	}
}

func TestRolesAreOrdered(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, r := range append(Roles(), "") {
		for _, what := range Roles() {
			fmt.Fprintf(&b, "%v ", r.May(what))
		}
	}
	if got := b.String(); got != "true true true false true true false false true false false false " {
		t.Error(got)
	}
}

// No one can make us write to strangers without limit. Invitations count per application and per person, including
// cancelled ones, and concurrent requests cannot exceed the limit. One application's invitations to an address do not
// stop another application from inviting it.
func TestInvitationsAreBounded(t *testing.T) {
	t.Parallel()
	h := newHouse(t, true)
	ctx := t.Context()
	var sent, refused sync.Map
	var all sync.WaitGroup
	for i := range invitationQuota.Burst + 8 {
		all.Go(func() {
			switch err := h.invite(h.by(Owner), fmt.Sprintf("stranger%d@mail.example", i), Viewer, "en"); {
			case err == nil:
				sent.Store(i, true)
			case errors.Is(err, problem.ErrRateLimited):
				refused.Store(i, true)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	count := func(m *sync.Map) (n int) {
		m.Range(func(any, any) bool { n++; return true })
		return n
	}
	if got := count(&sent); got != invitationQuota.Burst || count(&refused) != 8 {
		t.Errorf("%d invitations went out and %d were refused", got, count(&refused))
	}
	_, waiting, err := h.People(ctx, h.deps.DB.Read(), h.by(Owner))
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range waiting {
		if err := h.CancelInvitation(ctx, h.by(Owner), i.ID); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.invite(h.by(Owner), "one-more@mail.example", Viewer, "en"); !errors.Is(err, problem.ErrRateLimited) {
		t.Errorf("after taking all back: %v", err)
	}
	other := must(h.create(h.people[Owner], application.NewApplication{Name: "Second",
		RedirectURIs: []string{"https://crm.example/2"}})).Application
	if err := h.invite(Caller{StaffID: h.people[Owner], ApplicationID: other.ID}, "one-more@mail.example",
		Viewer, "en"); !errors.Is(err, problem.ErrRateLimited) {
		t.Errorf("the same person for another application: %v", err)
	}
	h.clock.Advance(25 * time.Hour)
	invite := func(by Caller) error { return h.invite(by, "wanted@mail.example", Viewer, "en") }
	for range linksPerHour {
		if err := invite(h.by(Owner)); err != nil {
			t.Fatal(err)
		}
	}
	if err := invite(h.by(Owner)); !errors.Is(err, ErrTooMany) {
		t.Errorf("a flood: %v", err)
	}
	if err := invite(Caller{StaffID: h.people[Owner], ApplicationID: other.ID}); err != nil {
		t.Errorf("another application: %v", err)
	}
}

// The members of a suspended application can end things but not start any.
func TestASuspendedApplicationBeginsNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t, true)
	ctx := t.Context()
	if err := h.invite(h.by(Owner), "waiting@crm.example", Viewer, "en"); err != nil {
		t.Fatal(err)
	}
	_, waiting, err := h.People(ctx, h.deps.DB.Read(), h.by(Owner))
	if err != nil {
		t.Fatal(err)
	}
	early := h.invited("early@crm.example", Owner)
	h.tx(func(tx postgres.Tx) error { return h.deps.Applications.SetSuspended(ctx, tx, h.app.ID, true) })
	name := "Other"
	for what, err := range map[string]error{
		"invite": h.invite(h.by(Owner), "new@crm.example", Viewer, "en"),
		"update": second(h.Update(ctx, h.by(Developer), Change{Name: &name})),
		"secret": h.in(func(tx postgres.Tx) error {
			return third(h.RotateSecret(ctx, tx, h.by(Developer), application.Rotation{Overlap: time.Hour}))
		}),
		"signing": h.in(func(tx postgres.Tx) error {
			return third(h.RotateWebhookSecret(ctx, tx, h.by(Developer), webhook.Rotation{}))
		}),
		"url":    h.SetWebhookURL(ctx, h.by(Developer), "https://crm.example/hooks"),
		"enable": h.EnableWebhooks(ctx, h.by(Developer)),
		"events": h.SetEnabledEvents(ctx, h.by(Developer), nil),
		"test":   h.sendTest(h.by(Developer), webhook.Created),
		"again": h.in(func(tx postgres.Tx) error {
			return second(h.Redeliver(ctx, tx, h.by(Developer), "dlv_x", false))
		}),
		"range": h.in(func(tx postgres.Tx) error {
			return third(h.RedeliverRange(ctx, tx, h.by(Developer), webhook.RedeliveryFilter{}))
		}),
		"examine": h.Take(ctx, h.by(Developer), ratelimit.Examinations, 1),
		"role":    h.SetRole(ctx, h.by(Owner), h.people[Viewer], Developer),
	} {
		if !errors.Is(err, ErrSuspended) {
			t.Errorf("%s: %v", what, err)
		}
	}
	join := func() error {
		return h.in(func(tx postgres.Tx) error {
			return third(h.Join(ctx, tx, early, "Early", phrase, staff.Device{}))
		})
	}
	if err := join(); !errors.Is(err, ErrSuspended) {
		t.Errorf("an owner joins: %v", err)
	}
	for what, err := range map[string]error{
		"end secret": h.EndPreviousSecret(ctx, h.by(Developer)),
		"cancel":     h.CancelInvitation(ctx, h.by(Owner), waiting[0].ID),
		"role":       h.SetRole(ctx, h.by(Owner), h.people[Developer], Viewer),
		"remove":     h.Remove(ctx, h.by(Owner), h.people[Viewer]),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	h.tx(func(tx postgres.Tx) error { return h.deps.Applications.SetSuspended(ctx, tx, h.app.ID, false) })
	if err := join(); err != nil {
		t.Errorf("once it is resumed, an owner joins: %v", err)
	}
}

func second[T any](_ T, err error) error        { return err }
func third[T, U any](_ T, _ U, err error) error { return err }

// In live an application's credentials cannot change where clients are sent or what they read. A person can, and all
// owners and the contact are notified. A change without effect is neither mailed nor recorded.
func TestASecretMovesNoClients(t *testing.T) {
	t.Parallel()
	for _, sandbox := range []bool{false, true} {
		h := newHouse(t, sandbox)
		ctx, itself := t.Context(), Itself(h.app.ID, "203.0.113.7")
		evil, name, contact := []string{"https://crm.example/cb", "https://evil.example/take"}, "Your Bank",
			"contact@crm.example"
		want := ErrPortal
		if sandbox {
			want = nil
		}
		for what, c := range map[string]Change{"redirect URIs": {RedirectURIs: evil}, "name": {Name: &name}} {
			if _, err := h.Update(ctx, itself, c); want == nil && err != nil || want != nil && !errors.Is(err, want) {
				t.Errorf("sandbox %t: %s: %v", sandbox, what, err)
			}
		}
		if _, err := h.Update(ctx, itself, Change{ContactEmail: &contact}); err != nil {
			t.Errorf("sandbox %t: contact: %v", sandbox, err)
		}
		entries := func() (n int) {
			if err := h.deps.DB.Pool().QueryRow(ctx, "SELECT count(*) FROM audit_entries").Scan(&n); err != nil {
				t.Fatal(err)
			}
			return n
		}
		if _, err := h.Update(ctx, h.by(Owner), Change{RedirectURIs: []string{"https://crm.example/cb",
			"https://crm.example/new"}}); err != nil {
			t.Fatal(err)
		}
		owner := must(h.deps.Staff.Get(ctx, h.deps.DB.Read(), h.people[Owner])).Email
		h.mailed(owner, "https://crm.example/new")
		h.mailed(contact, "its settings were changed")
		before := entries()
		if _, err := h.Update(ctx, h.by(Owner), Change{RedirectURIs: []string{"https://crm.example/cb",
			"https://crm.example/new"}}); err != nil || entries() != before {
			t.Errorf("a change of nothing: %v, %d entries after %d", err, entries(), before)
		}
	}
}
