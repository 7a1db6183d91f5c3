package web

import (
	"context"
	"errors"
	"testing"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/operators"
)

// Every action of the operators' desk waits for a concurrent loss of the person's right, and is refused afterwards.
// None of its transactions commits without the right.
func TestNoActOfAnOperatorOutlivesTheRight(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first, second := f.admin("first@partners.example"), f.admin("second@partners.example")
	other := func(role staff.Role) []staff.Role { // another role, which does not permit an action of role
		if role == staff.Support {
			return []staff.Role{staff.Finance}
		}
		return []staff.Role{staff.Support}
	}
	for _, a := range f.pages.operators.Acts() {
		a.Fields, a.Check = nil, nil
		done := 0
		a.Do = func(ctx context.Context, _ operators.Call) (operators.Done, error) {
			return operators.Done{}, f.db.InTx(ctx, func(tx postgres.Tx) error {
				_, err := f.staff.Get(ctx, tx, first.Actor)
				done++
				return err
			})
		}
		f.tx(func(tx postgres.Tx) { // as before the previous action
			if err := dbtest.Exec(t.Context(), tx,
				"UPDATE staff SET disabled_at = NULL, roles = '{admin}' WHERE id = $1", second.Actor); err != nil {
				t.Fatal(err)
			}
		})
		act := func() error {
			_, err := f.pages.operators.ActOn(t.Context(), a, operators.Call{By: second})
			return err
		}
		if err := act(); err != nil || done != 1 {
			t.Errorf("%s: an admin may: %v", a.Path, err)
		}
		if len(a.Roles) > 0 {
			if err := f.operators.SetRoles(t.Context(), first, second.Actor, other(a.Roles[0])); err != nil {
				t.Fatal(err)
			}
			if err := act(); !errors.Is(err, operator.ErrMayNot) && len(a.Roles) == 1 {
				t.Errorf("%s without its role: %v", a.Path, err)
			}
		}
		refused := make(chan error, 1)
		f.tx(func(tx postgres.Tx) {
			if _, err := f.staff.Disable(t.Context(), tx, second.Actor); err != nil {
				t.Fatal(err)
			}
			go func() { refused <- act() }()
			for waiting := 0; waiting == 0 && len(refused) == 0; {
				err := f.db.Pool().QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
					WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
				if err != nil {
					t.Fatal(err)
				}
			}
		})
		if err := <-refused; !errors.Is(err, operator.ErrMayNot) {
			t.Errorf("%s by somebody who is being disabled: %v", a.Path, err)
		}
	}
}
