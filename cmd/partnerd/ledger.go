package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"time"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
	"partnerd/internal/base/money"
	"partnerd/internal/domain/books"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/wallet"
)

type ledgerCmd struct {
	Verify ledgerVerifyCmd `cmd:"" help:"Check the ledger for inconsistencies and changed rows."`
}

type ledgerVerifyCmd struct {
	output
	Full bool `help:"Check everything, not only what is new since the last check without findings."`
}

func (c *ledgerVerifyCmd) examine(ctx context.Context, b *books.Service) (books.Check, error) {
	if !c.Full {
		return b.Examine(ctx)
	}
	return b.ExamineAll(ctx, func(part string) { fmt.Fprintln(os.Stderr, "checking", part) })
}

func (c *ledgerVerifyCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		check, err := c.examine(ctx, a.Books)
		if err != nil {
			return err
		}
		result := map[string]any{"ok": len(check.Findings) == 0, "findings": append([]string{}, check.Findings...),
			"transactions": check.Transactions, "complete": check.Complete, "outstandingCents": check.Outstanding,
			"volumeCents": check.Volume, "heads": fmt.Sprintf("%x", check.Heads)}
		if len(check.Findings) > 0 {
			_ = c.print(result, check.Findings...)
			return fmt.Errorf("findings in the ledger: %d", len(check.Findings))
		}
		return c.print(result, fmt.Sprintf("The ledger is consistent: %d transactions, %s in clients' wallets, seal %x.",
			check.Transactions, check.Outstanding.Format("en"), check.Heads))
	})
}

type walletCmd struct {
	Statement walletStatementCmd `cmd:"" help:"Print a client's monthly statement."`
	Adjust    walletAdjustCmd    `cmd:"" help:"Adjust a client's wallet manually."`
	Refund    walletRefundCmd    `cmd:"" help:"Refund a client's unused top-ups of the last 14 days to their source."`
}

type walletStatementCmd struct {
	Client string `required:"" help:"ID of the client."`
	Month  string `required:"" help:"Month, like 2026-03 (UTC)."`
	CSV    bool   `help:"Print CSV instead of text."`
}

func (c *walletStatementCmd) Run(ctx context.Context, cfg *config.Config) error {
	month, err := time.Parse("2006-01", c.Month)
	if err != nil {
		return fmt.Errorf("--month: %q is not like 2026-03", c.Month)
	}
	return with(ctx, cfg, func(a *app.App) error {
		if err := a.Operator.KnownClient(ctx, a.DB.Read(), c.Client); err != nil {
			return err
		}
		st, err := a.Wallet.Statement(ctx, a.DB.Read(), c.Client, month)
		if err != nil {
			return err
		}
		if c.CSV {
			return st.WriteCSV(os.Stdout)
		}
		return st.WriteText(os.Stdout)
	})
}

// act holds what the audit log needs to know about every manual action.
type act struct {
	Reason string `required:"" help:"Reason, kept in the audit log and not shown to the client."`
	By     string `env:"PARTNERD_OPERATOR" help:"Who is acting. Default: the local user account."`
}

func (o act) actor() string {
	if o.By != "" {
		return "cli:" + o.By
	}
	u, err := user.Current()
	if err != nil {
		return "cli:unknown"
	}
	return "cli:" + u.Username
}

type walletAdjustCmd struct {
	output
	act
	Client      string `required:"" help:"ID of the client."`
	AmountCents int64  `required:"" help:"Cents to add; negative to deduct."`
}

func (c *walletAdjustCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		b, err := a.Operator.AdjustWallet(ctx, wallet.Correction{ClientID: c.Client, Amount: money.Cents(c.AmountCents),
			Actor: c.actor(), Reason: c.Reason})
		if err != nil {
			return err
		}
		return c.print(map[string]money.Cents{"balanceCents": b.Balance, "availableCents": b.Available,
			"heldCents": b.Held},
			"The wallet balance is now "+b.Balance.Format("en")+", of which "+b.Available.Format("en")+" is available.")
	})
}

type walletRefundCmd struct {
	output
	act
	Client      string `required:"" help:"ID of the client."`
	Topup       string `help:"ID of one top-up. Default: all, newest first."`
	AmountCents *int64 `help:"Cents to refund. Default: everything unused."`
}

func (c *walletRefundCmd) Run(ctx context.Context, cfg *config.Config) error {
	var amount money.Cents
	if c.AmountCents != nil {
		if amount = money.Cents(*c.AmountCents); amount <= 0 {
			return errors.New("--amount-cents must be positive; omit it to refund everything unused")
		}
	}
	return with(ctx, cfg, func(a *app.App) error {
		parts, err := a.Operator.RefundTopUps(ctx, payment.RefundCommand{
			ClientID: c.Client, TopUpID: c.Topup, Amount: amount, Actor: c.actor(), Reason: c.Reason})
		if err != nil {
			return err
		}
		var lines []string
		for _, p := range parts {
			lines = append(lines, fmt.Sprintf("%s  Refunding %s of top-up %s.",
				p.ID, p.Amount.Format("en"), p.TopUpID))
		}
		return c.print(parts, lines...)
	})
}
