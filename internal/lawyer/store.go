package lawyer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/postgres"
)

// lawyerRow is a row of lawyers.
type lawyerRow struct {
	ID           string     `gorm:"column:id;primaryKey"`
	Email        string     `gorm:"column:email"`
	Name         string     `gorm:"column:name"`
	PasswordHash string     `gorm:"column:password_hash"`
	PhoneSealed  []byte     `gorm:"column:phone_sealed"`
	State        State      `gorm:"column:state"`
	IdleSince    *time.Time `gorm:"column:idle_since"`  // since when he is or was last AVAILABLE
	LeaseEpoch   int64      `gorm:"column:lease_epoch"` // of the present connection
	Simulated    bool       `gorm:"column:simulated"`
	SuspendedAt  *time.Time `gorm:"column:suspended_at"`
	PauseNext    bool       `gorm:"column:pause_next"` // AWAY instead of AVAILABLE, the next time
	TimeZone     string     `gorm:"column:time_zone"`  // a name of the IANA database
	OnCall       bool       `gorm:"column:on_call"`

	Bar             string     `gorm:"column:bar;serializer:zeronull"`
	BarNumber       string     `gorm:"column:bar_number;serializer:zeronull"`
	BarCheckedUntil *time.Time `gorm:"column:bar_checked_until"`

	ApplicationID string `gorm:"column:application_id;serializer:zeronull"` // whose consultations alone he serves, in a sandbox

	CreatedAt time.Time `gorm:"column:created_at;autoCreateTime:false"`
	UpdatedAt time.Time `gorm:"column:updated_at;autoUpdateTime:false"`
}

// TableName implements [schema.Tabler].
func (lawyerRow) TableName() string { return "lawyers" }

// pairRow is a row of lawyer_pairs.
type pairRow struct {
	Competence string     `gorm:"column:competence;primaryKey"`
	Language   string     `gorm:"column:language;primaryKey"`
	LawyerID   string     `gorm:"column:lawyer_id;primaryKey"`
	IdleSince  *time.Time `gorm:"column:idle_since"` // the lawyer's, while he is AVAILABLE
}

// TableName implements [schema.Tabler].
func (pairRow) TableName() string { return "lawyer_pairs" }

// presenceRow is a row of lawyer_presence: a lawyer who is signed on.
type presenceRow struct {
	LawyerID    string    `gorm:"column:lawyer_id;primaryKey"`
	HeartbeatAt time.Time `gorm:"column:heartbeat_at"`
}

// TableName implements [schema.Tabler].
func (presenceRow) TableName() string { return "lawyer_presence" }

// shiftRow is a row of lawyer_shifts: a stretch of time in which a lawyer was on duty.
type shiftRow struct {
	ID       int64      `gorm:"column:id;primaryKey"`
	LawyerID string     `gorm:"column:lawyer_id"`
	FromAt   time.Time  `gorm:"column:from_at"`
	UntilAt  *time.Time `gorm:"column:until_at"` // NULL while it goes on; a lawyer has one of these at most
}

// TableName implements [schema.Tabler].
func (shiftRow) TableName() string { return "lawyer_shifts" }

// seenRow is a lawyer, without secrets, with his last heartbeat.
type seenRow struct {
	Row         lawyerRow `gorm:"embedded"`
	HeartbeatAt *time.Time
}

var columns = postgres.Columns[lawyerRow]("l", "password_hash", "phone_sealed", "time_zone", "on_call", "bar", "bar_number", "bar_checked_until")

func fromRow(r seenRow) Lawyer {
	l := Lawyer{ID: r.Row.ID, Email: r.Row.Email, Name: r.Row.Name, State: r.Row.State, Simulated: r.Row.Simulated,
		ApplicationID: r.Row.ApplicationID, Suspended: r.Row.SuspendedAt != nil, Pausing: r.Row.PauseNext, LeaseEpoch: r.Row.LeaseEpoch, CreatedAt: r.Row.CreatedAt}
	if r.Row.IdleSince != nil {
		l.IdleSince = *r.Row.IdleSince
	}
	if r.HeartbeatAt != nil {
		l.HeartbeatAt = *r.HeartbeatAt
	}
	return l
}

func insert(ctx context.Context, tx postgres.Tx, l Lawyer, hash string, phone []byte) error {
	err := gorm.G[lawyerRow](tx.Gorm(ctx)).Create(ctx, &lawyerRow{ID: l.ID, Email: l.Email, Name: l.Name, PasswordHash: hash, PhoneSealed: phone,
		State: l.State, Simulated: l.Simulated, ApplicationID: l.ApplicationID, TimeZone: DefaultTimeZone, CreatedAt: tx.Now, UpdatedAt: tx.Now})
	if postgres.IsUnique(err, "lawyers_email_key") {
		return ErrEmailTaken
	}
	if err != nil {
		return fmt.Errorf("insert lawyer: %w", err)
	}
	return nil
}

var knownCodesSQL = postgres.SQL(postgres.Report, `SELECT 'competence ' || code FROM competences WHERE code = ANY ($1) AND retired_at IS NULL
	UNION ALL SELECT 'language ' || code FROM languages WHERE code = ANY ($2) AND retired_at IS NULL`)

// checkCodes names the unknown codes; the foreign keys of lawyer_pairs say only that there are some.
func checkCodes(ctx context.Context, tx postgres.Tx, competences, languages []string) error {
	known, err := postgres.Query[string](ctx, tx, knownCodesSQL, competences, languages)
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
	var pairs []pairRow
	for _, c := range competences {
		for _, l := range languages {
			pairs = append(pairs, pairRow{Competence: c, Language: l, LawyerID: lawyerID})
		}
	}
	if err := gorm.G[pairRow](tx.Gorm(ctx)).CreateInBatches(ctx, &pairs, len(pairs)); err != nil {
		return fmt.Errorf("insert the lawyer's pairs: %w", err)
	}
	return nil
}

// replacePairs gives a lawyer who is AVAILABLE his place in the queues of his new pairs.
func replacePairs(ctx context.Context, tx postgres.Tx, l Lawyer, to Skills) error {
	if _, err := gorm.G[pairRow](tx.Gorm(ctx)).Where("lawyer_id = ? AND NOT (competence = ANY (?) AND language = ANY (?))", l.ID,
		postgres.Array[string](to.Competences), postgres.Array[string](to.Languages)).Delete(ctx); err != nil {
		return fmt.Errorf("delete the lawyer's pairs: %w", err)
	}
	var pairs []pairRow
	for _, c := range to.Competences {
		for _, language := range to.Languages {
			r := pairRow{Competence: c, Language: language, LawyerID: l.ID}
			if l.State == Available {
				r.IdleSince = &l.IdleSince
			}
			pairs = append(pairs, r)
		}
	}
	if err := gorm.G[pairRow](tx.Gorm(ctx), clause.OnConflict{DoNothing: true}).CreateInBatches(ctx, &pairs, len(pairs)); err != nil {
		return fmt.Errorf("insert the lawyer's pairs: %w", err)
	}
	return nil
}

func skills(ctx context.Context, tx postgres.Tx, lawyerID string) (s Skills, err error) {
	pairs, err := gorm.G[pairRow](tx.Gorm(ctx)).Where("lawyer_id = ?", lawyerID).Find(ctx)
	if err != nil {
		return s, fmt.Errorf("read the lawyer's pairs: %w", err)
	}
	for _, p := range pairs {
		s.Competences, s.Languages = append(s.Competences, p.Competence), append(s.Languages, p.Language)
	}
	return Skills{distinct(s.Competences), distinct(s.Languages)}, nil
}

func list(ctx context.Context, tx postgres.Tx, after string, limit int) ([]Lawyer, error) {
	var rows []seenRow
	err := tx.Gorm(ctx).Table("lawyers l").Joins("LEFT JOIN lawyer_presence h ON h.lawyer_id = l.id").Select(columns+", h.heartbeat_at").
		Where("l.id > ?", after).Order("l.id").Limit(limit).Find(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("list lawyers: %w", err)
	}
	lawyers := make([]Lawyer, len(rows))
	for i, r := range rows {
		lawyers[i] = fromRow(r)
	}
	return lawyers, nil
}

var lockLawyer = clause.Locking{Strength: clause.LockingStrengthUpdate, Table: clause.Table{Name: "l"}}

func get(ctx context.Context, tx postgres.Tx, lawyerID string, lock ...clause.Expression) (Lawyer, error) {
	var r seenRow
	err := tx.Gorm(ctx).Clauses(lock...).Table("lawyers l").Joins("LEFT JOIN lawyer_presence h ON h.lawyer_id = l.id").
		Select(columns+", h.heartbeat_at").Where("l.id = ?", lawyerID).Take(&r).Error
	if postgres.IsNotFound(err) {
		return Lawyer{}, ErrNotFound
	}
	if err != nil {
		return Lawyer{}, fmt.Errorf("read lawyer: %w", err)
	}
	return fromRow(r), nil
}

// What changes a lawyer's state is one statement named changed, at the instant $1, which returns id, state and idle_since;
// these go on from it.
const (
	// keepQueue lets the queues of his pairs follow. It writes every pair, whatever it read there: what changed waited for may
	// have written it since.
	keepQueue = `, queue AS (
	UPDATE lawyer_pairs p SET idle_since = CASE WHEN changed.state = 'AVAILABLE' THEN changed.idle_since END
	FROM changed WHERE p.lawyer_id = changed.id
)`
	// endPresence is for lawyers who are signed off.
	endPresence = `, gone AS (DELETE FROM lawyer_presence h USING changed WHERE h.lawyer_id = changed.id AND changed.state = 'OFFLINE')`
	// beginPresence is for lawyers who sign on.
	beginPresence = `, present AS (
	INSERT INTO lawyer_presence (lawyer_id, heartbeat_at) SELECT id, $1 FROM changed
	ON CONFLICT (lawyer_id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at
)`
	// beginShift is for lawyers who sign on; who is on duty goes on with his shift.
	beginShift = `, shift AS (
	INSERT INTO lawyer_shifts (lawyer_id, from_at) SELECT id, $1 FROM changed WHERE state NOT IN ('OFFLINE', 'AWAY')
	ON CONFLICT (lawyer_id) WHERE until_at IS NULL DO NOTHING
)`
	// endShift is for lawyers who may be off duty now.
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
			state = CASE WHEN was.back THEN 'AVAILABLE' ELSE l.state END
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

// hold waits for the row's lock before it compares: the condition is checked again on what it then finds.
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

// beat does not lock the lawyer's row: a beat that comes as another connection takes over renews what that has just begun.
func beat(ctx context.Context, tx postgres.Tx, lease Lease) error {
	n, err := gorm.G[presenceRow](tx.Gorm(ctx)).Where("lawyer_id = ? AND heartbeat_at > ?", lease.LawyerID, ended).
		Where("EXISTS (SELECT FROM lawyers WHERE id = ? AND lease_epoch = ?)", lease.LawyerID, lease.Epoch).Update(ctx, "heartbeat_at", tx.Now)
	if err != nil {
		return fmt.Errorf("renew the lawyer's lease: %w", err)
	}
	if n == 0 {
		return ErrLeaseLost
	}
	return nil
}

var beatAllSQL = postgres.SQL(postgres.Batch, `WITH said AS (SELECT * FROM unnest($2::text[], $3::bigint[]) AS s (lawyer_id, epoch)),
	held AS (SELECT s.lawyer_id FROM said s JOIN lawyers l ON l.id = s.lawyer_id AND l.lease_epoch = s.epoch),
	free AS (SELECT h.lawyer_id FROM lawyer_presence h JOIN held ON held.lawyer_id = h.lawyer_id
		WHERE h.heartbeat_at > $4 ORDER BY h.lawyer_id FOR UPDATE OF h SKIP LOCKED),
	renewed AS (UPDATE lawyer_presence h SET heartbeat_at = $1 FROM free WHERE h.lawyer_id = free.lawyer_id)
	SELECT lawyer_id, epoch FROM said WHERE lawyer_id NOT IN (SELECT lawyer_id FROM held)`)

// beatAll takes the rows as heartbeat does.
func beatAll(ctx context.Context, tx postgres.Tx, leases []Lease) (lost []Lease, err error) {
	if len(leases) == 0 {
		return nil, nil
	}
	ids, epochs := make([]string, len(leases)), make([]int64, len(leases))
	for i, l := range leases {
		ids[i], epochs[i] = l.LawyerID, l.Epoch
	}
	if lost, err = postgres.Query[Lease](ctx, tx, beatAllSQL, tx.Now, ids, epochs, ended); err != nil {
		return nil, fmt.Errorf("renew leases: %w", err)
	}
	return lost, nil
}

// heartbeat takes the rows in the order of their ids, so that it does not deadlock with whoever else changes several,
// and skips those that are being changed: the next beat is soon.
func heartbeat(ctx context.Context, tx postgres.Tx, lawyerIDs []string) error {
	free := tx.Gorm(ctx).Model(&presenceRow{}).Clauses(postgres.SkipLocked).Select("lawyer_id").
		Where("lawyer_id = ANY (?) AND heartbeat_at > ?", postgres.Array[string](lawyerIDs), ended).Order("lawyer_id")
	if _, err := gorm.G[presenceRow](tx.Gorm(ctx)).Where("lawyer_id IN (?)", free).Update(ctx, "heartbeat_at", tx.Now); err != nil {
		return fmt.Errorf("renew leases: %w", err)
	}
	return nil
}

// changeSQL moves the lawyer $2 from one of the states $3.
func changeSQL(set, follow string) postgres.Statement {
	return postgres.SQL(postgres.Atomic, "WITH changed AS (UPDATE lawyers SET updated_at = $1, "+set+
		" WHERE id = $2 AND state = ANY ($3) RETURNING id, state, idle_since)"+follow+" SELECT count(*) FROM changed")
}

const signOff = "state = 'OFFLINE', lease_epoch = lease_epoch + 1" // what the connection that was open says from now on is refused

var (
	availableSQL = changeSQL(`state = CASE WHEN suspended_at IS NOT NULL THEN 'OFFLINE' WHEN pause_next THEN 'AWAY' ELSE 'AVAILABLE' END, pause_next = false,
		idle_since = CASE WHEN $4::boolean THEN coalesce(idle_since, $1) ELSE $1 END`, keepQueue+endPresence+endShift)
	offlineSQL          = changeSQL(signOff, endPresence+endShift)
	offlineFromQueueSQL = changeSQL(signOff, keepQueue+endPresence+endShift)
	awaySQL             = changeSQL("state = 'AWAY'", keepQueue+endShift)
	leaveQueueSQL       = changeSQL("state = $4", keepQueue)
	pauseSQL            = changeSQL("state = CASE WHEN state = 'AVAILABLE' THEN 'AWAY' ELSE state END, pause_next = state NOT IN ('AVAILABLE', 'AWAY')", keepQueue+endShift)
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

func setState(ctx context.Context, tx postgres.Tx, lawyerID string, from []State, to State, keepPlace bool) error {
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
		n, err = change(offlineFromQueueSQL)
	case to == Offline:
		n, err = change(offlineSQL)
	case to == Away:
		n, err = change(awaySQL)
	case queued:
		n, err = change(leaveQueueSQL, to)
	default:
		n, err = gorm.G[lawyerRow](tx.Gorm(ctx)).Where("id = ? AND state IN ?", lawyerID, from).Updates(ctx, lawyerRow{State: to, UpdatedAt: tx.Now})
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
		UPDATE lawyers SET state = 'AVAILABLE', idle_since = $1, lease_epoch = lease_epoch + 1, updated_at = $1
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

// late reads the heartbeats first, whatever statistics say: there are as many as lawyers who are signed on, and few are late.
const late = "late AS MATERIALIZED (SELECT lawyer_id FROM lawyer_presence WHERE heartbeat_at < $%d)"

var signOffLostSQL = postgres.SQL(postgres.Claim, "WITH "+fmt.Sprintf(late, 2)+`, lost AS (
		SELECT l.id FROM late JOIN lawyers l ON l.id = late.lawyer_id AND l.state IN ('AVAILABLE', 'AWAY')
		JOIN lawyer_presence h ON h.lawyer_id = late.lawyer_id AND h.heartbeat_at < $2
		ORDER BY l.id LIMIT $3 FOR UPDATE OF h, l SKIP LOCKED
	), changed AS (
		UPDATE lawyers l SET state = 'OFFLINE', lease_epoch = l.lease_epoch + 1, updated_at = $1
		FROM lost WHERE l.id = lost.id RETURNING l.id, l.state, l.idle_since
	)`+keepQueue+endPresence+endShift+`
	SELECT count(*) FROM changed`)

// signOffLost does a batch; the lawyers that somebody is at are left to the next one.
func signOffLost(ctx context.Context, tx postgres.Tx, before time.Time, limit int) (n int, err error) {
	if err := tx.QueryRow(ctx, signOffLostSQL, tx.Now, before, limit).Scan(&n); err != nil {
		return 0, fmt.Errorf("sign lost lawyers off: %w", err)
	}
	return n, nil
}

// ended is the heartbeat of a suspended lawyer who has work in hand: no beat renews it, not even one that began before.
var ended = time.Unix(0, 0).UTC()

var suspendSQL = postgres.SQL(postgres.Atomic, `WITH changed AS (
		UPDATE lawyers SET suspended_at = coalesce(suspended_at, $1), lease_epoch = lease_epoch + 1, updated_at = $1,
			state = CASE WHEN state IN ('BUSY', 'WRAP_UP') THEN state ELSE 'OFFLINE' END
		WHERE id = $2 RETURNING id, state, idle_since
	)`+keepQueue+endPresence+endShift+`
	UPDATE lawyer_presence h SET heartbeat_at = $3 FROM changed WHERE h.lawyer_id = changed.id AND changed.state <> 'OFFLINE'`)

func suspend(ctx context.Context, tx postgres.Tx, lawyerID string) error {
	if _, err := tx.Exec(ctx, suspendSQL, tx.Now, lawyerID, ended); err != nil {
		return fmt.Errorf("suspend the lawyer: %w", err)
	}
	return nil
}

func resume(ctx context.Context, tx postgres.Tx, lawyerID string) error {
	return write(ctx, tx, lawyerID, lawyerRow{}, "suspended_at")
}

func updatePhone(ctx context.Context, tx postgres.Tx, lawyerID string, sealed []byte) error {
	return write(ctx, tx, lawyerID, lawyerRow{PhoneSealed: sealed}, "phone_sealed")
}

func write(ctx context.Context, tx postgres.Tx, lawyerID string, r lawyerRow, columns ...any) error {
	r.UpdatedAt = tx.Now
	n, err := gorm.G[lawyerRow](tx.Gorm(ctx)).Where("id = ?", lawyerID).Select("updated_at", columns...).Updates(ctx, r)
	if err != nil {
		return fmt.Errorf("write the lawyer's %v: %w", columns, err)
	}
	if n == 0 {
		return ErrNotFound
	}
	return nil
}

func phone(ctx context.Context, tx postgres.Tx, lawyerID string) ([]byte, error) {
	r, err := gorm.G[lawyerRow](tx.Gorm(ctx)).Select("phone_sealed").Where("id = ?", lawyerID).Take(ctx)
	if postgres.IsNotFound(err) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read the lawyer's phone: %w", err)
	}
	return r.PhoneSealed, nil
}

var busyLostSQL = postgres.SQL(postgres.Hot, "WITH "+fmt.Sprintf(late, 1)+` SELECT l.id FROM late JOIN lawyers l ON l.id = late.lawyer_id AND l.state = 'BUSY' ORDER BY l.id`)

func busyLost(ctx context.Context, tx postgres.Tx, before time.Time) ([]string, error) {
	ids, err := postgres.Query[string](ctx, tx, busyLostSQL, before)
	if err != nil {
		return nil, fmt.Errorf("list lost lawyers: %w", err)
	}
	return ids, nil
}

func simulated(ctx context.Context, tx postgres.Tx) (ids []string, err error) {
	err = gorm.G[lawyerRow](tx.Gorm(ctx)).Select("id").Where("simulated AND suspended_at IS NULL AND state <> 'AWAY'").Order("id").Scan(ctx, &ids)
	if err != nil {
		return nil, fmt.Errorf("list simulated lawyers: %w", err)
	}
	return ids, nil
}

// hoursRow is a row of lawyer_hours.
type hoursRow struct {
	LawyerID    string `gorm:"column:lawyer_id;primaryKey"`
	Weekday     int    `gorm:"column:weekday;primaryKey;autoIncrement:false"`     // 1 to 7, from Monday
	FromMinute  int    `gorm:"column:from_minute;primaryKey;autoIncrement:false"` // of the day
	UntilMinute int    `gorm:"column:until_minute"`
}

// TableName implements [schema.Tabler].
func (hoursRow) TableName() string { return "lawyer_hours" }

var zoneSQL = postgres.SQL(postgres.Report, "SELECT EXISTS (SELECT FROM pg_timezone_names WHERE name = $1)")

// zoneIsKnown asks the database, which later reckons with the zone in a search for many: one that it does not know would stop
// that.
func zoneIsKnown(ctx context.Context, tx postgres.Tx, name string) (known bool, err error) {
	if err := tx.QueryRow(ctx, zoneSQL, name).Scan(&known); err != nil {
		return false, fmt.Errorf("look for the time zone: %w", err)
	}
	return known, nil
}

func replaceHours(ctx context.Context, tx postgres.Tx, lawyerID string, hours []Hours) error {
	if _, err := gorm.G[hoursRow](tx.Gorm(ctx)).Where("lawyer_id = ?", lawyerID).Delete(ctx); err != nil {
		return fmt.Errorf("delete the lawyer's hours: %w", err)
	}
	if len(hours) == 0 {
		return nil
	}
	rows := make([]hoursRow, len(hours))
	for i, h := range hours {
		rows[i] = hoursRow{LawyerID: lawyerID, Weekday: isoDay(h.Weekday), FromMinute: h.From, UntilMinute: h.Until}
	}
	if err := gorm.G[hoursRow](tx.Gorm(ctx)).CreateInBatches(ctx, &rows, len(rows)); err != nil {
		return fmt.Errorf("insert the lawyer's hours: %w", err)
	}
	return nil
}

func registration(ctx context.Context, tx postgres.Tx, lawyerID string) (r Registration, err error) {
	l, err := gorm.G[lawyerRow](tx.Gorm(ctx)).Select("bar", "bar_number", "bar_checked_until").Where("id = ?", lawyerID).Take(ctx)
	if postgres.IsNotFound(err) {
		return r, ErrNotFound
	}
	if err != nil {
		return r, fmt.Errorf("read the lawyer's entry at the bar: %w", err)
	}
	r.Bar, r.Number = l.Bar, l.BarNumber
	if l.BarCheckedUntil != nil {
		r.CheckedUntil = *l.BarCheckedUntil
	}
	return r, nil
}

func duty(ctx context.Context, tx postgres.Tx, lawyerID string) (Duty, error) {
	l, err := gorm.G[lawyerRow](tx.Gorm(ctx)).Select("time_zone", "on_call").Where("id = ?", lawyerID).Take(ctx)
	if postgres.IsNotFound(err) {
		return Duty{}, ErrNotFound
	}
	if err != nil {
		return Duty{}, fmt.Errorf("read when the lawyer may be woken: %w", err)
	}
	rows, err := gorm.G[hoursRow](tx.Gorm(ctx)).Where("lawyer_id = ?", lawyerID).Order("weekday, from_minute").Find(ctx)
	if err != nil {
		return Duty{}, fmt.Errorf("read the lawyer's hours: %w", err)
	}
	d := Duty{TimeZone: l.TimeZone, OnCall: l.OnCall}
	for _, r := range rows {
		d.Hours = append(d.Hours, Hours{Weekday: time.Weekday(r.Weekday % 7), From: r.FromMinute, Until: r.UntilMinute})
	}
	return d, nil
}
