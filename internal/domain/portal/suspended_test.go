package portal

import (
	"errors"
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
)

// An action that starts something waits for a concurrent suspension and is then refused: no one joins, is invited or
// gets a secret.
func TestNoActOvertakesASuspension(t *testing.T) {
	t.Parallel()
	h := newHouse(t, true)
	ctx := t.Context()
	link := h.invited("early@crm.example", Developer)
	for what, do := range map[string]func(tx postgres.Tx) error{
		"join": func(tx postgres.Tx) error {
			return third(h.Join(ctx, tx, link, "Early", phrase, staff.Device{}))
		},
		"invite": func(tx postgres.Tx) error {
			return h.Invite(ctx, tx, h.by(Owner), "new@crm.example", Viewer, "en")
		},
		"rotate the secret": func(tx postgres.Tx) error {
			return third(h.RotateSecret(ctx, tx, h.by(Developer), application.Rotation{Overlap: time.Hour}))
		},
	} {
		answered := make(chan error, 1)
		h.tx(func(tx postgres.Tx) error {
			if err := h.deps.Applications.SetSuspended(ctx, tx, h.app.ID, true); err != nil {
				return err
			}
			go func() { answered <- h.in(do) }()
			dbtest.AwaitWaiters(t, h.deps.DB, 1)
			return nil
		})
		if err := <-answered; !errors.Is(err, ErrSuspended) {
			t.Errorf("%s: %v", what, err)
		}
		h.tx(func(tx postgres.Tx) error { return h.deps.Applications.SetSuspended(ctx, tx, h.app.ID, false) })
	}
}
