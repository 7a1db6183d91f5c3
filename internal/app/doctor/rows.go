package doctor

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/seal"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/restore"
	"partnerd/internal/infra/deployment"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/reseal"
)

// sealed looks at what the database holds, and tries the master key on it.
func (e *examination) sealed(ctx context.Context, program string, box *seal.Box) {
	db, err := postgres.Open(ctx, program, postgres.Options{MaxConns: 2, Test: e.Sandbox()})
	if err != nil {
		e.fail("signing keys", err.Error(), "Look whether the database takes connections.")
		return
	}
	defer db.Close()
	if known, err := deployment.Get(ctx, db.Read()); err == nil {
		e.BaseURL = cmp.Or(e.BaseURL, known.BaseURL)
	}
	if err := restore.Check(ctx, db.Read()); err != nil {
		e.fail("restore", err.Error(), "partnerd serve and work refuse it until then.")
	}
	e.losses(ctx, db.Read())
	e.partitions(ctx, db.Read())
	e.late(ctx, db.Read())
	if box == nil {
		e.warn("signing keys", "not tried, because there is no master key that can be used",
			"See to the master key, and run the doctor again.")
		return
	}
	e.parts(ctx, db.Read(), box)
	switch n, err := oauth.CheckKeys(ctx, db.Read(), box); {
	case err != nil:
		e.fail("signing keys", err.Error(), "The master key is not the one that the database was sealed with: set "+
			"the one that was, or nobody's secrets open.")
	case n == 0:
		e.warn("signing keys", "there is none yet", "The first start makes one.")
	default:
		e.ok("signing keys", fmt.Sprintf("%d, and the master key opens them", n))
	}
}

// losses tells what processes found missing in the database.
func (e *examination) losses(ctx context.Context, tx postgres.Tx) {
	losses, err := restore.Unsettled(ctx, tx)
	if err != nil {
		e.fail("restore", err.Error(), runs)
	}
	if len(losses) == 0 {
		return
	}
	from, until := losses[0].From, losses[0].Until
	for _, l := range losses {
		if l.From.Before(from) {
			from = l.From
		}
		if l.Until.After(until) {
			until = l.Until
		}
	}
	e.fail("restore", fmt.Sprintf("the database went back: it lacks what was written and acknowledged "+
		"between %s and %s", clock.Format(from), clock.Format(until)),
		"Run partnerd restored, with the lost database if there is one, see DatabaseWentBack in .deploy/runbook.md.")
}

// parts looks whether every value is sealed by a part of the master key that is there, and whether the older ones are
// still needed.
func (e *examination) parts(ctx context.Context, tx postgres.Tx, box *seal.Box) {
	uses, err := reseal.Uses(ctx, tx, e.columns)
	if err != nil {
		e.warn("sealed rows", err.Error(), "Run partnerd migrations up first, or look at the database.")
		return
	}
	var missing, older []string
	for _, u := range uses {
		line := fmt.Sprintf("%d of %s by %s", u.Rows, u.Column, u.Part)
		switch {
		case !box.Has(u.Part):
			missing = append(missing, line)
		case u.Part != box.Sealing():
			older = append(older, line)
		}
	}
	switch {
	case len(missing) > 0:
		e.fail("sealed rows", "the master key lacks parts that rows are sealed with: "+strings.Join(missing, ", "),
			"Set PARTNERD_MASTER_KEY to the key that has these parts; or nobody reads these rows again.")
	case len(older) > 0:
		e.warn("sealed rows", "older parts of the master key are still needed: "+strings.Join(older, ", "),
			"Run partnerd key reseal when every process has the promoted key; what is left runs out within a day.")
	case len(box.Parts()) > 1:
		e.ok("sealed rows", fmt.Sprintf("all are sealed by %s, the part that seals; of %d parts the others are not "+
			"needed by a table", box.Sealing(), len(box.Parts())))
	default:
		e.ok("sealed rows", "all are sealed by the master key")
	}
}
