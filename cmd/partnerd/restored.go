package main

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
	"partnerd/internal/domain/restore"
)

type restoredCmd struct {
	output
	act
	To              time.Time `aliases:"since" help:"Time that the database was restored to, or since which a failover lost commits, like 2026-11-23T05:10:00Z. Default: the time since which the processes found commits missing."`
	LostDatabaseURL string    `name:"lost-database-url" help:"The database as it was lost, or one restored to the last instant before the damage; it is read only. With it, erasures and ended links since the instant are repeated, links go on, and what is gone is listed."`
}

func (c *restoredCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		r, err := a.Restored(ctx, c.by(), c.To, c.LostDatabaseURL)
		if err != nil {
			return err
		}
		return c.print(r, restoredLines(r)...)
	})
}

func restoredLines(r restore.Report) []string {
	lines := []string{
		fmt.Sprintf("The database lacks what was written after %s, and may be served now.", r.To.UTC().Format(stamp)),
		fmt.Sprintf("Numbers that partners may have seen are left out: in %d consultations, and in the event lists "+
			"of %d applications.", r.Consultations, r.Applications),
		fmt.Sprintf("%d sessions are ended: everybody signs in again.", r.SignedOut),
	}
	if !r.Compared {
		return append(lines, "Nothing was compared: erasures since then are not repeated, links that had ended live "+
			"again, and links that were refreshed have to be made again. Restore the archive to its end into another "+
			"place, and run this again with --lost-database-url.")
	}
	lines = append(lines, fmt.Sprintf("%d links had ended and end again; %d refresh tokens that partners "+
		"hold go on working.", r.LinksEnded, r.TokensKept),
		fmt.Sprintf("%d clients are erased again.", len(r.Erased)))
	for _, x := range r.NotErased {
		lines = append(lines, fmt.Sprintf("not erased: %s, because %s. Settle that, and run this again.",
			x.ClientID, x.Why))
	}
	for _, x := range r.Gone {
		lines = append(lines, fmt.Sprintf("gone: consultation %s of application %s, client %s; it was %s",
			x.ID, x.ApplicationID, x.ClientID, x.Status))
	}
	for _, id := range r.Repeated {
		lines = append(lines, fmt.Sprintf("open again, and will be called again: consultation %s (close it before "+
			"you serve, if the client was served)", id))
	}
	for _, x := range r.Payments {
		lines = append(lines, fmt.Sprintf("paid and in no wallet: top-up %s of client %s, %s",
			x.ID, x.ClientID, x.Amount.Format("en")))
	}
	for _, x := range r.Acts {
		lines = append(lines, fmt.Sprintf("act that is lost: %s  %s  %s %s  %s",
			x.At.Format(stamp), x.Actor, x.Action, x.Subject, x.Reason))
	}
	return lines
}
