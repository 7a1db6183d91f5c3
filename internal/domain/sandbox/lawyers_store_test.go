package sandbox

import (
	"context"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/infra/postgres"
)

// Finding work uses indexes, however many lawyers have none, and even if the statistics say that many have some.
func TestChoresReadNoLawyerWhoHasNone(t *testing.T) {
	t.Parallel()
	dbtest.Unused(t)
	const many, busy = 20_000, 3
	db := dbtest.NewWithClock(t, clock.NewManual(time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)))
	now := db.Clock().Now()
	exec := func(db *postgres.DB, sql string, args ...any) {
		t.Helper()
		if _, err := db.Pool().Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	owner := dbtest.Owner(t, db)
	exec(owner, "ALTER TABLE offers SET (autovacuum_enabled = off)")
	exec(db,
		`INSERT INTO lawyers (id, email, name, password_hash, phone_sealed, state, simulated, created_at, updated_at)
		SELECT 'law_' || n, n || '@lawyer.example', 'Demo Lawyer', '', '\x00', 'OFFERED', true, $2, $2 FROM generate_series(1, $1::int) n`, many, now)
	exec(db, `INSERT INTO clients (id, email, name, password_hash, created_at, updated_at)
		SELECT 'cli_' || n, n || '@client.example', 'Demo Client', '', $2, $2 FROM generate_series(1, $1::int) n`,
		many, now)
	exec(db, `INSERT INTO applications (id, name, redirect_uris, scopes, secret_hash, created_at, updated_at)
		VALUES ('app', 'Demo CRM', '{}', '{}', '\x00', $1, $1)`, now)
	exec(db, `INSERT INTO consultations (id, application_id, client_id, status, competence, language, recording_consent, price_cents,
			created_at, updated_at, erased_at, search_started_at, timer_at)
		SELECT 'con_' || n, 'app', 'cli_' || n, 'MATCHING', 'FAMILY', 'FR', false, 2000, $2, $2, $2, $2, $2 FROM generate_series(1, $1::int) n`, many, now)
	exec(db, `INSERT INTO offers (id, consultation_id, client_id, lawyer_id, state, created_at, expires_at)
		SELECT 'off_' || n, 'con_' || n, 'cli_' || n, 'law_' || n, 'OPEN', $2, $2::timestamptz + interval '1 minute' FROM generate_series(1, $1::int) n`, many, now)
	exec(owner, "ANALYZE lawyers, offers, consultations")
	exec(db, "UPDATE offers SET state = 'EXPIRED', ended_at = created_at WHERE id NOT IN (SELECT 'off_' || n "+
		"FROM generate_series(1, $1::int) n)", busy)
	err := db.InTx(t.Context(), func(tx postgres.Tx) error {
		before, err := lawyersRead(t.Context(), tx)
		if err != nil {
			return err
		}
		list, err := chores(t.Context(), tx, DefaultPace)
		if err != nil {
			return err
		}
		after, err := lawyersRead(t.Context(), tx)
		if len(list) != busy || list[0].kind != accept || !list[0].due.Equal(now.Add(DefaultPace.Accept)) ||
			list[0].lease != (lawyer.Lease{LawyerID: list[0].lease.LawyerID}) {
			t.Errorf("there is to do %+v", list)
		}
		if read := after - before; read > 2*busy {
			t.Errorf("%d rows of lawyers read for %d who have something to do", read, busy)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// lawyersRead returns how many rows of lawyers the transaction has read.
func lawyersRead(ctx context.Context, tx postgres.Tx) (rows int, err error) {
	err = tx.Gorm(ctx).Table("pg_stat_xact_user_tables").Where("relname = 'lawyers'").
		Select("seq_tup_read + coalesce(idx_tup_fetch, 0)").Scan(&rows).Error
	return rows, err
}
