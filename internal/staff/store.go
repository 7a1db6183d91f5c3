package staff

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/id"
	"partnerd/internal/postgres"
)

// staffRow is a row of staff.
type staffRow struct {
	ID              string               `gorm:"column:id;primaryKey"`
	Kind            Kind                 `gorm:"column:kind"`
	LawyerID        string               `gorm:"column:lawyer_id;serializer:zeronull"`
	Email           string               `gorm:"column:email"` // of one person only, whatever the case
	Name            string               `gorm:"column:name"`
	Language        string               `gorm:"column:language"`
	Roles           postgres.Array[Role] `gorm:"column:roles"`
	PasswordHash    string               `gorm:"column:password_hash"` // empty until the invitation is used
	TOTPSealed      []byte               `gorm:"column:totp_sealed"`   // secret of the codes
	TOTPStep        int64                `gorm:"column:totp_step"`     // the last period of 30 s whose code was accepted, or that came before
	TOTPConfirmedAt *time.Time           `gorm:"column:totp_confirmed_at"`
	CreatedAt       time.Time            `gorm:"column:created_at;autoCreateTime:false"`
	UpdatedAt       time.Time            `gorm:"column:updated_at;autoUpdateTime:false"`
	DisabledAt      *time.Time           `gorm:"column:disabled_at"`
}

// TableName implements [schema.Tabler].
func (staffRow) TableName() string { return "staff" }

func (r staffRow) person() Person {
	p := Person{ID: r.ID, Kind: r.Kind, LawyerID: r.LawyerID, Email: r.Email, Name: r.Name, Language: r.Language, Roles: r.Roles, State: Active,
		SecondFactor: r.TOTPConfirmedAt != nil, CreatedAt: r.CreatedAt}
	switch {
	case r.DisabledAt != nil:
		p.State = Disabled
	case r.PasswordHash == "":
		p.State = Invited
	}
	return p
}

func insertPerson(ctx context.Context, tx postgres.Tx, r staffRow) error {
	err := gorm.G[staffRow](tx.Gorm(ctx)).Create(ctx, &r)
	if postgres.IsUnique(err, "staff_email_key") {
		return ErrEmailTaken
	}
	if postgres.IsUnique(err, "staff_lawyer_id_key") {
		return fmt.Errorf("%w: the lawyer is invited already", ErrInvalid)
	}
	if err != nil {
		return fmt.Errorf("insert person: %w", err)
	}
	return nil
}

// person returns the one row that where chooses, or [ErrNotFound].
func person(ctx context.Context, tx postgres.Tx, lock []clause.Expression, where string, arg any) (staffRow, error) {
	r, err := gorm.G[staffRow](tx.Gorm(ctx), lock...).Where(where, arg).Take(ctx)
	if postgres.IsNotFound(err) {
		return staffRow{}, ErrNotFound
	}
	if err != nil {
		return staffRow{}, fmt.Errorf("read person: %w", err)
	}
	return r, nil
}

var locked = []clause.Expression{postgres.ForNoKeyUpdate}

func personByID(ctx context.Context, tx postgres.Tx, staffID string) (staffRow, error) {
	return person(ctx, tx, nil, "id = ?", staffID)
}

// lockPerson comes before everything else that is changed of a person.
func lockPerson(ctx context.Context, tx postgres.Tx, staffID string) (staffRow, error) {
	return person(ctx, tx, locked, "id = ?", staffID)
}

func personByEmail(ctx context.Context, tx postgres.Tx, email string) (staffRow, error) {
	return person(ctx, tx, nil, "lower(email) = lower(?)", email)
}

func personByLawyer(ctx context.Context, tx postgres.Tx, lawyerID string) (staffRow, error) {
	return person(ctx, tx, nil, "lawyer_id = ?", lawyerID)
}

func people(ctx context.Context, tx postgres.Tx, kind Kind) ([]staffRow, error) {
	rows, err := gorm.G[staffRow](tx.Gorm(ctx)).Where("kind = ?", kind).Order("created_at, id").Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("list people: %w", err)
	}
	return rows, nil
}

// update writes the named columns of a person.
func update(ctx context.Context, tx postgres.Tx, staffID string, r staffRow, columns ...any) error {
	r.UpdatedAt = tx.Now
	if _, err := gorm.G[staffRow](tx.Gorm(ctx)).Where("id = ?", staffID).Select("updated_at", columns...).Updates(ctx, r); err != nil {
		return fmt.Errorf("update person: %w", err)
	}
	return nil
}

// linkRow is a row of staff_links: a link that was sent by mail.
type linkRow struct {
	TokenHash id.Digest `gorm:"column:token_hash;primaryKey"`
	Kind      string    `gorm:"column:kind"`
	StaffID   string    `gorm:"column:staff_id"`
	CreatedAt time.Time `gorm:"column:created_at;autoCreateTime:false"`
	ExpiresAt time.Time `gorm:"column:expires_at"`
}

// TableName implements [schema.Tabler].
func (linkRow) TableName() string { return "staff_links" }

const (
	kindInvite = "INVITE"
	kindReset  = "RESET"
)

func insertLink(ctx context.Context, tx postgres.Tx, r linkRow) error {
	r.CreatedAt = tx.Now
	if err := gorm.G[linkRow](tx.Gorm(ctx)).Create(ctx, &r); err != nil {
		return fmt.Errorf("insert link: %w", err)
	}
	return nil
}

// endLinks ends what was mailed to a person; links of the last hour stay in the count.
func endLinks(ctx context.Context, tx postgres.Tx, staffID string) error {
	_, err := gorm.G[linkRow](tx.Gorm(ctx)).Where("staff_id = ? AND expires_at > ?", staffID, tx.Now).Update(ctx, "expires_at", tx.Now)
	if err != nil {
		return fmt.Errorf("end links: %w", err)
	}
	return nil
}

// recoveryRow is a row of staff_recovery_codes.
type recoveryRow struct {
	CodeHash  id.Digest  `gorm:"column:code_hash;primaryKey"`
	StaffID   string     `gorm:"column:staff_id"`
	CreatedAt time.Time  `gorm:"column:created_at;autoCreateTime:false"`
	UsedAt    *time.Time `gorm:"column:used_at"`
}

// TableName implements [schema.Tabler].
func (recoveryRow) TableName() string { return "staff_recovery_codes" }

func deleteRecoveryCodes(ctx context.Context, tx postgres.Tx, staffID string) error {
	if _, err := gorm.G[recoveryRow](tx.Gorm(ctx)).Where("staff_id = ?", staffID).Delete(ctx); err != nil {
		return fmt.Errorf("delete recovery codes: %w", err)
	}
	return nil
}
