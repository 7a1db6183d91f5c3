package staff

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/base/id"
	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/signin"
)

// staffRow is a row of staff.
type staffRow struct {
	ID           string               `gorm:"column:id;primaryKey"`
	Kind         Kind                 `gorm:"column:kind"`
	LawyerID     string               `gorm:"column:lawyer_id;serializer:zeronull"`
	Email        string               `gorm:"column:email"` // unique, ignoring case
	Name         string               `gorm:"column:name"`
	Language     string               `gorm:"column:language"`
	Roles        postgres.Array[Role] `gorm:"column:roles"`
	PasswordHash string               `gorm:"column:password_hash"` // empty until the invitation is used
	// secret of the codes; nil until one is confirmed
	TOTPSealed []byte `gorm:"column:totp_sealed"`
	// the last 30 s period whose code was accepted; codes of it and of earlier periods are rejected
	TOTPStep        int64      `gorm:"column:totp_step"`
	TOTPConfirmedAt *time.Time `gorm:"column:totp_confirmed_at"`
	CreatedAt       time.Time  `gorm:"column:created_at;autoCreateTime:false"`
	UpdatedAt       time.Time  `gorm:"column:updated_at;autoUpdateTime:false"`
	DisabledAt      *time.Time `gorm:"column:disabled_at"`
}

// TableName implements [schema.Tabler].
func (staffRow) TableName() string { return "staff" }

func (r staffRow) person() Person {
	p := Person{ID: r.ID, Kind: r.Kind, LawyerID: r.LawyerID, Email: r.Email, Name: r.Name, Language: r.Language,
		Roles: r.Roles, State: Active, SecondFactor: r.TOTPConfirmedAt != nil, CreatedAt: r.CreatedAt}
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
		return problem.Refuse(ErrInvalid, ruleInvited.At("email"))
	}
	if err != nil {
		return fmt.Errorf("insert person: %w", err)
	}
	return nil
}

// person returns the one row selected by where, or [ErrNotFound].
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

// lockPerson locks a person. Call it before changing anything else of the person.
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

// lockAdmins locks and lists the ACTIVE admins, in a fixed order.
func lockAdmins(ctx context.Context, tx postgres.Tx) ([]staffRow, error) {
	rows, err := gorm.G[staffRow](tx.Gorm(ctx), locked...).
		Where("kind = ? AND ? = ANY (roles) AND disabled_at IS NULL AND password_hash <> ''", Operator, Admin).
		Order("id").Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("lock admins: %w", err)
	}
	return rows, nil
}

// Revoking a right locks these rows too. An action for admins only locks all admins in the order of [lockAdmins], which
// it may call next.
var (
	maySQL = postgres.SQL(postgres.Atomic,
		`SELECT 1 FROM staff WHERE id = $1 AND kind = 'OPERATOR' AND disabled_at IS NULL
		AND ($2::text[] = '{}' OR roles && $2 OR $3 = ANY (roles)) FOR NO KEY UPDATE`)
	mayAsAdminSQL = postgres.SQL(postgres.Atomic, `SELECT 1 WHERE $1 = ANY (ARRAY (SELECT id FROM staff
		WHERE kind = 'OPERATOR' AND $2 = ANY (roles) AND disabled_at IS NULL ORDER BY id FOR NO KEY UPDATE))`)
)

// May is the premise of a person's action: an enabled operator with one of the roles, or any role if roles is empty. An
// admin has all permissions. Otherwise the action fails with refusal.
func May(staffID string, roles []Role, refusal error) postgres.Premise {
	if len(roles) == 1 && roles[0] == Admin {
		return postgres.Premise{Statement: mayAsAdminSQL, Args: []any{staffID, Admin}, Otherwise: refusal}
	}
	of := postgres.Array[Role](roles)
	if of == nil {
		of = postgres.Array[Role]{}
	}
	return postgres.Premise{Statement: maySQL, Args: []any{staffID, of, Admin}, Otherwise: refusal}
}

// update writes the named columns of a person.
func update(ctx context.Context, tx postgres.Tx, staffID string, r staffRow, columns ...any) error {
	r.UpdatedAt = tx.Now
	if _, err := gorm.G[staffRow](tx.Gorm(ctx)).Where("id = ?", staffID).Select("updated_at", columns...).
		Updates(ctx, r); err != nil {
		return fmt.Errorf("update person: %w", err)
	}
	return nil
}

// linkRow is a row of staff_links: an emailed link.
type linkRow struct {
	TokenHash id.Digest `gorm:"column:token_hash;primaryKey"`
	Kind      string    `gorm:"column:kind"`
	StaffID   string    `gorm:"column:staff_id"`
	// sender of an invitation, as the audit log names them; empty: a reset
	SentBy    string    `gorm:"column:sent_by;serializer:zeronull"`
	CreatedAt time.Time `gorm:"column:created_at;autoCreateTime:false"`
	ExpiresAt time.Time `gorm:"column:expires_at"`
}

// TableName implements [schema.Tabler].
func (linkRow) TableName() string { return "staff_links" }

var links signin.Links[linkRow]

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

func invitationLasts(ctx context.Context, tx postgres.Tx, staffID string) (bool, error) {
	n, err := gorm.G[linkRow](tx.Gorm(ctx)).Where("staff_id = ? AND kind = ? AND expires_at > ?", staffID,
		kindInvite, tx.Now).Count(ctx, "*")
	if err != nil {
		return false, fmt.Errorf("look for an invitation: %w", err)
	}
	return n > 0, nil
}

// endLinks ends all links emailed to a person. Links of the last hour still count towards the limit.
func endLinks(ctx context.Context, tx postgres.Tx, staffID string) error {
	_, err := links.End(ctx, tx, "staff_id = ?", staffID)
	return err
}

// endSent ends the invitations that sentBy sent to people of the given kinds.
func endSent(ctx context.Context, tx postgres.Tx, sentBy string, kinds []Kind) (int, error) {
	return links.End(ctx, tx, "sent_by = ? AND kind = ? AND staff_id IN (?)", sentBy, kindInvite,
		tx.Gorm(ctx).Model(&staffRow{}).Select("id").Where("kind IN ?", kinds))
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

func insertRecoveryCode(ctx context.Context, tx postgres.Tx, staffID string, code id.Digest) error {
	if err := gorm.G[recoveryRow](tx.Gorm(ctx)).Create(ctx, &recoveryRow{CodeHash: code, StaffID: staffID,
		CreatedAt: tx.Now}); err != nil {
		return fmt.Errorf("insert recovery code: %w", err)
	}
	return nil
}

func countRecoveryCodes(ctx context.Context, tx postgres.Tx, staffID string) (int64, error) {
	n, err := gorm.G[recoveryRow](tx.Gorm(ctx)).Where("staff_id = ? AND used_at IS NULL", staffID).Count(ctx, "*")
	if err != nil {
		return 0, fmt.Errorf("count recovery codes: %w", err)
	}
	return n, nil
}

// useRecoveryCode uses a code and reports whether it was unused.
func useRecoveryCode(ctx context.Context, tx postgres.Tx, staffID string, code id.Digest) (bool, error) {
	n, err := gorm.G[recoveryRow](tx.Gorm(ctx)).Where("code_hash = ? AND staff_id = ? AND used_at IS NULL",
		code, staffID).Update(ctx, "used_at", tx.Now)
	if err != nil {
		return false, fmt.Errorf("use recovery code: %w", err)
	}
	return n == 1, nil
}

// purge deletes rows that expired more than a day ago.
func purge(ctx context.Context, tx postgres.Tx) (int, error) {
	n := 0
	for _, model := range []any{&linkRow{}, &challengeRow{}, &sessionRow{}} {
		r := tx.Gorm(ctx).Where("expires_at < ?", tx.Now.Add(-24*time.Hour)).Delete(model)
		if r.Error != nil {
			return n, fmt.Errorf("purge: %w", r.Error)
		}
		n += int(r.RowsAffected)
	}
	return n, nil
}
