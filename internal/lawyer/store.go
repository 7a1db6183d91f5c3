package lawyer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"partnerd/internal/postgres"
)

type lawyerRow struct {
	ID          string
	Email       string
	Name        string
	State       State
	Simulated   bool
	SuspendedAt *time.Time
	IdleSince   *time.Time
	HeartbeatAt *time.Time
	LeaseEpoch  int64
	CreatedAt   time.Time
}

const columns = "l.id, l.email, l.name, l.state, l.simulated, l.suspended_at, l.idle_since, h.heartbeat_at, l.lease_epoch, l.created_at"

func fromRow(r lawyerRow) Lawyer {
	l := Lawyer{ID: r.ID, Email: r.Email, Name: r.Name, State: r.State, Simulated: r.Simulated,
		Suspended: r.SuspendedAt != nil, LeaseEpoch: r.LeaseEpoch, CreatedAt: r.CreatedAt}
	if r.IdleSince != nil {
		l.IdleSince = *r.IdleSince
	}
	if r.HeartbeatAt != nil {
		l.HeartbeatAt = *r.HeartbeatAt
	}
	return l
}

func insert(ctx context.Context, tx postgres.Tx, l Lawyer, hash string, phone []byte) error {
	err := tx.Gorm(ctx).Exec(`INSERT INTO lawyers (id, email, name, password_hash, phone_sealed, state, simulated, created_at, updated_at)
		VALUES (@id, @email, @name, @hash, @phone, @state, @simulated, @now, @now)`,
		map[string]any{"id": l.ID, "email": l.Email, "name": l.Name, "hash": hash, "phone": phone, "state": l.State,
			"simulated": l.Simulated, "now": tx.Now}).Error
	if postgres.IsUnique(err, "lawyers_email_key") {
		return ErrEmailTaken
	}
	if err != nil {
		return fmt.Errorf("insert lawyer: %w", err)
	}
	return nil
}

// checkCodes names the unknown codes; the foreign keys of lawyer_pairs say only that there are some.
func checkCodes(ctx context.Context, tx postgres.Tx, competences, languages []string) error {
	var known []string
	err := tx.Gorm(ctx).Raw(`SELECT 'competence ' || code FROM competences WHERE code IN ? AND retired_at IS NULL
		UNION ALL SELECT 'language ' || code FROM languages WHERE code IN ? AND retired_at IS NULL`,
		competences, languages).Scan(&known).Error
	if err != nil {
		return fmt.Errorf("read the catalog: %w", err)
	}
	var unknown []string
	note := func(kind string, codes []string) {
		for _, c := range codes {
			if !slices.Contains(known, kind+" "+c) {
				unknown = append(unknown, kind+" "+c)
			}
		}
	}
	note("competence", competences)
	note("language", languages)
	if unknown != nil {
		return fmt.Errorf("%s: %w", strings.Join(unknown, ", "), ErrUnknownCode)
	}
	return nil
}

func insertPairs(ctx context.Context, tx postgres.Tx, lawyerID string, competences, languages []string) error {
	err := tx.Gorm(ctx).Exec(`INSERT INTO lawyer_pairs (competence, language, lawyer_id)
		SELECT c.code, l.code, ? FROM competences c CROSS JOIN languages l WHERE c.code IN ? AND l.code IN ?`,
		lawyerID, competences, languages).Error
	if err != nil {
		return fmt.Errorf("insert the lawyer's pairs: %w", err)
	}
	return nil
}

func get(ctx context.Context, tx postgres.Tx, lawyerID string, lock bool) (Lawyer, error) {
	q := "SELECT " + columns + " FROM lawyers l LEFT JOIN lawyer_presence h ON h.lawyer_id = l.id WHERE l.id = ?"
	if lock {
		q += " FOR UPDATE OF l"
	}
	var r lawyerRow
	res := tx.Gorm(ctx).Raw(q, lawyerID).Scan(&r)
	if res.Error != nil {
		return Lawyer{}, fmt.Errorf("read lawyer: %w", res.Error)
	}
	if res.RowsAffected == 0 {
		return Lawyer{}, ErrNotFound
	}
	return fromRow(r), nil
}

// keepQueue goes on from a statement named changed, which changes lawyers and returns id, state and idle_since: the
// queues of their pairs follow in the same statement. It writes every pair, whatever it read there: what changed waited
// for may have written it since.
const keepQueue = `, queue AS (
	UPDATE lawyer_pairs p SET idle_since = CASE WHEN changed.state = 'AVAILABLE' THEN changed.idle_since END
	FROM changed WHERE p.lawyer_id = changed.id
)`

// endPresence goes on likewise, for lawyers who are signed off.
const endPresence = `, gone AS (DELETE FROM lawyer_presence h USING changed WHERE h.lawyer_id = changed.id AND changed.state = 'OFFLINE')`

// beginPresence goes on likewise, for lawyers who sign on.
const beginPresence = `, present AS (
	INSERT INTO lawyer_presence (lawyer_id, heartbeat_at) SELECT id, @now FROM changed
	ON CONFLICT (lawyer_id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at
)`

func goOnline(ctx context.Context, tx postgres.Tx, lawyerID string) (int64, error) {
	var r struct {
		Suspended  bool
		LeaseEpoch int64
	}
	res := tx.Gorm(ctx).Raw(`WITH was AS (
			SELECT l.id, l.suspended_at IS NOT NULL AS suspended, l.state IN ('OFFLINE', 'AWAY') OR l.state = 'AVAILABLE' AND coalesce(h.heartbeat_at < @lost, true) AS back
			FROM lawyers l LEFT JOIN lawyer_presence h ON h.lawyer_id = l.id WHERE l.id = @id FOR UPDATE OF l
		), changed AS (
			UPDATE lawyers l SET lease_epoch = l.lease_epoch + 1, updated_at = @now,
				idle_since = CASE WHEN was.back THEN @now ELSE l.idle_since END,
				state = CASE WHEN was.back THEN 'AVAILABLE' ELSE l.state END
			FROM was WHERE l.id = was.id AND NOT was.suspended RETURNING l.id, l.state, l.idle_since, l.lease_epoch
		)`+keepQueue+beginPresence+`
		SELECT was.suspended, changed.lease_epoch FROM was LEFT JOIN changed ON true`,
		map[string]any{"now": tx.Now, "lost": tx.Now.Add(-LeaseLost), "id": lawyerID}).Scan(&r)
	if res.Error != nil {
		return 0, fmt.Errorf("sign the lawyer on: %w", res.Error)
	}
	switch {
	case res.RowsAffected == 0:
		return 0, ErrNotFound
	case r.Suspended:
		return 0, ErrSuspended
	}
	return r.LeaseEpoch, nil
}

// hold waits for the row's lock before it compares: the condition is checked again on what it then finds.
func hold(ctx context.Context, tx postgres.Tx, lease Lease) error {
	var held bool
	err := tx.Gorm(ctx).Raw("SELECT true FROM lawyers WHERE id = ? AND lease_epoch = ? FOR UPDATE", lease.LawyerID, lease.Epoch).Scan(&held).Error
	if err != nil {
		return fmt.Errorf("hold the lawyer's lease: %w", err)
	}
	if !held {
		return ErrLeaseLost
	}
	return nil
}

// beat does not lock the lawyer's row: a beat that comes as another connection takes over renews what that has just begun.
func beat(ctx context.Context, tx postgres.Tx, lease Lease) error {
	res := tx.Gorm(ctx).Exec(`UPDATE lawyer_presence SET heartbeat_at = ? WHERE lawyer_id = ? AND heartbeat_at > ?
		AND EXISTS (SELECT FROM lawyers WHERE id = ? AND lease_epoch = ?)`, tx.Now, lease.LawyerID, ended, lease.LawyerID, lease.Epoch)
	if res.Error != nil {
		return fmt.Errorf("renew the lawyer's lease: %w", res.Error)
	}
	if res.RowsAffected == 0 {
		return ErrLeaseLost
	}
	return nil
}

// heartbeat takes the rows in the order of their ids, so that it does not deadlock with whoever else changes several,
// and skips those that are being changed: the next beat is soon.
func heartbeat(ctx context.Context, tx postgres.Tx, lawyerIDs []string) error {
	_, err := tx.SQL().ExecContext(ctx, `UPDATE lawyer_presence SET heartbeat_at = $1 WHERE lawyer_id IN
		(SELECT lawyer_id FROM lawyer_presence WHERE lawyer_id = ANY ($2) AND heartbeat_at > $3 ORDER BY lawyer_id FOR UPDATE SKIP LOCKED)`,
		tx.Now, lawyerIDs, ended)
	if err != nil {
		return fmt.Errorf("renew leases: %w", err)
	}
	return nil
}

func setState(ctx context.Context, tx postgres.Tx, lawyerID string, from []State, to State, keepPlace bool) error {
	idle := "idle_since"
	if to == Available {
		idle = "@now"
		if keepPlace {
			idle = "COALESCE(idle_since, @now)"
		}
	}
	state := "@to"
	var follow, epoch string
	if to == Available || slices.Contains(from, Available) {
		follow = keepQueue
	}
	if to == Available {
		state, follow = "CASE WHEN suspended_at IS NULL THEN @to ELSE 'OFFLINE' END", follow+endPresence
	}
	if to == Offline { // what the connection that was open says from now on is refused
		follow, epoch = follow+endPresence, ", lease_epoch = lease_epoch + 1"
	}
	var changed int
	err := tx.Gorm(ctx).Raw("WITH changed AS (UPDATE lawyers SET state = "+state+", updated_at = @now, idle_since = "+idle+epoch+
		" WHERE id = @id AND state IN @from RETURNING id, state, idle_since)"+follow+" SELECT count(*) FROM changed",
		map[string]any{"to": to, "now": tx.Now, "id": lawyerID, "from": from}).Scan(&changed).Error
	if err != nil {
		return fmt.Errorf("set the lawyer's state: %w", err)
	}
	if changed == 0 {
		return fmt.Errorf("to %s: %w", to, ErrState)
	}
	return nil
}

func returnIdle(ctx context.Context, tx postgres.Tx, lawyerIDs []string) ([]string, error) {
	var back []string
	err := tx.Gorm(ctx).Raw(`WITH changed AS (
			UPDATE lawyers SET state = 'AVAILABLE', idle_since = @now, lease_epoch = lease_epoch + 1, updated_at = @now
			WHERE id IN @ids AND state IN ('OFFLINE', 'AWAY', 'WRAP_UP') AND suspended_at IS NULL
				AND phone_sealed IS NOT NULL RETURNING id, state, idle_since
		)`+keepQueue+beginPresence+`
		SELECT id FROM changed`, map[string]any{"now": tx.Now, "ids": lawyerIDs}).Scan(&back).Error
	if err != nil {
		return nil, fmt.Errorf("bring lawyers back: %w", err)
	}
	return back, nil
}

// late reads the heartbeats first, whatever statistics say: there are as many as lawyers who are signed on, and few are late.
const late = "late AS MATERIALIZED (SELECT lawyer_id FROM lawyer_presence WHERE heartbeat_at < @before)"

// signOffLost does a batch; the lawyers that somebody is at are left to the next one.
func signOffLost(ctx context.Context, tx postgres.Tx, before time.Time, limit int) (n int, err error) {
	err = tx.Gorm(ctx).Raw(`WITH `+late+`, lost AS (
			SELECT l.id FROM late JOIN lawyers l ON l.id = late.lawyer_id AND l.state IN ('AVAILABLE', 'AWAY')
			JOIN lawyer_presence h ON h.lawyer_id = late.lawyer_id AND h.heartbeat_at < @before
			ORDER BY l.id LIMIT @limit FOR UPDATE OF h, l SKIP LOCKED
		), changed AS (
			UPDATE lawyers l SET state = 'OFFLINE', lease_epoch = l.lease_epoch + 1, updated_at = @now
			FROM lost WHERE l.id = lost.id RETURNING l.id, l.state, l.idle_since
		)`+keepQueue+endPresence+`
		SELECT count(*) FROM changed`, map[string]any{"before": before, "now": tx.Now, "limit": limit}).Scan(&n).Error
	if err != nil {
		return 0, fmt.Errorf("sign lost lawyers off: %w", err)
	}
	return n, nil
}

// ended is the heartbeat of a suspended lawyer who has work in hand: no beat renews it, not even one that began before.
var ended = time.Unix(0, 0).UTC()

func suspend(ctx context.Context, tx postgres.Tx, lawyerID string) error {
	err := tx.Gorm(ctx).Exec(`WITH changed AS (
			UPDATE lawyers SET suspended_at = coalesce(suspended_at, @now), lease_epoch = lease_epoch + 1, updated_at = @now,
				state = CASE WHEN state IN ('BUSY', 'WRAP_UP') THEN state ELSE 'OFFLINE' END
			WHERE id = @id RETURNING id, state, idle_since
		)`+keepQueue+endPresence+`
		UPDATE lawyer_presence h SET heartbeat_at = @ended FROM changed WHERE h.lawyer_id = changed.id AND changed.state <> 'OFFLINE'`,
		map[string]any{"now": tx.Now, "ended": ended, "id": lawyerID}).Error
	if err != nil {
		return fmt.Errorf("suspend the lawyer: %w", err)
	}
	return nil
}

func resume(ctx context.Context, tx postgres.Tx, lawyerID string) error {
	res := tx.Gorm(ctx).Exec("UPDATE lawyers SET suspended_at = NULL, updated_at = ? WHERE id = ?", tx.Now, lawyerID)
	if res.Error != nil {
		return fmt.Errorf("end the lawyer's suspension: %w", res.Error)
	}
	if res.RowsAffected == 0 {
		return ErrNotFound
	}
	return nil
}

func updatePhone(ctx context.Context, tx postgres.Tx, lawyerID string, sealed []byte) error {
	res := tx.Gorm(ctx).Exec("UPDATE lawyers SET phone_sealed = ?, updated_at = ? WHERE id = ?", sealed, tx.Now, lawyerID)
	if res.Error != nil {
		return fmt.Errorf("set the lawyer's phone: %w", res.Error)
	}
	if res.RowsAffected == 0 {
		return ErrNotFound
	}
	return nil
}

func phone(ctx context.Context, tx postgres.Tx, lawyerID string) ([]byte, error) {
	var row struct{ PhoneSealed []byte }
	res := tx.Gorm(ctx).Raw("SELECT phone_sealed FROM lawyers WHERE id = ?", lawyerID).Scan(&row)
	if res.Error != nil {
		return nil, fmt.Errorf("read the lawyer's phone: %w", res.Error)
	}
	if res.RowsAffected == 0 {
		return nil, ErrNotFound
	}
	return row.PhoneSealed, nil
}

func busyLost(ctx context.Context, tx postgres.Tx, before time.Time) ([]string, error) {
	var ids []string
	err := tx.Gorm(ctx).Raw("WITH "+late+" SELECT l.id FROM late JOIN lawyers l ON l.id = late.lawyer_id AND l.state = 'BUSY' ORDER BY l.id",
		map[string]any{"before": before}).Scan(&ids).Error
	if err != nil {
		return nil, fmt.Errorf("list lost lawyers: %w", err)
	}
	return ids, nil
}

func simulated(ctx context.Context, tx postgres.Tx) ([]string, error) {
	var ids []string
	err := tx.Gorm(ctx).Raw("SELECT id FROM lawyers WHERE simulated AND suspended_at IS NULL ORDER BY id").Scan(&ids).Error
	if err != nil {
		return nil, fmt.Errorf("list simulated lawyers: %w", err)
	}
	return ids, nil
}
