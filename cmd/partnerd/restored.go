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
	To              time.Time `aliases:"since" help:"Point in time of the restore, or from which a failover lost commits, like 2026-11-23T05:10:00Z. Default: when processes found commits missing."`
	LostDatabaseURL string    `name:"lost-database-url" help:"URL of the lost database, or of one restored to just before the damage. It is only read."`
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
		fmt.Sprintf("The database lacks everything written after %s. Processes can use it now.", r.To.UTC().Format(stamp)),
		fmt.Sprintf("Skipped sequence numbers that partners may have seen: in %d consultations and in the event lists "+
			"of %d applications.", r.Consultations, r.Applications),
		fmt.Sprintf("Sessions ended: %d. Everyone has to sign in again.", r.SignedOut),
	}
	if !r.Compared {
		return append(lines, "No lost database was given. Erasures since then were not repeated, ended connections "+
			"are active again, and clients have to link refreshed connections again. Restore the archive to its end "+
			"elsewhere, then run this command again with --lost-database-url.")
	}
	lines = append(lines, fmt.Sprintf("Connections ended again: %d. Refresh tokens of partners that stay "+
		"valid: %d.", r.LinksEnded, r.TokensKept),
		fmt.Sprintf("Clients erased again: %d.", len(r.Erased)))
	for _, x := range r.NotErased {
		lines = append(lines, fmt.Sprintf("not erased: %s, because %s. Resolve that, then run this command again.",
			x.ClientID, x.Why))
	}
	for _, x := range r.Gone {
		lines = append(lines, fmt.Sprintf("lost: consultation %s of application %s, client %s; its status was %s",
			x.ID, x.ApplicationID, x.ClientID, x.Status))
	}
	for _, id := range r.Repeated {
		lines = append(lines, fmt.Sprintf("open again and will be called again: consultation %s (if the client was served, close it "+
			"before you start a server)", id))
	}
	for _, x := range r.Payments {
		lines = append(lines, fmt.Sprintf("paid but not in any wallet: top-up %s of client %s, %s",
			x.ID, x.ClientID, x.Amount.Format("en")))
	}
	for _, x := range r.Acts {
		lines = append(lines, fmt.Sprintf("lost action: %s  %s  %s %s  %s",
			x.At.Format(stamp), x.Actor, x.Action, x.Subject, x.Reason))
	}
	return lines
}
