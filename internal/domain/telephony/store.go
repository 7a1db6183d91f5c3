package telephony

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/base/telemetry"
	"partnerd/internal/infra/postgres"
)

// callRow is a row of calls. Columns that are written only when the call begins are marked "<-:create".
type callRow struct {
	ID             string      `gorm:"column:id;primaryKey"`
	ConsultationID string      `gorm:"column:consultation_id;<-:create"`
	ClientID       string      `gorm:"column:client_id;<-:create"`
	LawyerID       string      `gorm:"column:lawyer_id;<-:create"`
	Attempt        int         `gorm:"column:attempt;<-:create"` // from 1
	State          State       `gorm:"column:state"`
	Record         bool        `gorm:"column:record;<-:create"`
	Language       string      `gorm:"column:language;<-:create"`
	StartedAt      time.Time   `gorm:"column:started_at;<-:create"`
	JoinedAt       *time.Time  `gorm:"column:joined_at"`
	BridgedAt      *time.Time  `gorm:"column:bridged_at"`
	LostAt         *time.Time  `gorm:"column:lost_at"`
	JoinedUs       int64       `gorm:"column:joined_us"` // microseconds of past joined periods
	LastEventAt    time.Time   `gorm:"column:last_event_at"`
	EndedAt        *time.Time  `gorm:"column:ended_at"`
	Outcome        OutcomeKind `gorm:"column:outcome;serializer:zeronull"`
	Reason         string      `gorm:"column:reason;serializer:zeronull"`
	RecordingRef   *string     `gorm:"column:recording_ref;->"` // written by earlier versions of the program; not used
}

// TableName implements [schema.Tabler].
func (callRow) TableName() string { return "calls" }

// eventRow is a row of call_events: a report of the provider.
type eventRow struct {
	CallID  string    `gorm:"column:call_id;primaryKey"`
	EventID string    `gorm:"column:event_id;primaryKey"`
	Kind    EventKind `gorm:"column:kind"`
	At      time.Time `gorm:"column:at"` // when it happened, by the provider's clock
	Fitted  bool      `gorm:"column:fitted"`
	// whose line; empty for both, and in rows before schema 65
	Role Role `gorm:"column:role;serializer:zeronull"`
}

// TableName implements [schema.Tabler].
func (eventRow) TableName() string { return "call_events" }

// commandRow is a row of call_commands.
type commandRow struct {
	ID           string      `gorm:"column:id;primaryKey"`
	CallID       string      `gorm:"column:call_id"`
	Kind         commandKind `gorm:"column:kind"`
	Args         commandArgs `gorm:"column:args;serializer:json"`
	Position     int64       `gorm:"column:position;->"` // order of a call's commands, numbered by the database
	DueAt        time.Time   `gorm:"column:due_at"`
	ClaimedUntil *time.Time  `gorm:"column:claimed_until"`
	Attempts     int         `gorm:"column:attempts"`
	DoneAt       *time.Time  `gorm:"column:done_at"`
	LastError    string      `gorm:"column:last_error;serializer:zeronull"`
	// the span that queued it; empty without tracing
	TraceParent string `gorm:"column:trace_parent;serializer:zeronull"`
}

// TableName implements [schema.Tabler].
func (commandRow) TableName() string { return "call_commands" }

func toRow(c Call) callRow {
	return callRow{ID: c.ID, ConsultationID: c.ConsultationID, ClientID: c.ClientID, LawyerID: c.LawyerID,
		Attempt: c.Attempt, State: c.State, Record: c.Record, Language: c.Language, StartedAt: c.StartedAt,
		JoinedAt: c.JoinedAt, BridgedAt: c.BridgedAt, LostAt: c.LostAt, JoinedUs: c.Joined.Microseconds(),
		LastEventAt: c.LastEventAt, EndedAt: c.EndedAt, Outcome: c.Outcome, Reason: c.Reason}
}

func fromRow(r callRow) Call {
	return Call{ID: r.ID, ConsultationID: r.ConsultationID, ClientID: r.ClientID, LawyerID: r.LawyerID,
		Attempt: r.Attempt, State: r.State, Record: r.Record, Language: r.Language, StartedAt: r.StartedAt,
		JoinedAt: r.JoinedAt, BridgedAt: r.BridgedAt, LostAt: r.LostAt,
		Joined: time.Duration(r.JoinedUs) * time.Microsecond, LastEventAt: r.LastEventAt,
		EndedAt: r.EndedAt, Outcome: r.Outcome, Reason: r.Reason}
}

// insertCall stores a call and reports whether the line was free. ON CONFLICT keeps the transaction usable if it was
// not.
func insertCall(ctx context.Context, tx postgres.Tx, c Call) (bool, error) {
	r, inserted := toRow(c), gorm.WithResult()
	if err := gorm.G[callRow](tx.Gorm(ctx), clause.OnConflict{DoNothing: true}, inserted).Create(ctx, &r); err != nil {
		return false, fmt.Errorf("insert call: %w", err)
	}
	return inserted.RowsAffected == 1, nil
}

func get(ctx context.Context, tx postgres.Tx, callID string) (Call, error) {
	c, found, err := one(ctx, gorm.G[callRow](tx.Gorm(ctx)).Where("id = ?", callID))
	if err == nil && !found {
		err = ErrNoCall
	}
	return c, err
}

func active(ctx context.Context, tx postgres.Tx, consultationID string) (Call, bool, error) {
	return one(ctx, gorm.G[callRow](tx.Gorm(ctx)).Where("consultation_id = ? AND state <> 'ENDED'", consultationID))
}

// eventOrder is the order in which events of a call happen.
var eventOrder = []EventKind{LegRinging, LegAnswered, LegMachine, LegDigits, LegsJoined, LegsParted, LegFailed,
	CallOver}

func history(ctx context.Context, tx postgres.Tx, consultationID string) ([]Told, error) {
	calls, err := gorm.G[callRow](tx.Gorm(ctx)).Where("consultation_id = ?", consultationID).Order("started_at, id").
		Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("list calls: %w", err)
	}
	list, ids, at := make([]Told, len(calls)), make([]string, len(calls)), map[string]int{}
	for i, c := range calls {
		list[i].Call, ids[i], at[c.ID] = fromRow(c), c.ID, i
	}
	events, err := gorm.G[eventRow](tx.Gorm(ctx)).Where("call_id IN ?", ids).Order("at, event_id").Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("list call events: %w", err)
	}
	for _, e := range events {
		told := &list[at[e.CallID]]
		told.Events = append(told.Events, Report{e.Kind, e.Role, e.At, e.Fitted})
	}
	for _, told := range list { // providers report whole seconds, in which several events may fall
		slices.SortStableFunc(told.Events, func(a, b Report) int {
			return cmp.Or(a.At.Compare(b.At),
				cmp.Compare(slices.Index(eventOrder, a.Kind), slices.Index(eventOrder, b.Kind)))
		})
	}
	return list, nil
}

func one(ctx context.Context, q gorm.ChainInterface[callRow]) (Call, bool, error) {
	r, err := q.Take(ctx)
	if postgres.IsNotFound(err) {
		return Call{}, false, nil
	}
	if err != nil {
		return Call{}, false, fmt.Errorf("read call: %w", err)
	}
	return fromRow(r), true, nil
}

// lockCall locks a call, or returns [ErrNoCall].
func lockCall(ctx context.Context, tx postgres.Tx, callID string) (Call, error) {
	c, _, err := lockCallFor(ctx, tx, callID, "")
	return c, err
}

var lockCallSQL = postgres.SQL(postgres.Hot, `SELECT `+postgres.Columns[callRow]("k")+`,
	EXISTS (SELECT FROM call_events e WHERE e.call_id = k.id AND e.event_id = $2) AS repeated FROM calls k WHERE k.id = $1 FOR UPDATE OF k`)

// lockCallFor also reports whether the call already has an event. The caller holds the consultation's row lock, so no
// one can add the event at the same time.
func lockCallFor(ctx context.Context, tx postgres.Tx, callID, eventID string) (c Call, repeated bool, err error) {
	type locked struct {
		Row      callRow `gorm:"embedded"`
		Repeated bool
	}
	r, found, err := postgres.One[locked](ctx, tx, lockCallSQL, callID, eventID)
	switch {
	case err != nil:
		return Call{}, false, fmt.Errorf("lock call: %w", err)
	case !found:
		return Call{}, false, ErrNoCall
	}
	return fromRow(r.Row), r.Repeated, nil
}

func lineMarks(ctx context.Context, tx postgres.Tx, callID string) ([]mark, error) {
	rows, err := gorm.G[eventRow](tx.Gorm(ctx)).Where("call_id = ? AND fitted AND kind IN ?", callID,
		[]EventKind{LegsJoined, LegsParted}).Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the line's changes: %w", err)
	}
	marks := make([]mark, len(rows))
	for i, r := range rows {
		marks[i] = mark{joined: r.Kind == LegsJoined, at: r.At}
	}
	return marks, nil
}

var insertEventSQL = postgres.SQL(postgres.Hot, `INSERT INTO call_events (call_id, event_id, kind, at, fitted, role)
	VALUES ($1, $2, $3, $4, $5, nullif($6, ''))`)

func insertEvent(ctx context.Context, tx postgres.Tx, e Event, fits bool) error {
	_, err := tx.Later(postgres.Called("insert call event")).Exec(ctx, insertEventSQL, e.CallID, e.ID, e.Kind, e.At,
		fits, e.about())
	return err
}

var hearSQL = postgres.SQL(postgres.Batch, `WITH call AS (UPDATE calls SET last_event_at = greatest(last_event_at, $3) WHERE id = $1 RETURNING id, lawyer_id, started_at),
	heard AS (INSERT INTO call_events (call_id, event_id, kind, at, fitted, role)
		SELECT id, $2, $4, greatest(least($5::timestamptz, $3), started_at), false, nullif($6, '') FROM call
		ON CONFLICT (call_id, event_id) DO NOTHING)
	SELECT lawyer_id FROM call`)

// hear stores an event that does not change the call, and updates the time of the call's last event. It returns
// [ErrNoCall] for an unknown call.
func hear(ctx context.Context, tx postgres.Tx, e Event) (lawyerID string, err error) {
	lawyerID, found, err := postgres.One[string](ctx, tx, hearSQL, e.CallID, e.ID, tx.Now, e.Kind, e.At, e.about())
	switch {
	case err != nil:
		return "", fmt.Errorf("keep call event: %w", err)
	case !found:
		return "", ErrNoCall
	}
	return lawyerID, nil
}

// changing lists the columns that an event may change.
var changing = postgres.Updatable[callRow]()

var updateSQL = postgres.SQL(postgres.Hot, "UPDATE calls SET "+postgres.Assign(changing, 2)+" WHERE id = $1")

func update(ctx context.Context, tx postgres.Tx, c Call) error {
	r := toRow(c)
	values, err := postgres.Values(ctx, &r, changing...)
	if err != nil {
		return fmt.Errorf("write call: %w", err)
	}
	_, err = tx.Later(postgres.Called("update call")).Exec(ctx, updateSQL, append([]any{c.ID}, values...)...)
	return err
}

// missed returns a lawyer's last call since the given time with outcome LAWYER_NOT_REACHED, if there is one.
func missed(ctx context.Context, tx postgres.Tx, lawyerID string, since time.Time) (Call, bool, error) {
	return one(ctx, gorm.G[callRow](tx.Gorm(ctx)).Where("lawyer_id = ? AND outcome = ? AND ended_at >= ?", lawyerID,
		LawyerNotReached, since).
		Order("ended_at DESC"))
}

func attempts(ctx context.Context, tx postgres.Tx, consultationID string) (int, error) {
	n, err := gorm.G[callRow](tx.Gorm(ctx)).Where("consultation_id = ? AND outcome = ?", consultationID, NotReached).
		Count(ctx, "*")
	if err != nil {
		return 0, fmt.Errorf("count attempts: %w", err)
	}
	return int(n), nil
}

var insertCommandsSQL = postgres.SQL(postgres.Batch,
	`INSERT INTO call_commands (id, call_id, kind, args, due_at, trace_parent)
	SELECT o.id, $1, o.kind, o.args, o.due_at, nullif($2, '')
	FROM ROWS FROM (json_to_recordset(CAST($3 AS json)) AS (id text, kind text, args jsonb, due_at timestamptz)) WITH ORDINALITY AS o (id, kind, args, due_at, n) ORDER BY o.n`)

// insertCommands queues commands. The database numbers the rows of one statement in their order.
func insertCommands(ctx context.Context, tx postgres.Tx, callID string, orders []order) error {
	if len(orders) == 0 {
		return nil
	}
	type item struct {
		ID    string      `json:"id"`
		Kind  commandKind `json:"kind"`
		Args  commandArgs `json:"args"`
		DueAt time.Time   `json:"due_at"`
	}
	items := make([]item, len(orders))
	for i, o := range orders {
		items[i] = item{tx.NewID("cmd"), o.kind, o.args, tx.Now.Add(o.after)}
	}
	list, err := json.Marshal(items)
	if err != nil {
		return err
	}
	_, err = tx.Later(postgres.Called("insert commands")).Exec(ctx, insertCommandsSQL, callID, telemetry.Carry(ctx),
		string(list))
	return err
}

// redials selects the legs of a call that are scheduled to be placed again.
func redials(ctx context.Context, tx postgres.Tx, callID string) gorm.ChainInterface[commandRow] {
	return gorm.G[commandRow](tx.Gorm(ctx)).Where("call_id = ? AND done_at IS NULL AND kind = ? AND due_at > ?", callID,
		cmdPlaceLeg, tx.Now)
}

func redialWaits(ctx context.Context, tx postgres.Tx, callID string, role Role) (bool, error) {
	_, err := redials(ctx, tx, callID).Where("args->>'role' = ?", role).Select("id").Take(ctx)
	if err != nil && !postgres.IsNotFound(err) {
		return false, fmt.Errorf("look for a leg to be placed: %w", err)
	}
	return err == nil, nil
}

// dropRedials cancels scheduled legs after the line is restored.
func dropRedials(ctx context.Context, tx postgres.Tx, callID string) error {
	_, err := redials(ctx, tx.Later(postgres.Called("drop redials")), callID).Updates(ctx,
		commandRow{DoneAt: &tx.Now, LastError: "the line is restored"})
	return err
}

// redialNow makes a scheduled leg due now.
func redialNow(ctx context.Context, tx postgres.Tx, callID string) error {
	_, err := redials(ctx, tx.Later(postgres.Called("place the leg now")), callID).Update(ctx, "due_at", tx.Now)
	return err
}

// dropWaiting cancels the commands of an ended call. A claimed command stays, so that the hang-up behind it is carried
// out after it.
func dropWaiting(ctx context.Context, tx postgres.Tx, callID string) error {
	_, err := gorm.G[commandRow](tx.Later(postgres.Called("drop commands")).Gorm(ctx)).
		Where("call_id = ? AND done_at IS NULL AND kind <> ?", callID, cmdHangup).
		Where("claimed_until IS NULL OR claimed_until <= ?", tx.Now).Updates(ctx,
		commandRow{DoneAt: &tx.Now, LastError: "the call is over"})
	return err
}

var claimSQL = postgres.SQL(postgres.Claim, `WITH due AS MATERIALIZED (
		SELECT q.id FROM call_commands q WHERE q.done_at IS NULL AND q.due_at <= $1
			AND (q.claimed_until IS NULL OR q.claimed_until <= $1)
			AND NOT EXISTS (SELECT FROM call_commands e WHERE e.call_id = q.call_id AND e.done_at IS NULL AND e.position < q.position)
		ORDER BY q.due_at, q.position LIMIT $3 FOR UPDATE SKIP LOCKED)
	UPDATE call_commands c SET claimed_until = $2, attempts = c.attempts + 1
	FROM due, calls k WHERE c.id = due.id AND k.id = c.call_id
	RETURNING `+postgres.Columns[commandRow]("c")+
	`, k.consultation_id, k.lawyer_id, k.language, k.state = 'ENDED' AS ended`)

// claim claims the first open command of every call if it is due.
func claim(ctx context.Context, tx postgres.Tx) ([]command, error) {
	type claimed struct {
		Row            commandRow `gorm:"embedded"`
		ConsultationID string
		LawyerID       string
		Language       string
		Ended          bool
	}
	rows, err := postgres.Query[claimed](ctx, tx, claimSQL, tx.Now, tx.Now.Add(lease), batch)
	if err != nil {
		return nil, fmt.Errorf("claim commands: %w", err)
	}
	due := make([]command, len(rows))
	for i, r := range rows {
		due[i] = command{id: r.Row.ID, kind: r.Row.Kind, args: r.Row.Args, tries: r.Row.Attempts, callID: r.Row.CallID,
			consultationID: r.ConsultationID, lawyerID: r.LawyerID, language: r.Language, ended: r.Ended,
			traceParent: r.Row.TraceParent, late: tx.Now.Sub(r.Row.DueAt)}
	}
	return due, nil
}

var settleSQL = postgres.SQL(postgres.Batch,
	`UPDATE call_commands c SET claimed_until = NULL, done_at = CASE WHEN r.done THEN CAST($1 AS timestamptz) END,
		due_at = greatest(c.due_at, CAST($1 AS timestamptz) + make_interval(secs => r.after)), last_error = nullif(r.fault, '')
	FROM json_to_recordset(CAST($2 AS json)) AS r (id text, done boolean, fault text, after float8) WHERE c.id = r.id`)

func settle(ctx context.Context, tx postgres.Tx, list []settlement) error {
	results, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, settleSQL, tx.Now, string(results)); err != nil {
		return fmt.Errorf("settle commands: %w", err)
	}
	return nil
}

// claimSilentSQL counts the query to the provider as an event.
var claimSilentSQL = postgres.SQL(postgres.Claim, `WITH silent AS MATERIALIZED (
		SELECT id FROM calls WHERE state <> 'ENDED' AND last_event_at <= $2 ORDER BY last_event_at LIMIT $3 FOR UPDATE SKIP LOCKED)
	UPDATE calls SET last_event_at = $1 FROM silent WHERE calls.id = silent.id RETURNING calls.id`)

// claimSilent lists calls without an event for [Silence]. Each is queried once per [Silence], by one replica.
func claimSilent(ctx context.Context, tx postgres.Tx) ([]string, error) {
	ids, err := postgres.Query[string](ctx, tx, claimSilentSQL, tx.Now, tx.Now.Add(-Silence), batch)
	if err != nil {
		return nil, fmt.Errorf("list silent calls: %w", err)
	}
	return ids, nil
}
