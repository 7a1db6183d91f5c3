package lawyer

import (
	"context"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
)

// lawyerRow is a row of lawyers.
type lawyerRow struct {
	ID           string     `gorm:"column:id;primaryKey"`
	Email        string     `gorm:"column:email"`
	Name         string     `gorm:"column:name"`
	PasswordHash string     `gorm:"column:password_hash"`
	PhoneSealed  []byte     `gorm:"column:phone_sealed"`
	State        State      `gorm:"column:state"`
	IdleSince    *time.Time `gorm:"column:idle_since"`  // start of the current or last wait for work
	LeaseEpoch   int64      `gorm:"column:lease_epoch"` // of the current connection
	Simulated    bool       `gorm:"column:simulated"`
	SuspendedAt  *time.Time `gorm:"column:suspended_at"`
	PauseNext    bool       `gorm:"column:pause_next"` // AWAY instead of AVAILABLE next time
	LeftReason   Leaving    `gorm:"column:left_reason;serializer:zeronull"`
	LeftAt       *time.Time `gorm:"column:left_at"`
	TimeZone     string     `gorm:"column:time_zone"` // IANA name
	OnCall       bool       `gorm:"column:on_call"`

	Bar       string `gorm:"column:bar;serializer:zeronull"`
	BarNumber string `gorm:"column:bar_number;serializer:zeronull"`
	// key of bar and number, unique; empty until first recorded
	BarKey          string     `gorm:"column:bar_key;serializer:zeronull"`
	BarCheckedUntil *time.Time `gorm:"column:bar_checked_until"`

	// in a sandbox, the only application that the lawyer serves
	ApplicationID string `gorm:"column:application_id;serializer:zeronull"`

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
	IdleSince  *time.Time `gorm:"column:idle_since"` // the lawyer's idle_since while AVAILABLE
}

// TableName implements [schema.Tabler].
func (pairRow) TableName() string { return "lawyer_pairs" }

// seenRow is a lawyer, without secrets, with the last heartbeat.
type seenRow struct {
	Row         lawyerRow `gorm:"embedded"`
	HeartbeatAt *time.Time
}

var columns = postgres.Columns[lawyerRow]("l", "password_hash", "phone_sealed", "time_zone", "on_call",
	"bar", "bar_number", "bar_key", "bar_checked_until")

func fromRow(r seenRow) Lawyer {
	l := Lawyer{ID: r.Row.ID, Email: r.Row.Email, Name: r.Row.Name, State: r.Row.State, Simulated: r.Row.Simulated,
		ApplicationID: r.Row.ApplicationID, Suspended: r.Row.SuspendedAt != nil, Pausing: r.Row.PauseNext,
		LeaseEpoch: r.Row.LeaseEpoch, CreatedAt: r.Row.CreatedAt}
	if r.Row.LeftAt != nil {
		l.Left = Left{r.Row.LeftReason, *r.Row.LeftAt}
	}
	if r.Row.IdleSince != nil {
		l.IdleSince = *r.Row.IdleSince
	}
	if r.HeartbeatAt != nil && r.HeartbeatAt.After(endedHeartbeat) {
		l.HeartbeatAt = *r.HeartbeatAt
	}
	return l
}

func insert(ctx context.Context, tx postgres.Tx, l Lawyer, hash string, phone []byte) error {
	err := gorm.G[lawyerRow](tx.Gorm(ctx)).Create(ctx, &lawyerRow{ID: l.ID, Email: l.Email, Name: l.Name,
		PasswordHash: hash, PhoneSealed: phone, State: l.State, Simulated: l.Simulated, ApplicationID: l.ApplicationID,
		TimeZone: DefaultTimeZone, CreatedAt: tx.Now, UpdatedAt: tx.Now})
	if postgres.IsUnique(err, "lawyers_email_key") {
		return ErrEmailTaken
	}
	if err != nil {
		return fmt.Errorf("insert lawyer: %w", err)
	}
	return nil
}

var knownCodesSQL = postgres.SQL(postgres.Report,
	`SELECT 'competence ' || code FROM competences WHERE code = ANY ($1) AND retired_at IS NULL
	UNION ALL SELECT 'language ' || code FROM languages WHERE code = ANY ($2) AND retired_at IS NULL`)

// checkCodes names the unknown codes; the foreign keys of lawyer_pairs do not.
func checkCodes(ctx context.Context, tx postgres.Tx, competences, languages []string) error {
	known, err := postgres.Query[string](ctx, tx, knownCodesSQL, competences, languages)
	if err != nil {
		return fmt.Errorf("read the catalog: %w", err)
	}
	var unknown []problem.Issue
	note := func(kind, path string, codes []string) {
		for _, c := range codes {
			if !slices.Contains(known, kind+" "+c) {
				unknown = append(unknown, problem.RuleCatalog.At(path, problem.Shown(c)))
			}
		}
	}
	note("competence", "competences", competences)
	note("language", "languages", languages)
	if unknown != nil {
		return problem.Refuse(ErrUnknownCode, unknown...)
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

// replacePairs replaces the lawyer's pairs and, if the lawyer is AVAILABLE, enters them in the queues of new pairs.
func replacePairs(ctx context.Context, tx postgres.Tx, l Lawyer, to Skills) error {
	if _, err := gorm.G[pairRow](tx.Gorm(ctx)).
		Where("lawyer_id = ? AND NOT (competence = ANY (?) AND language = ANY (?))", l.ID,
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
	if err := gorm.G[pairRow](tx.Gorm(ctx), clause.OnConflict{DoNothing: true}).
		CreateInBatches(ctx, &pairs, len(pairs)); err != nil {
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
	err := tx.Gorm(ctx).Table("lawyers l").Joins("LEFT JOIN lawyer_presence h ON h.lawyer_id = l.id").
		Select(columns+", h.heartbeat_at").
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

func simulated(ctx context.Context, tx postgres.Tx) (ids []string, err error) {
	err = gorm.G[lawyerRow](tx.Gorm(ctx)).Select("id").Where("simulated AND suspended_at IS NULL AND state <> 'AWAY'").
		Order("id").Scan(ctx, &ids)
	if err != nil {
		return nil, fmt.Errorf("list simulated lawyers: %w", err)
	}
	return ids, nil
}

func sameNumber(ctx context.Context, tx postgres.Tx,
	lawyerID, number string,
) (name, bar string, found bool, err error) {
	l, err := gorm.G[lawyerRow](tx.Gorm(ctx)).Select("name", "bar").
		Where("bar_number = ? AND id <> ?", number, lawyerID).Order("id").Take(ctx)
	if postgres.IsNotFound(err) {
		return "", "", false, nil
	}
	if err != nil {
		return "", "", false, fmt.Errorf("look for the number at the bar: %w", err)
	}
	return l.Name, l.Bar, true, nil
}

func registration(ctx context.Context, tx postgres.Tx, lawyerID string) (r Registration, err error) {
	l, err := gorm.G[lawyerRow](tx.Gorm(ctx)).Select("bar", "bar_number", "bar_checked_until").
		Where("id = ?", lawyerID).Take(ctx)
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
