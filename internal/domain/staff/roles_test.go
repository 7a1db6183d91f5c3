package staff

import (
	"errors"
	"testing"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

// Two admins who remove each other's rights at the same time, by roles or by disabling, leave one admin who can sign
// in.
func TestAnAdminStays(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	admin := func(email string) (p Person) {
		h.ok(func(tx postgres.Tx) (err error) {
			p, _, err = h.Invite(h.Context(), tx, NewPerson{Kind: Operator, Email: email, Name: "An Admin",
				Language: "en", Roles: []Role{Admin}})
			return err
		})
		return p
	}
	ann, ben := admin("ann@partners.example"), admin("ben@partners.example")
	h.ok(func(tx postgres.Tx) error {
		return dbtest.Exec(h.Context(), tx, "UPDATE staff SET password_hash = 'set'")
	})
	admin("cleo@partners.example") // only invited, so does not count
	results := make(chan error, 2)
	h.ok(func(tx postgres.Tx) error { // so that both have started before one ends
		if err := dbtest.Exec(h.Context(), tx, "SELECT FROM staff ORDER BY id FOR UPDATE"); err != nil {
			return err
		}
		go func() {
			results <- h.tx(func(tx postgres.Tx) error { _, err := h.Disable(h.Context(), tx, ann.ID); return err })
		}()
		go func() {
			results <- h.tx(func(tx postgres.Tx) error {
				_, _, err := h.SetRoles(h.Context(), tx, ben.ID, []Role{Support})
				return err
			})
		}()
		dbtest.AwaitWaiters(t, h.db, 2)
		return nil
	})
	done := 0
	for range 2 {
		if err := <-results; err == nil {
			done++
		} else if !errors.Is(err, ErrLastAdmin) {
			t.Error(err)
		}
	}
	if done != 1 {
		t.Errorf("%d of two succeeded", done)
	}
	h.ok(func(tx postgres.Tx) error {
		admins, err := lockAdmins(h.Context(), tx)
		if len(admins) != 1 {
			t.Errorf("%d admins are left", len(admins))
		}
		return err
	})
}
