package deployment

import (
	"context"
	"fmt"

	"partnerd/internal/infra/postgres"
)

// Check returns the base URL for a program with this claim, or rejects the claim. It writes nothing. It accepts a
// database with any schema: none, that of an earlier release, or the newest.
func Check(ctx context.Context, tx postgres.Tx, c Claim) (baseURL string, err error) {
	k, err := Get(ctx, tx)
	if err != nil {
		return "", err
	}
	baseURL, _, err = settle(k, c)
	return baseURL, err
}

// Record is [Check] that also stores the deployment in the database. It needs the newest schema and returns what was
// known before.
func Record(ctx context.Context, tx postgres.Tx, c Claim) (before Known, err error) {
	if err := lock(ctx, tx); err != nil {
		return before, fmt.Errorf("record the deployment: %w", err)
	}
	if before, err = Get(ctx, tx); err != nil {
		return before, err
	}
	_, keep, err := settle(before, c)
	if err != nil || before.Recorded && keep == before.BaseURL {
		return before, err
	}
	if err := write(ctx, tx, c.Environment, keep); err != nil {
		return before, fmt.Errorf("record the deployment: %w", err)
	}
	return before, nil
}

// Get returns what the database knows about its deployment.
func Get(ctx context.Context, tx postgres.Tx) (Known, error) {
	k, err := read(ctx, tx)
	if err != nil {
		return k, fmt.Errorf("find out whose database it is: %w", err)
	}
	return k, nil
}
