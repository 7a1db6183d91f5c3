package lawyer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"partnerd/internal/infra/postgres"
)

// presenceRow is a row of lawyer_presence: a lawyer who is signed on.
type presenceRow struct {
	LawyerID    string    `gorm:"column:lawyer_id;primaryKey"`
	HeartbeatAt time.Time `gorm:"column:heartbeat_at"`
}

// TableName implements [schema.Tabler].
func (presenceRow) TableName() string { return "lawyer_presence" }

// shiftRow is a row of lawyer_shifts: a period in which a lawyer was on duty.
type shiftRow struct {
	ID       int64      `gorm:"column:id;primaryKey"`
	LawyerID string     `gorm:"column:lawyer_id"`
	FromAt   time.Time  `gorm:"column:from_at"`
	UntilAt  *time.Time `gorm:"column:until_at"` // NULL while it lasts; a lawyer has at most one such shift
}

// TableName implements [schema.Tabler].
func (shiftRow) TableName() string { return "lawyer_shifts" }

// A statement that changes a lawyer's state begins with a CTE named changed, at time $1, which returns id, state and
// idle_since. The following parts continue from it.
const (
	// keepQueue updates the queues of the lawyer's pairs. It writes every pair whatever it read: a transaction that
	// changed waited for may have written the pairs in the meantime.
	keepQueue = `, queue AS (
	UPDATE lawyer_pairs p SET idle_since = CASE WHEN changed.state = 'AVAILABLE' THEN changed.idle_since END
	FROM changed WHERE p.lawyer_id = changed.id
)`
	// endPresence applies to lawyers who are signed off.
	endPresence = `, gone AS (DELETE FROM lawyer_presence h USING changed WHERE h.lawyer_id = changed.id AND changed.state = 'OFFLINE')`
	// beginPresence applies to lawyers who sign on.
	beginPresence = `, present AS (
	INSERT INTO lawyer_presence (lawyer_id, heartbeat_at) SELECT id, $1 FROM changed
	ON CONFLICT (lawyer_id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at
)`
	// beginShift applies to lawyers who sign on; a lawyer on duty continues their shift.
	beginShift = `, shift AS (
	INSERT INTO lawyer_shifts (lawyer_id, from_at) SELECT id, $1 FROM changed WHERE state NOT IN ('OFFLINE', 'AWAY')
	ON CONFLICT (lawyer_id) WHERE until_at IS NULL DO NOTHING
)`
	// endShift applies to lawyers who may now be off duty.
	endShift = `, shift AS (
	UPDATE lawyer_shifts s SET until_at = greatest(s.from_at, $1) FROM changed
	WHERE changed.state IN ('OFFLINE', 'AWAY') AND s.lawyer_id = changed.id AND s.until_at IS NULL
)`
)

var goOnlineSQL = postgres.SQL(postgres.Atomic, `WITH was AS (
		SELECT l.id, l.suspended_at IS NOT NULL AS suspended,
			l.state IN ('OFFLINE', 'AWAY') OR l.state = 'AVAILABLE' AND coalesce(h.heartbeat_at < $2, true) AS back
		FROM lawyers l LEFT JOIN lawyer_presence h ON h.lawyer_id = l.id WHERE l.id = $3 FOR UPDATE OF l
	), changed AS (
		UPDATE lawyers l SET lease_epoch = l.lease_epoch + 1, updated_at = $1, pause_next = false,
			idle_since = CASE WHEN was.back THEN $1 ELSE l.idle_since END,
			state = CASE WHEN was.back THEN 'AVAILABLE' ELSE l.state END`+clearLeft+`
		FROM was WHERE l.id = was.id AND NOT was.suspended RETURNING l.id, l.state, l.idle_since, l.lease_epoch
	)`+keepQueue+beginPresence+beginShift+`
	SELECT was.suspended, coalesce(changed.lease_epoch, 0) FROM was LEFT JOIN changed ON true`)

func goOnline(ctx context.Context, tx postgres.Tx, lawyerID string) (epoch int64, err error) {
	var suspended bool
	err = tx.QueryRow(ctx, goOnlineSQL, tx.Now, tx.Now.Add(-LeaseLost), lawyerID).Scan(&suspended, &epoch)
	switch {
	case postgres.IsNotFound(err):
		return 0, ErrNotFound
	case err != nil:
		return 0, fmt.Errorf("sign the lawyer on: %w", err)
	case suspended:
		return 0, ErrSuspended
	}
	return epoch, nil
}

var holdSQL = postgres.SQL(postgres.Hot, "SELECT id FROM lawyers WHERE id = $1 AND lease_epoch = $2 FOR UPDATE")

// hold waits for the row's lock; Postgres then checks the condition again on the new version of the row.
func hold(ctx context.Context, tx postgres.Tx, lease Lease) error {
	err := tx.QueryRow(ctx, holdSQL, lease.LawyerID, lease.Epoch).Scan(new(string))
	if postgres.IsNotFound(err) {
		return ErrLeaseLost
	}
	if err != nil {
		return fmt.Errorf("hold the lawyer's lease: %w", err)
	}
	return nil
}

// beat does not lock the lawyer's row. A heartbeat that arrives while another connection takes over renews the lease
// that has just begun.
func beat(ctx context.Context, tx postgres.Tx, lease Lease) error {
	n, err := gorm.G[presenceRow](tx.Gorm(ctx)).
		Where("lawyer_id = ? AND heartbeat_at > ?", lease.LawyerID, endedHeartbeat).
		Where("EXISTS (SELECT FROM lawyers WHERE id = ? AND lease_epoch = ?)", lease.LawyerID, lease.Epoch).
		Update(ctx, "heartbeat_at", tx.Now)
	if err != nil {
		return fmt.Errorf("renew the lawyer's lease: %w", err)
	}
	if n == 0 {
		return ErrLeaseLost
	}
	return nil
}

var beatAllSQL = postgres.SQL(postgres.Batch,
	`WITH said AS (SELECT * FROM unnest($2::text[], $3::bigint[]) AS s (lawyer_id, epoch)),
	held AS (SELECT s.lawyer_id FROM said s JOIN lawyers l ON l.id = s.lawyer_id AND l.lease_epoch = s.epoch),
	free AS (SELECT h.lawyer_id FROM lawyer_presence h JOIN held ON held.lawyer_id = h.lawyer_id
		WHERE h.heartbeat_at > $4 ORDER BY h.lawyer_id FOR UPDATE OF h SKIP LOCKED),
	renewed AS (UPDATE lawyer_presence h SET heartbeat_at = $1 FROM free WHERE h.lawyer_id = free.lawyer_id)
	SELECT lawyer_id, epoch FROM said WHERE lawyer_id NOT IN (SELECT lawyer_id FROM held)`)

// beatAll locks the rows as heartbeat does.
func beatAll(ctx context.Context, tx postgres.Tx, leases []Lease) (lost []Lease, err error) {
	if len(leases) == 0 {
		return nil, nil
	}
	ids, epochs := make([]string, len(leases)), make([]int64, len(leases))
	for i, l := range leases {
		ids[i], epochs[i] = l.LawyerID, l.Epoch
	}
	if lost, err = postgres.Query[Lease](ctx, tx, beatAllSQL, tx.Now, ids, epochs, endedHeartbeat); err != nil {
		return nil, fmt.Errorf("renew leases: %w", err)
	}
	return lost, nil
}

// heartbeat locks the rows in the order of their IDs, so that it cannot deadlock with other changes of several rows. It
// skips locked rows, because the next heartbeat comes soon.
func heartbeat(ctx context.Context, tx postgres.Tx, lawyerIDs []string) error {
	free := tx.Gorm(ctx).Model(&presenceRow{}).Clauses(postgres.SkipLocked).Select("lawyer_id").
		Where("lawyer_id = ANY (?) AND heartbeat_at > ?", postgres.Array[string](lawyerIDs), endedHeartbeat).
		Order("lawyer_id")
	if _, err := gorm.G[presenceRow](tx.Gorm(ctx)).Where("lawyer_id IN (?)", free).
		Update(ctx, "heartbeat_at", tx.Now); err != nil {
		return fmt.Errorf("renew leases: %w", err)
	}
	return nil
}

// changeSQL moves lawyer $2 from one of the states $3.
func changeSQL(set, follow string) postgres.Statement {
	return postgres.SQL(postgres.Atomic, "WITH changed AS (UPDATE lawyers SET updated_at = $1, "+set+
		" WHERE id = $2 AND state = ANY ($3) RETURNING id, state, idle_since)"+follow+" SELECT count(*) FROM changed")
}

const (
	// rejects what the open connection sends from now on
	signOff = "state = 'OFFLINE', lease_epoch = lease_epoch + 1"

	// barred is true if an operator keeps a lawyer from work after the work in hand: see suspend.
	barred = `(suspended_at IS NOT NULL OR EXISTS (SELECT FROM lawyer_presence e WHERE e.lawyer_id = lawyers.id AND e.heartbeat_at = 'epoch'))`

	byOperator = "left_reason IN ('SUSPENDED', 'SENT_HOME')" // reasons that stay until the lawyer comes back

	clearLeft = ", left_reason = NULL, left_at = NULL" // for lawyers on duty
)

// setLeft records a reason, which is an SQL expression.
func setLeft(reason string) string {
	return ", left_reason = CASE WHEN " + byOperator + " THEN left_reason ELSE " + reason +
		" END, left_at = CASE WHEN " + byOperator + " THEN left_at ELSE $1 END"
}

var (
	availableSQL = changeSQL(`state = CASE WHEN `+barred+
		` THEN 'OFFLINE' WHEN pause_next THEN 'AWAY' ELSE 'AVAILABLE' END, pause_next = false,
		left_reason = CASE WHEN `+barred+` THEN coalesce(left_reason, 'SUSPENDED') WHEN pause_next THEN 'PAUSED_AFTER' END,
		left_at = CASE WHEN `+barred+` THEN coalesce(left_at, $1) WHEN pause_next THEN $1 END,
		idle_since = CASE WHEN $4::boolean THEN coalesce(idle_since, $1) ELSE $1 END`, keepQueue+endPresence+endShift)
	offlineSQL          = changeSQL(signOff+setLeft("$4"), endPresence+endShift)
	offlineFromQueueSQL = changeSQL(signOff+setLeft("$4"), keepQueue+endPresence+endShift)
	awaySQL             = changeSQL("state = 'AWAY'"+setLeft("$4"), keepQueue+endShift)
	leaveQueueSQL       = changeSQL("state = $4", keepQueue)
	pauseSQL            = changeSQL(`state = CASE WHEN state = 'AVAILABLE' THEN 'AWAY' ELSE state END, pause_next = state NOT IN ('AVAILABLE', 'AWAY'),
		left_reason = CASE WHEN state = 'AVAILABLE' THEN 'PAUSED' ELSE left_reason END, left_at = CASE WHEN state = 'AVAILABLE' THEN $1 ELSE left_at END`, keepQueue+endShift)
)

func purgeShifts(ctx context.Context, tx postgres.Tx, before time.Time, limit int) (int, error) {
	n, err := postgres.Purge[shiftRow](ctx, tx, limit, "until_at", "until_at < ?", before)
	if err != nil {
		return n, fmt.Errorf("purge shifts: %w", err)
	}
	return n, nil
}

func pause(ctx context.Context, tx postgres.Tx, lawyerID string) error {
	var n int
	signedOn := postgres.Array[State]{Available, Offered, Busy, WrapUp, Away}
	if err := tx.QueryRow(ctx, pauseSQL, tx.Now, lawyerID, signedOn).Scan(&n); err != nil {
		return fmt.Errorf("let the lawyer pause: %w", err)
	}
	if n == 0 {
		return fmt.Errorf("to a pause: %w", ErrState)
	}
	return nil
}

func setState(ctx context.Context, tx postgres.Tx, lawyerID string, from []State, m Move, keepPlace bool) error {
	to := m.to
	if (m.why != "") != (to == Offline || to == Away) {
		return fmt.Errorf("a move to %s with the reason %q: whoever leaves duty has one, and nobody else", to, m.why)
	}
	queued := slices.Contains(from, Available)
	change := func(s postgres.Statement, more ...any) (n int, err error) {
		args := append([]any{tx.Now, lawyerID, postgres.Array[State](from)}, more...)
		return n, tx.QueryRow(ctx, s, args...).Scan(&n)
	}
	var n int
	var err error
	switch {
	case to == Available:
		n, err = change(availableSQL, keepPlace)
	case to == Offline && queued:
		n, err = change(offlineFromQueueSQL, m.why)
	case to == Offline:
		n, err = change(offlineSQL, m.why)
	case to == Away:
		n, err = change(awaySQL, m.why)
	case queued:
		n, err = change(leaveQueueSQL, to)
	default:
		n, err = gorm.G[lawyerRow](tx.Gorm(ctx)).Where("id = ? AND state IN ?", lawyerID, from).
			Updates(ctx, lawyerRow{State: to, UpdatedAt: tx.Now})
	}
	if err != nil {
		return fmt.Errorf("set the lawyer's state: %w", err)
	}
	if n == 0 {
		return fmt.Errorf("to %s: %w", to, ErrState)
	}
	return nil
}

var returnIdleSQL = postgres.SQL(postgres.Atomic, `WITH changed AS (
		UPDATE lawyers SET state = 'AVAILABLE', idle_since = $1, lease_epoch = lease_epoch + 1, updated_at = $1`+clearLeft+`
		WHERE id = ANY ($2) AND state IN ('OFFLINE', 'AWAY', 'WRAP_UP') AND suspended_at IS NULL
			AND phone_sealed IS NOT NULL RETURNING id, state, idle_since
	)`+keepQueue+beginPresence+beginShift+`
	SELECT id FROM changed`)

func returnIdle(ctx context.Context, tx postgres.Tx, lawyerIDs []string) ([]string, error) {
	back, err := postgres.Query[string](ctx, tx, returnIdleSQL, tx.Now, lawyerIDs)
	if err != nil {
		return nil, fmt.Errorf("bring lawyers back: %w", err)
	}
	return back, nil
}

// late reads the heartbeats first, whatever the statistics say: there is one for each signed-on lawyer, and few are
// late.
const late = "late AS MATERIALIZED (SELECT lawyer_id FROM lawyer_presence WHERE heartbeat_at < $%d)"

var signOffLostSQL = postgres.SQL(postgres.Claim, "WITH "+fmt.Sprintf(late, 2)+`, lost AS (
		SELECT l.id FROM late JOIN lawyers l ON l.id = late.lawyer_id AND l.state IN ('AVAILABLE', 'AWAY')
		JOIN lawyer_presence h ON h.lawyer_id = late.lawyer_id AND h.heartbeat_at < $2
		ORDER BY l.id LIMIT $3 FOR UPDATE OF h, l SKIP LOCKED
	), changed AS (
		UPDATE lawyers l SET state = 'OFFLINE', lease_epoch = l.lease_epoch + 1, updated_at = $1`+setLeft("'NO_PAGE'")+`
		FROM lost WHERE l.id = lost.id RETURNING l.id, l.state, l.idle_since
	)`+keepQueue+endPresence+endShift+`
	SELECT count(*) FROM changed`)

// signOffLost handles one batch. Locked lawyers are left to the next one.
func signOffLost(ctx context.Context, tx postgres.Tx, before time.Time, limit int) (n int, err error) {
	if err := tx.QueryRow(ctx, signOffLostSQL, tx.Now, before, limit).Scan(&n); err != nil {
		return 0, fmt.Errorf("sign lost lawyers off: %w", err)
	}
	return n, nil
}

// endedHeartbeat is the heartbeat of a suspended lawyer who has work in hand. No heartbeat renews it, not even one that
// began before the suspension.
var endedHeartbeat = time.Unix(0, 0).UTC()

var suspendSQL = postgres.SQL(postgres.Atomic, `WITH changed AS (
		UPDATE lawyers SET suspended_at = coalesce(suspended_at, $1), lease_epoch = lease_epoch + CASE WHEN $5::boolean THEN 0 ELSE 1 END, updated_at = $1,
			state = CASE WHEN state IN ('BUSY', 'WRAP_UP') THEN state ELSE 'OFFLINE' END,
			left_reason = $4, left_at = CASE WHEN left_reason = $4 THEN left_at ELSE $1 END
		WHERE id = $2 RETURNING id, state, idle_since
	)`+keepQueue+endPresence+endShift+`
	UPDATE lawyer_presence h SET heartbeat_at = $3 FROM changed WHERE h.lawyer_id = changed.id AND changed.state <> 'OFFLINE'`)

func suspend(ctx context.Context, tx postgres.Tx, lawyerID string, why Leaving, keepLease bool) error {
	if _, err := tx.Exec(ctx, suspendSQL, tx.Now, lawyerID, endedHeartbeat, why, keepLease); err != nil {
		return fmt.Errorf("suspend the lawyer: %w", err)
	}
	return nil
}

var takeOverSQL = postgres.SQL(postgres.Atomic, "UPDATE lawyers SET lease_epoch = lease_epoch + 1, updated_at = $1 WHERE id = $2 AND suspended_at IS NOT NULL RETURNING lease_epoch")

// takeOver starts a new lease of a suspended lawyer without changing their state.
func takeOver(ctx context.Context, tx postgres.Tx, lawyerID string) (epoch int64, err error) {
	err = tx.QueryRow(ctx, takeOverSQL, tx.Now, lawyerID).Scan(&epoch)
	if postgres.IsNotFound(err) {
		return 0, ErrState
	}
	if err != nil {
		return 0, fmt.Errorf("take the lease of a suspended lawyer over: %w", err)
	}
	return epoch, nil
}

func resume(ctx context.Context, tx postgres.Tx, lawyerID string) error {
	return write(ctx, tx, lawyerID, lawyerRow{}, "suspended_at")
}

var busyLostSQL = postgres.SQL(postgres.Hot,
	"WITH "+fmt.Sprintf(late, 1)+
		` SELECT l.id FROM late JOIN lawyers l ON l.id = late.lawyer_id AND l.state = 'BUSY' ORDER BY l.id`)

func busyLost(ctx context.Context, tx postgres.Tx, before time.Time) ([]string, error) {
	ids, err := postgres.Query[string](ctx, tx, busyLostSQL, before)
	if err != nil {
		return nil, fmt.Errorf("list lost lawyers: %w", err)
	}
	return ids, nil
}
