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

const columns = "id, email, name, state, simulated, suspended_at, idle_since, heartbeat_at, lease_epoch, created_at"

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
	q := "SELECT " + columns + " FROM lawyers WHERE id = ?"
	if lock {
		q += " FOR UPDATE"
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

func goOnline(ctx context.Context, tx postgres.Tx, lawyerID string) (int64, error) {
	var epoch int64
	res := tx.Gorm(ctx).Raw(`UPDATE lawyers SET lease_epoch = lease_epoch + 1, heartbeat_at = @now, updated_at = @now,
			idle_since = CASE WHEN state IN ('OFFLINE', 'AWAY') THEN @now ELSE idle_since END,
			state = CASE WHEN state IN ('OFFLINE', 'AWAY') THEN 'AVAILABLE' ELSE state END
		WHERE id = @id RETURNING lease_epoch`, map[string]any{"now": tx.Now, "id": lawyerID}).Scan(&epoch)
	if res.Error != nil {
		return 0, fmt.Errorf("sign the lawyer on: %w", res.Error)
	}
	if res.RowsAffected == 0 {
		return 0, ErrNotFound
	}
	return epoch, nil
}

func beat(ctx context.Context, tx postgres.Tx, lawyerID string, epoch int64) error {
	res := tx.Gorm(ctx).Exec("UPDATE lawyers SET heartbeat_at = ? WHERE id = ? AND lease_epoch = ?", tx.Now, lawyerID, epoch)
	if res.Error != nil {
		return fmt.Errorf("renew the lawyer's lease: %w", res.Error)
	}
	if res.RowsAffected == 0 {
		return ErrLeaseLost
	}
	return nil
}

// heartbeat takes the rows in the order of their ids, so that two replicas that beat for the same lawyers do not
// deadlock, and skips those that are being changed: the next beat is soon.
func heartbeat(ctx context.Context, tx postgres.Tx, lawyerIDs []string) error {
	if len(lawyerIDs) == 0 {
		return nil
	}
	err := tx.Gorm(ctx).Exec(`UPDATE lawyers SET heartbeat_at = ? WHERE id IN
		(SELECT id FROM lawyers WHERE id IN ? ORDER BY id FOR UPDATE SKIP LOCKED)`, tx.Now, lawyerIDs).Error
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
	res := tx.Gorm(ctx).Exec("UPDATE lawyers SET state = @to, updated_at = @now, idle_since = "+idle+
		" WHERE id = @id AND state IN @from", map[string]any{"to": to, "now": tx.Now, "id": lawyerID, "from": from})
	if res.Error != nil {
		return fmt.Errorf("set the lawyer's state: %w", res.Error)
	}
	if res.RowsAffected == 0 {
		return fmt.Errorf("to %s: %w", to, ErrState)
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

func stale(ctx context.Context, tx postgres.Tx, before time.Time) ([]string, error) {
	var ids []string
	err := tx.Gorm(ctx).Raw(`SELECT id FROM lawyers WHERE state <> 'OFFLINE'
		AND (heartbeat_at IS NULL OR heartbeat_at < ?) ORDER BY heartbeat_at NULLS FIRST, id`, before).Scan(&ids).Error
	if err != nil {
		return nil, fmt.Errorf("list stale lawyers: %w", err)
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
