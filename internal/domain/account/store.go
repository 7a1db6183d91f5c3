package account

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/base/id"
	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/vault"
)

// clientRow is a row of clients.
type clientRow struct {
	ID              string     `gorm:"column:id;primaryKey"`
	Email           string     `gorm:"column:email"` // unique, ignoring case
	Name            string     `gorm:"column:name"`
	PasswordHash    string     `gorm:"column:password_hash"` // empty when erased
	PhoneSealed     []byte     `gorm:"column:phone_sealed"`  // sealed with the client's key
	PhoneVerifiedAt *time.Time `gorm:"column:phone_verified_at"`
	TimeZone        string     `gorm:"column:time_zone"` // IANA name
	Language        string     `gorm:"column:language;serializer:zeronull"`
	BrowserEpoch    int        `gorm:"column:browser_epoch"` // marks of browsers with an earlier epoch are void
	CreatedAt       time.Time  `gorm:"column:created_at;autoCreateTime:false"`
	UpdatedAt       time.Time  `gorm:"column:updated_at;autoUpdateTime:false"`
	DisabledAt      *time.Time `gorm:"column:disabled_at"` // set when erased
	ErasedAt        *time.Time `gorm:"column:erased_at"`
}

// TableName implements [schema.Tabler].
func (clientRow) TableName() string { return "clients" }

func fromRow(r clientRow) Client {
	return Client{ID: r.ID, Email: r.Email, Name: r.Name, PhoneVerified: r.PhoneVerifiedAt != nil,
		Disabled: r.DisabledAt != nil, Erased: r.ErasedAt != nil, CreatedAt: r.CreatedAt, TimeZone: r.TimeZone,
		Language: r.Language, browserEpoch: r.BrowserEpoch}
}

// insertClient leaves the time zone to the column's default and reads it back.
func insertClient(ctx context.Context, tx postgres.Tx, r *clientRow) error {
	zone := clause.Returning{Columns: []clause.Column{{Name: "time_zone"}}}
	if err := gorm.G[clientRow](tx.Gorm(ctx), zone).Omit("time_zone").Create(ctx, r); err != nil {
		return fmt.Errorf("insert client: %w", err)
	}
	return nil
}

var clientByIDSQL = postgres.SQL(postgres.Hot,
	"SELECT "+postgres.Columns[clientRow]("c")+" FROM clients c WHERE c.id = $1")

func clientByID(ctx context.Context, tx postgres.Tx, clientID string) (r clientRow, found bool, err error) {
	if r, found, err = postgres.One[clientRow](ctx, tx, clientByIDSQL, clientID); err != nil {
		return clientRow{}, false, fmt.Errorf("read client: %w", err)
	}
	return r, found, nil
}

// clientForUpdate locks the row against every change, but not against new rows that refer to it.
func clientForUpdate(ctx context.Context, tx postgres.Tx, clientID string) (clientRow, bool, error) {
	return oneClient(gorm.G[clientRow](tx.Gorm(ctx), postgres.ForNoKeyUpdate).Where("id = ?", clientID).Take(ctx))
}

func clientByEmail(ctx context.Context, tx postgres.Tx, email string) (clientRow, bool, error) {
	return oneClient(gorm.G[clientRow](tx.Gorm(ctx)).Where("lower(email) = lower(?)", email).Take(ctx))
}

func clientByEmailForUpdate(ctx context.Context, tx postgres.Tx, email string) (clientRow, bool, error) {
	return oneClient(gorm.G[clientRow](tx.Gorm(ctx), postgres.ForNoKeyUpdate).Where("lower(email) = lower(?)", email).
		Take(ctx))
}

func clientBySession(ctx context.Context, tx postgres.Tx, token id.Digest) (r clientRow, found bool, err error) {
	err = tx.Gorm(ctx).Table("browser_sessions b").Joins("JOIN clients c ON c.id = b.client_id").
		Select(postgres.Columns[clientRow]("c")).
		Where("b.token_hash = ? AND b.expires_at > ? AND c.disabled_at IS NULL", token, tx.Now).Take(&r).Error
	return oneClient(r, err)
}

func oneClient(r clientRow, err error) (clientRow, bool, error) {
	if postgres.IsNotFound(err) {
		return clientRow{}, false, nil
	}
	if err != nil {
		return clientRow{}, false, fmt.Errorf("read client: %w", err)
	}
	return r, true, nil
}

// phone is a client's number, which may be absent, and the sealed key that opens it.
type phone struct {
	Sealed     []byte
	VerifiedAt *time.Time
	KeySealed  []byte
}

// phoneSQL runs for every new consultation.
var phoneSQL = postgres.SQL(postgres.Hot,
	`SELECT c.phone_sealed, c.phone_verified_at, `+vault.Stored("c.id")+` FROM clients c WHERE c.id = $1`)

// phoneOf returns [problem.ErrNotFound] for an unknown client.
func phoneOf(ctx context.Context, tx postgres.Tx, clientID string) (p phone, err error) {
	err = tx.QueryRow(ctx, phoneSQL, clientID).Scan(&p.Sealed, &p.VerifiedAt, &p.KeySealed)
	if postgres.IsNotFound(err) {
		return phone{}, problem.ErrNotFound
	}
	if err != nil {
		return phone{}, fmt.Errorf("read phone of client: %w", err)
	}
	return p, nil
}

func updatePhone(ctx context.Context, tx postgres.Tx, r clientRow) error {
	_, err := gorm.G[clientRow](tx.Gorm(ctx)).Where("id = ?", r.ID).
		Select("phone_sealed", "phone_verified_at", "updated_at").
		Updates(ctx, clientRow{PhoneSealed: r.PhoneSealed, PhoneVerifiedAt: r.PhoneVerifiedAt, UpdatedAt: tx.Now})
	if err != nil {
		return fmt.Errorf("update phone of client: %w", err)
	}
	return nil
}

func updatePassword(ctx context.Context, tx postgres.Tx, clientID, hash string, epoch int) error {
	_, err := gorm.G[clientRow](tx.Gorm(ctx)).Where("id = ?", clientID).Updates(ctx,
		clientRow{PasswordHash: hash, BrowserEpoch: epoch, UpdatedAt: tx.Now})
	if err != nil {
		return fmt.Errorf("update password: %w", err)
	}
	return nil
}

// updateEmail returns [ErrEmailTaken] if another client has the address; the transaction is then aborted.
func updateEmail(ctx context.Context, tx postgres.Tx, c Client) error {
	_, err := gorm.G[clientRow](tx.Gorm(ctx)).Where("id = ?", c.ID).Updates(ctx,
		clientRow{Email: c.Email, UpdatedAt: tx.Now})
	if postgres.IsUnique(err, "clients_email_key") {
		return ErrEmailTaken
	}
	if err != nil {
		return fmt.Errorf("update e-mail address of client: %w", err)
	}
	return nil
}

// timeZones returns the time zones by ID of those clients that exist.
func timeZones(ctx context.Context, tx postgres.Tx, clientIDs []string) (map[string]string, error) {
	if len(clientIDs) == 0 {
		return nil, nil
	}
	rows, err := gorm.G[clientRow](tx.Gorm(ctx)).Select("id", "time_zone").Where("id IN ?", clientIDs).Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("read time zones of clients: %w", err)
	}
	names := make(map[string]string, len(rows))
	for _, r := range rows {
		names[r.ID] = r.TimeZone
	}
	return names, nil
}

func updateTimeZone(ctx context.Context, tx postgres.Tx, clientID, name string) error {
	n, err := gorm.G[clientRow](tx.Gorm(ctx)).Where("id = ?", clientID).Updates(ctx,
		clientRow{TimeZone: name, UpdatedAt: tx.Now})
	if err != nil {
		return fmt.Errorf("update time zone of client: %w", err)
	}
	if n == 0 {
		return problem.ErrNotFound
	}
	return nil
}

// updateLanguage sets the language of messages. If learn is set, a known language stays.
func updateLanguage(ctx context.Context, tx postgres.Tx, clientID, lang string, learn bool) error {
	q := gorm.G[clientRow](tx.Gorm(ctx)).Where("id = ? AND erased_at IS NULL AND language IS DISTINCT FROM ?",
		clientID, lang)
	if learn {
		q = q.Where("language IS NULL")
	}
	if _, err := q.Updates(ctx, clientRow{Language: lang, UpdatedAt: tx.Now}); err != nil {
		return fmt.Errorf("update language of client: %w", err)
	}
	return nil
}

func updateDisabled(ctx context.Context, tx postgres.Tx, clientID string, disabled bool,
	epoch int,
) (found bool, err error) {
	r := clientRow{BrowserEpoch: epoch, UpdatedAt: tx.Now}
	if disabled {
		r.DisabledAt = &tx.Now
	}
	n, err := gorm.G[clientRow](tx.Gorm(ctx)).Where("id = ? AND erased_at IS NULL", clientID).
		Select("disabled_at", "browser_epoch", "updated_at").Updates(ctx, r)
	if err != nil {
		return false, fmt.Errorf("update client: %w", err)
	}
	return n == 1, nil
}

// lockClient locks a client who is not disabled, also against new rows that refer to it.
func lockClient(ctx context.Context, tx postgres.Tx, clientID string) (clientRow, error) {
	r, err := gorm.G[clientRow](tx.Gorm(ctx), postgres.ForUpdate).Where("id = ? AND disabled_at IS NULL", clientID).
		Take(ctx)
	if postgres.IsNotFound(err) {
		return clientRow{}, problem.ErrNotFound
	}
	if err != nil {
		return clientRow{}, fmt.Errorf("lock client: %w", err)
	}
	return r, nil
}
