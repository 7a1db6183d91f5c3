package web

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
)

// inviting lists the ways in which an operator invites a person. Each returns the link.
var inviting = map[string]func(f *fixture, by operator.Act) (string, error){
	"operator": func(f *fixture, by operator.Act) (string, error) {
		_, link, err := f.operators.InviteOperator(f.t.Context(), by,
			staff.NewPerson{Email: "colleague@partners.example",
				Name: "Oscar Other", Language: "en", Roles: []staff.Role{staff.Support}})
		return link, err
	},
	"lawyer": func(f *fixture, by operator.Act) (string, error) {
		_, link, err := f.operators.InviteLawyer(f.t.Context(), by, lawyer.NewLawyer{Email: "new@bar.example",
			Name: "Lea Lawyer", Phone: "+33199000077", Competences: []string{"TAX"}, Languages: []string{"FR"}}, "en")
		return link, err
	},
	"member": func(f *fixture, by operator.Act) (string, error) {
		_, link, err := f.operators.InviteMember(f.t.Context(), by, f.app.ID, "new@crm.example", portal.Developer, "en")
		return link, err
	},
}

// admin is an operator with every role, and the reason for their actions.
func (f *fixture) admin(email string) operator.Act {
	w := f.join(staff.NewPerson{Kind: staff.Operator, Email: email, Name: "Olga Operator", Language: "en",
		Roles: []staff.Role{staff.Admin}})
	return operator.Act{Actor: must(f.staff.ByEmail(f.t.Context(), f.db.Read(), w.email)).ID, Reason: "A test"}
}

// living counts a person's invitations that can still be used.
func (f *fixture) living(sentBy string) (n int) {
	f.t.Helper()
	err := f.db.Pool().QueryRow(f.t.Context(),
		`SELECT (SELECT count(*) FROM staff_links WHERE sent_by = $1 AND expires_at > $2) +
		(SELECT count(*) FROM portal_links WHERE sent_by = $1 AND expires_at > $2)`, sentBy, f.clock.Now()).Scan(&n)
	if err != nil {
		f.t.Fatal(err)
	}
	return n
}

// An invitation ends when its sender may no longer send it. The page of its link says whom to ask.
func TestAnInvitationEndsWithItsSender(t *testing.T) {
	t.Parallel()
	roles := func(r staff.Role) func(*fixture, operator.Act, string) error {
		return func(f *fixture, by operator.Act, sender string) error {
			return f.operators.SetRoles(f.t.Context(), by, sender, []staff.Role{r})
		}
	}
	for name, act := range map[string]struct {
		do   func(f *fixture, by operator.Act, sender string) error
		left []string
	}{
		"disabled": {func(f *fixture, by operator.Act, sender string) error {
			return f.operators.DisablePerson(f.t.Context(), by, sender)
		}, nil},
		"invited anew": {func(f *fixture, by operator.Act, sender string) error {
			_, _, err := f.operators.ReinvitePerson(f.t.Context(), by, sender)
			return err
		}, nil},
		"for support now":  {roles(staff.Support), nil},
		"for security now": {roles(staff.Security), []string{"lawyer", "member"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			by, sender := f.admin("first@partners.example"), f.admin("second@partners.example")
			links := map[string]string{}
			for kind, invite := range inviting {
				links[kind] = strings.TrimPrefix(must(invite(f, sender)), f.base)
			}
			if err := act.do(f, by, sender.Actor); err != nil {
				t.Fatal(err)
			}
			for kind, link := range links {
				p := f.browser().get(link)
				if lives := p.StatusCode == http.StatusOK; lives != slices.Contains(act.left, kind) {
					t.Errorf("%s: the page of the invitation answers %d", kind, p.StatusCode)
				}
				if p.StatusCode == http.StatusGone && !strings.Contains(p.body, "to invite you again") {
					t.Errorf("%s: the page tells nobody to ask:\n%s", kind, p.body)
				}
			}
		})
	}
}

// The invitations of a member end with the member's right to invite. Those of others continue.
func TestAnInvitationToAnApplicationEndsWithItsSender(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(f *fixture, by portal.Caller, sender string) error{
		"developer now": func(f *fixture, by portal.Caller, sender string) error {
			return f.deps.Portal.SetRole(f.t.Context(), by, sender, portal.Developer)
		},
		"removed": func(f *fixture, by portal.Caller, sender string) error {
			return f.deps.Portal.Remove(f.t.Context(), by, sender)
		},
		"gone": func(f *fixture, _ portal.Caller, sender string) error {
			return f.deps.Portal.Remove(f.t.Context(),
				portal.Caller{StaffID: sender, ApplicationID: f.app.ID}, sender)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			stays, sender := f.owner("stays@crm.example"), f.owner("sender@crm.example")
			for _, by := range []portal.Caller{stays, sender} {
				if err := f.inviteAs(by, "by-"+by.StaffID+"@crm.example"); err != nil {
					t.Fatal(err)
				}
			}
			if err := do(f, stays, sender.StaffID); err != nil {
				t.Fatal(err)
			}
			if f.living(sender.StaffID) != 0 || f.living(stays.StaffID) != 1 {
				t.Errorf("%d of the sender live, and %d of the other owner",
					f.living(sender.StaffID), f.living(stays.StaffID))
			}
		})
	}
}

// owner is another owner of the application.
func (f *fixture) owner(email string) portal.Caller {
	var link string
	f.tx(func(tx postgres.Tx) {
		var err error
		if _, link, err = f.deps.Portal.InviteTo(f.t.Context(), tx, "cli", f.app, email,
			portal.Owner, "en"); err != nil {
			f.t.Fatal(err)
		}
	})
	_, token, _ := strings.Cut(link, "token=")
	var p staff.Person
	f.tx(func(tx postgres.Tx) {
		var err error
		if p, _, err = f.deps.Portal.Join(f.t.Context(), tx, token, "Pia Partner", "a long phrase for the portal",
			staff.Device{}); err != nil {
			f.t.Fatal(err)
		}
	})
	return portal.Caller{StaffID: p.ID, ApplicationID: f.app.ID}
}

func (f *fixture) inviteAs(by portal.Caller, email string) error {
	return f.db.InTx(f.t.Context(), func(tx postgres.Tx) error {
		return f.deps.Portal.Invite(f.t.Context(), tx, by, email, portal.Viewer, "en")
	})
}

// A person who is disabled while they invite leaves no usable invitation, whichever commits first.
func TestNobodyInvitesWhileTheyAreDisabled(t *testing.T) {
	t.Parallel()
	ways := map[string]func(f *fixture, senderID string) error{
		"owner": func(f *fixture, senderID string) error {
			return f.inviteAs(portal.Caller{StaffID: senderID, ApplicationID: f.app.ID}, "new@crm.example")
		},
	}
	for kind, invite := range inviting {
		ways[kind] = func(f *fixture, senderID string) error {
			_, err := invite(f, operator.Act{Actor: senderID, Reason: "A test"})
			return err
		}
	}
	for kind, invite := range ways {
		for _, first := range []string{"disabled", "invites"} {
			t.Run(kind+", "+first+" first", func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				by := f.admin("first@partners.example")
				var sender string
				if kind == "owner" {
					sender = f.owner("owner@crm.example").StaffID
				} else {
					sender = f.admin("second@partners.example").Actor
				}
				disable := func() error { return f.operators.DisablePerson(t.Context(), by, sender) }
				acts := []func() error{disable, func() error { return invite(f, sender) }}
				if first == "invites" {
					slices.Reverse(acts)
				}
				errs := make([]error, len(acts))
				var wg sync.WaitGroup
				f.tx(func(tx postgres.Tx) { // both wait for the sender, one after the other
					if err := dbtest.Exec(t.Context(), tx, "SELECT FROM staff WHERE id = $1 FOR UPDATE",
						sender); err != nil {
						t.Fatal(err)
					}
					for i, act := range acts {
						wg.Go(func() { errs[i] = act() })
						dbtest.AwaitWaiters(t, f.db, i+1)
					}
				})
				wg.Wait()
				for _, err := range errs {
					if err != nil && !errors.Is(err, operator.ErrMayNot) && !errors.Is(err, portal.ErrForbidden) {
						t.Error(err)
					}
				}
				if n := f.living(sender); n != 0 {
					t.Errorf("%d invitations of the disabled sender can be used: %v", n, errs)
				}
			})
		}
	}
}
