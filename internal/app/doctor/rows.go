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

// sealed checks the contents of the database, and tries the master key on them.
func (e *examination) sealed(ctx context.Context, program string, box *seal.Box) {
	db, err := postgres.Open(ctx, program, postgres.Options{MaxConns: 2, Test: e.Sandbox()})
	if err != nil {
		e.fail("signing keys", err.Error(), "Check that the database accepts connections.")
		return
	}
	defer db.Close()
	if known, err := deployment.Get(ctx, db.Read()); err == nil {
		e.BaseURL = cmp.Or(e.BaseURL, known.BaseURL)
	}
	if err := restore.Check(ctx, db.Read()); err != nil {
		e.fail("restore", err.Error(), "partnerd serve and work do not start until then.")
	}
	e.losses(ctx, db.Read())
	e.partitions(ctx, db.Read())
	e.late(ctx, db.Read())
	if box == nil {
		e.warn("signing keys", "not checked, because there is no valid master key",
			"Correct the master key, then run the doctor again.")
		return
	}
	e.parts(ctx, db.Read(), box)
	switch n, err := oauth.CheckKeys(ctx, db.Read(), box); {
	case err != nil:
		e.fail("signing keys", err.Error(), "The database was encrypted with a different master key. Set that key; "+
			"without it no secret can be decrypted.")
	case n == 0:
		e.warn("signing keys", "there is none yet", "The first start creates one.")
	default:
		e.ok("signing keys", fmt.Sprintf("%d, and the master key decrypts them", n))
	}
}

// losses reports commits that processes found missing in the database.
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
	e.fail("restore", fmt.Sprintf("the database went back: it lacks commits acknowledged "+
		"between %s and %s", clock.Format(from), clock.Format(until)),
		"Run partnerd restored, with the lost database if you have it: see DatabaseWentBack in .deploy/runbook.md.")
}

// parts checks that the master key has every part that sealed a value, and whether the older parts are still needed.
func (e *examination) parts(ctx context.Context, tx postgres.Tx, box *seal.Box) {
	uses, err := reseal.Uses(ctx, tx, e.columns)
	if err != nil {
		e.warn("sealed rows", err.Error(), "Run partnerd migrations up, or check the database.")
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
		e.fail("sealed rows", "the master key lacks parts that rows are encrypted with: "+strings.Join(missing, ", "),
			"Set PARTNERD_MASTER_KEY to the key that has these parts; without them these rows cannot be read.")
	case len(older) > 0:
		e.warn("sealed rows", "older parts of the master key are still needed: "+strings.Join(older, ", "),
			"When every process has the promoted key, run partnerd key reseal; the remaining values expire within a day.")
	case len(box.Parts()) > 1:
		e.ok("sealed rows", fmt.Sprintf("all are encrypted with %s, the current part; no table needs the other parts "+
			"of the %d", box.Sealing(), len(box.Parts())))
	default:
		e.ok("sealed rows", "all are encrypted with the master key")
	}
}
