package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"partnerd/internal/base/clock"
	"partnerd/migrations"
)

// Health is what [Examine] found out about a database.
type Health struct {
	Version     int           // of Postgres, as in server_version_num
	Standby     bool          // the server is in recovery: it only follows a primary
	Role        string        // of the program
	Owns        bool          // the role owns the tables, so only triggers protect the ledger
	Missing     []string      // tables on which the role lacks a privilege
	Ahead       time.Duration // how far the database's clock is ahead of the machine's
	AskedWithin time.Duration // margin of error of Ahead
	Conns       Connections
	Autovacuum  bool
	Unanalyzed  []string      // tables with many rows and no planner statistics
	Age         float64       // of the oldest transaction ID, as a fraction of the limit at which the server stops
	Longest     time.Duration // age of the longest open transaction
	Lag         time.Duration // of the furthest standby
	Standbys    int           // connected standbys
	LagHidden   bool          // this role may not see the lag
	Deserted    bool          // commits wait for a standby, and there is none
	Waits       bool          // commits wait for a standby
	Synchronous int           // standbys that commits wait for, as far as this role may see them
	Archiving   bool          // WAL is archived for point-in-time recovery
	ArchiveFail bool          // the most recent attempt to archive failed
}

// Connections counts a server's connections.
type Connections struct {
	Most   int // available in total to roles that are not superusers
	Used   int // by all clients
	Ours   int // by programs of this name with the same role
	Others int // of Used, by all other clients
}

// Examine checks the database at url, connecting as the program's role. It changes nothing.
func Examine(ctx context.Context, url string) (h Health, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return h, fmt.Errorf("connect to the database: %w", plainly(err))
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
	err := tx.QueryRow(ctx, `SELECT current_setting('server_version_num')::int, pg_is_in_recovery(), current_user,
		current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int - coalesce(current_setting('reserved_connections', true), '0')::int,
		(SELECT sum(numbackends) FROM pg_stat_database)::int,
		(SELECT count(*) FROM pg_stat_activity WHERE usename = current_user AND application_name = $1),
		current_setting('autovacuum')::bool AND current_setting('track_counts')::bool, current_setting('archive_mode') <> 'off',
		(SELECT age(datfrozenxid) / 2147483648.0 FROM pg_database WHERE datname = current_database()),
		coalesce((SELECT extract(epoch FROM max(now() - xact_start)) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'), 0)::float8,
		(SELECT last_failed_time IS NOT NULL AND last_failed_time > coalesce(last_archived_time, '-infinity') FROM pg_stat_archiver),
		(SELECT count(*) FROM pg_stat_replication), EXISTS (SELECT FROM pg_stat_replication WHERE state IS NULL),
		current_setting('synchronous_standby_names') <> '' AND current_setting('synchronous_commit') NOT IN ('off', 'local'),
		(SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')),
		coalesce((SELECT extract(epoch FROM max(replay_lag)) FROM pg_stat_replication), 0)::float8`,
		clientSettings["application_name"]).
		Scan(&h.Version, &h.Standby, &h.Role, &h.Conns.Most, &h.Conns.Used, &h.Conns.Ours, &h.Autovacuum, &h.Archiving,
			&h.Age, &longest, &h.ArchiveFail, &h.Standbys, &h.LagHidden, &h.Waits, &h.Synchronous, &lag)
	if err != nil {
		return err
	}
	h.Conns.Others = h.Conns.Used - h.Conns.Ours
	h.Deserted = h.Waits && h.Standbys == 0
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
	if err := tx.QueryRow(ctx, `SELECT to_regclass('ledger_transactions') IS NOT NULL
		AND EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = 'river' AND c.relname = 'river_job')`).Scan(&tables); err != nil || !tables {
		return err
	}
	if err := tx.QueryRow(ctx,
		`SELECT pg_has_role(relowner, 'MEMBER') FROM pg_class WHERE oid = 'ledger_transactions'::regclass`).
		Scan(&h.Owns); err != nil {
		return err
	}
	if !h.Owns {
		has, err := held(ctx, tx, h.Role)
		if err != nil {
			return err
		}
		for _, g := range migrations.Grants {
			if slices.ContainsFunc(privileges(g.Privileges),
				func(p string) bool { return !slices.Contains(has[g.Table], p) }) {
				h.Missing = append(h.Missing, g.Table)
			}
		}
	}
	return nil
}

// TryWrite commits a temporary table of about a megabyte, which disappears with the session. It needs what every commit
// needs: a writable server, space on its disk and for its WAL, and the standbys that commits wait for.
func TryWrite(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", plainly(err))
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx,
		`CREATE TEMPORARY TABLE partnerd_doctor AS SELECT repeat(md5(i::text), 50) FROM generate_series(1, 700) AS i`)
	if err != nil {
		return fmt.Errorf("try to write: %w", err)
	}
	return nil
}

// IsReadOnly reports whether the server rejected a write because it is read-only.
func IsReadOnly(err error) bool { return sqlState(err) == readOnly }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
