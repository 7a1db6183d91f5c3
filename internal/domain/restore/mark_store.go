package restore

import (
	"context"
	"errors"
	"fmt"

	"partnerd/internal/domain/operator"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/postgres"
)

// ErrUnsettled is returned for a restored database that has not been settled. The program must not serve or work on it.
var ErrUnsettled = errors.New("the database was brought back to an earlier instant, and partners have seen what came " +
	"after it: run partnerd restored first, see Restore in .deploy/operations.md; or reset these settings of Postgres, " +
	"if they say so without reason")

// settled is the audit action of a settled database; its subject is the mark.
const settled = "deployment.settled"

// markSQL reads the mark of a restore, which is empty if there was none.
//
// Postgres keeps the recovery target in its settings. A recovery without a target, such as to the end of an archive, is
// marked by the operator, who sets partnerd.restored.
//
// The mark includes the timeline. Each recovery begins a new one, so no two restores share a mark. Settling writes
// after the target, so a further restore to the same target is not found settled. A failover sets no target.
var markSQL = postgres.SQL(postgres.Backend, `WITH signs(sign) AS (
		SELECT name || ' ' || setting FROM pg_settings WHERE setting <> ''
			AND name IN ('recovery_target', 'recovery_target_lsn', 'recovery_target_name', 'recovery_target_time', 'recovery_target_xid')
		UNION ALL SELECT 'partnerd.restored ' || word FROM current_setting('partnerd.restored', true) AS word WHERE word <> '')
	SELECT coalesce(string_agg(sign, ', ' ORDER BY sign) || ', timeline '
		|| CASE WHEN pg_is_in_recovery() THEN 'not begun' ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END, '') FROM signs`)

// Check returns nil if the database was never restored or has been settled after the restore. Otherwise it returns
// [ErrUnsettled] with the settings that mark the restore.
func Check(ctx context.Context, tx postgres.Tx) error {
	mark, err := readMark(ctx, tx)
	if err != nil || mark == "" {
		return err
	}
	done, err := audit.List(ctx, tx, mark, 0, 1)
	if err != nil {
		return err
	}
	if len(done) == 0 {
		return fmt.Errorf("%w (%s)", ErrUnsettled, mark)
	}
	return nil
}

// remember records the mark as settled, so that [Check] passes from now on.
func remember(ctx context.Context, db *postgres.DB, by operator.Act) error {
	mark, err := readMark(ctx, db.Read())
	if err != nil || mark == "" {
		return err
	}
	return db.InTx(ctx, func(tx postgres.Tx) error { return by.Record(ctx, tx, settled, mark, nil) })
}

func readMark(ctx context.Context, tx postgres.Tx) (mark string, err error) {
	if err := tx.QueryRow(ctx, markSQL).Scan(&mark); err != nil {
		return "", fmt.Errorf("look whether the database was brought back: %w", err)
	}
	return mark, nil
}
