package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"partnerd/internal/app"
	"partnerd/internal/app/config"
	"partnerd/internal/base/clock"
	"partnerd/internal/base/problem"
	"partnerd/internal/base/seal"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/infra/reseal"
)

type keyCmd struct {
	Generate keyGenerateCmd `cmd:"" help:"Generate PARTNERD_MASTER_KEY and PARTNERD_NOTE_PUBLIC_KEY."`
	List     keyListCmd     `cmd:"" help:"List the signing keys for access tokens, newest first."`
	Rotate   keyRotateCmd   `cmd:"" help:"Add a signing key. It signs after 10 minutes."`
	Retire   keyRetireCmd   `cmd:"" help:"Retire a compromised signing key and reject the access tokens it signed."`

	ExtendMaster  keyExtendMasterCmd  `cmd:"" help:"Step 1 of rotating the master key: print it with a new part that only decrypts."`
	PromoteMaster keyPromoteMasterCmd `cmd:"" help:"Step 2: print the master key with the new part encrypting."`
	Uses          keyUsesCmd          `cmd:"" help:"Count the rows encrypted with each part of the master key."`
	Reseal        keyResealCmd        `cmd:"" help:"Step 3: re-encrypt rows that use older parts of the master key."`
	TrimMaster    keyTrimMasterCmd    `cmd:"" help:"Step 4, a day later: print the master key without its older parts."`
}

// The master key is replaced in two steps, so that at no time a server meets data that it cannot open. Extend it and
// deploy the result to every server, then promote it and deploy that to every server. The older part still opens
// existing data, until that has been resealed and the part is trimmed.
type keyExtendMasterCmd struct{ output }

func (c *keyExtendMasterCmd) Run(cfg *config.Config) error { return c.changed(cfg, seal.ExtendKey) }

type keyPromoteMasterCmd struct{ output }

func (c *keyPromoteMasterCmd) Run(cfg *config.Config) error { return c.changed(cfg, seal.PromoteKey) }

func (o output) changed(cfg *config.Config, change func(key string) (string, error)) error {
	key, err := cfg.Master()
	if err != nil {
		return err
	}
	if key, err = change(key); err != nil {
		return err
	}
	return o.print(map[string]string{"masterKey": key}, "PARTNERD_MASTER_KEY="+key)
}

type keyUsesCmd struct{ output }

func (c *keyUsesCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		sealing, uses, err := a.KeyUses(ctx)
		if err != nil {
			return err
		}
		views, lines := []map[string]any{}, []string{"current  " + sealing.String()}
		for _, u := range uses {
			views = append(views, map[string]any{"column": u.Column.String(), "part": u.Part.String(), "rows": u.Rows})
			lines = append(lines, fmt.Sprintf("%s  %10d  %s", u.Part, u.Rows, u.Column))
		}
		return c.print(map[string]any{"sealing": sealing.String(), "uses": views}, lines...)
	})
}

type keyResealCmd struct {
	output
	Reason string `default:"Regular rotation." help:"Reason, kept in the audit log."`
	By     string `env:"PARTNERD_OPERATOR" help:"Who is acting. Default: the local user account."`
}

func (c *keyResealCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		done, err := a.Reseal(ctx, act{By: c.By, Reason: c.Reason}.by(), func(p reseal.Progress) {
			fmt.Fprintf(os.Stderr, "%s: %d\n", p.Column, p.Resealed)
		})
		if err != nil {
			return err
		}
		resealed, unopened := int64(0), int64(0)
		var lines []string
		views := []map[string]any{}
		for _, p := range done {
			resealed, unopened = resealed+p.Resealed, unopened+p.Unopened
			views = append(views, map[string]any{"column": p.Column.String(), "resealed": p.Resealed,
				"unopened": p.Unopened})
			if p.Unopened > 0 {
				lines = append(lines, fmt.Sprintf("%d values of %s cannot be decrypted with this key", p.Unopened,
					p.Column))
			}
		}
		lines = append(lines, fmt.Sprintf("%d values were re-encrypted. When partnerd key uses shows no older "+
			"parts, run partnerd key trim-master.", resealed))
		if err := c.print(map[string]any{"resealed": resealed, "unopened": unopened, "columns": views},
			lines...); err != nil {
			return err
		}
		if unopened > 0 {
			return fmt.Errorf("%d values were left unchanged", unopened)
		}
		return nil
	})
}

type keyTrimMasterCmd struct{ output }

func (c *keyTrimMasterCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		sealing, uses, err := a.KeyUses(ctx)
		if err != nil {
			return err
		}
		for _, u := range uses {
			if u.Part != sealing {
				return fmt.Errorf("%d values of %s still need part %s: run partnerd key reseal, then wait a day for "+
					"short-lived values to expire", u.Rows, u.Column, u.Part)
			}
		}
		return c.changed(cfg, seal.TrimKey)
	})
}

type keyGenerateCmd struct{ output }

func (c *keyGenerateCmd) Run() error {
	master, err := seal.NewKey()
	if err != nil {
		return err
	}
	public, private, err := seal.NewKeyPair()
	if err != nil {
		return err
	}
	return c.print(map[string]string{"masterKey": master, "notePublicKey": public, "notePrivateKey": private},
		"PARTNERD_MASTER_KEY="+master, "PARTNERD_NOTE_PUBLIC_KEY="+public, "# Keep the private key off the server:",
		"# note private key "+private)
}

type keyListCmd struct{ output }

func (c *keyListCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		keys, err := a.OAuth.SigningKeys(ctx, a.DB.Read())
		if err != nil {
			return err
		}
		return c.print(map[string]any{"keys": keyViews(keys)}, keyLines(keys)...)
	})
}

func keyViews(keys []oauth.Key) []map[string]any {
	views := []map[string]any{}
	for _, k := range keys {
		views = append(views, keyView(k))
	}
	return views
}

func keyView(k oauth.Key) map[string]any {
	v := map[string]any{"kid": k.ID, "state": k.State, "createdAt": clock.Stamp(k.CreatedAt),
		"signsFrom": clock.Stamp(k.SignsFrom)}
	if k.RetiredAt != nil {
		v["retiredAt"] = clock.Stamp(*k.RetiredAt)
	}
	return v
}

func keyLines(keys []oauth.Key) []string {
	var lines []string
	for _, k := range keys {
		line := fmt.Sprintf("%s  %-8s signs from %s", k.ID, k.State, k.SignsFrom.Format(stamp))
		if k.RetiredAt != nil {
			line += ", published until " + k.RetiredAt.Format(stamp)
		}
		lines = append(lines, line)
	}
	return lines
}

type keyRotateCmd struct {
	output
	Reason string `default:"Regular rotation." help:"Reason, kept in the audit log."`
	By     string `env:"PARTNERD_OPERATOR" help:"Who is acting. Default: the local user account."`
}

func (c *keyRotateCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		key, err := a.Operator.RotateSigningKey(ctx, act{By: c.By, Reason: c.Reason}.by())
		if err != nil {
			return err
		}
		return c.print(keyView(key), fmt.Sprintf("%s is published and signs from %s.",
			key.ID, key.SignsFrom.Format(stamp)))
	})
}

type keyRetireCmd struct {
	output
	act
	Key string `arg:"" help:"ID of the key, see partnerd key list."`
}

func (c *keyRetireCmd) Run(ctx context.Context, cfg *config.Config) error {
	return with(ctx, cfg, func(a *app.App) error {
		keys, err := a.Operator.RetireSigningKey(ctx, c.by(), c.Key)
		if errors.Is(err, problem.ErrNotFound) {
			return fmt.Errorf("there is no published key %q; see partnerd key list", c.Key)
		}
		if err != nil {
			return err
		}
		return c.print(map[string]any{"keys": keyViews(keys)}, keyLines(keys)...)
	})
}
