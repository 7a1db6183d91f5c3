package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"partnerd/internal/clock"
	"partnerd/migrations"
)

// Health is what [Examine] found of a database.
type Health struct {
	Version     int           // of Postgres, as in server_version_num
	Standby     bool          // it only follows another
	Role        string        // of the program
	Owns        bool          // that role owns the tables, so triggers alone keep the books
	Missing     []string      // tables of which it lacks a privilege
	Ahead       time.Duration // of the database's clock before the machine's
	AskedWithin time.Duration // which that is known to
	MaxConns    int           // that the server takes
	Autovacuum  bool
	Unanalyzed  []string      // tables with many rows of which the planner knows nothing
	Age         float64       // of the oldest transaction number, of 1 at which the server stops
	Longest     time.Duration // that a transaction has been open for
	Lag         time.Duration // of the standby that is furthest behind
	Standbys    int           // that are seen
	LagHidden   bool          // from this role
	Deserted    bool          // commits wait for a standby, and there is none
	Archiving   bool          // the log is kept for a restore to a point in time
	ArchiveFail bool          // and the last try failed
}

// Examine looks at the database at url, that of the program's role. It changes nothing.
func Examine(ctx context.Context, url string) (h Health, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return h, fmt.Errorf("connect to the database: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	begin := pgx.TxOptions{AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, conn, begin, func(tx pgx.Tx) error {
		before := clock.System{}.Now()
		var at time.Time
		if err := tx.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&at); err != nil {
			return err
		}
		h.AskedWithin = clock.System{}.Now().Sub(before)
		h.Ahead = at.Sub(before.Add(h.AskedWithin / 2))
		return h.examine(ctx, tx)
	})
	if err != nil {
		return h, fmt.Errorf("examine the database: %w", err)
	}
	return h, nil
}

func (h *Health) examine(ctx context.Context, tx pgx.Tx) error {
	var longest, lag float64
	err := tx.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), current_user, current_setting('max_connections')::int,
		current_setting('autovacuum')::bool AND current_setting('track_counts')::bool, current_setting('archive_mode') <> 'off',
		(SELECT age(datfrozenxid) / 2147483648.0 FROM pg_database WHERE datname = current_database()),
		coalesce((SELECT extract(epoch FROM max(now() - xact_start)) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'), 0)::float8,
		(SELECT last_failed_time IS NOT NULL AND last_failed_time > coalesce(last_archived_time, '-infinity') FROM pg_stat_archiver),
		(SELECT count(*) FROM pg_stat_replication), EXISTS (SELECT FROM pg_stat_replication WHERE state IS NULL),
		current_setting('synchronous_standby_names') <> '' AND NOT EXISTS (SELECT FROM pg_stat_replication),
		coalesce((SELECT extract(epoch FROM max(replay_lag)) FROM pg_stat_replication), 0)::float8`).
		Scan(&h.Version, &h.Standby, &h.Role, &h.MaxConns, &h.Autovacuum, &h.Archiving, &h.Age, &longest, &h.ArchiveFail, &h.Standbys, &h.LagHidden, &h.Deserted, &lag)
	if err != nil {
		return err
	}
	h.Longest, h.Lag = seconds(longest), seconds(lag)
	rows, err := tx.Query(ctx, `SELECT relname FROM pg_stat_user_tables s WHERE n_live_tup > 10000 AND last_analyze IS NULL AND last_autoanalyze IS NULL
		AND NOT EXISTS (SELECT FROM pg_stats p WHERE p.schemaname = s.schemaname AND p.tablename = s.relname) ORDER BY 1`)
	if err != nil {
		return err
	}
	if h.Unanalyzed, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return err
	}
	var tables bool
	if err := tx.QueryRow(ctx, `SELECT to_regclass('ledger_transactions') IS NOT NULL AND to_regclass('river.river_job') IS NOT NULL`).Scan(&tables); err != nil || !tables {
		return err
	}
	if err := tx.QueryRow(ctx, `SELECT pg_has_role(relowner, 'MEMBER') FROM pg_class WHERE oid = 'ledger_transactions'::regclass`).Scan(&h.Owns); err != nil {
		return err
	}
	if !h.Owns {
		has, err := held(ctx, tx, h.Role)
		if err != nil {
			return err
		}
		for _, g := range migrations.Grants {
			if slices.ContainsFunc(privileges(g.Privileges), func(p string) bool { return !slices.Contains(has[g.Table], p) }) {
				h.Missing = append(h.Missing, g.Table)
			}
		}
	}
	return nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
