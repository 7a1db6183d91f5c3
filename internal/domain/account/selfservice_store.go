package account

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"partnerd/internal/base/id"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/signin"
	"partnerd/internal/infra/vault"
)

const (
	kindSignUp    = "SIGN_UP"
	kindReset     = "RESET"
	kindEmail     = "EMAIL"      // sent to the new address
	kindUndoEmail = "UNDO_EMAIL" // sent to the old one
)

// linkRow is a row of client_links: a link that was sent by mail.
type linkRow struct {
	TokenHash id.Digest `gorm:"column:token_hash;primaryKey"`
	Kind      string    `gorm:"column:kind"`
	Email     string    `gorm:"column:email"`                         // where it was sent
	Name      string    `gorm:"column:name;serializer:zeronull"`      // of the client to be
	NextPath  string    `gorm:"column:next_path;serializer:zeronull"` // where to go after the sign-up
	ClientID  string    `gorm:"column:client_id;serializer:zeronull"` // of all kinds but SIGN_UP
	CreatedAt time.Time `gorm:"column:created_at;autoCreateTime:false"`
	ExpiresAt time.Time `gorm:"column:expires_at"`
}

// TableName implements [schema.Tabler].
func (linkRow) TableName() string { return "client_links" }

var links signin.Links[linkRow]

func (r linkRow) signUp() SignUp { return SignUp{Email: r.Email, Name: r.Name, Next: r.NextPath} }

func insertLink(ctx context.Context, tx postgres.Tx, r linkRow) error {
	r.CreatedAt = tx.Now
	if err := gorm.G[linkRow](tx.Gorm(ctx)).Create(ctx, &r); err != nil {
		return fmt.Errorf("insert link: %w", err)
	}
	return nil
}

// countLinks counts the links of a kind that were mailed to an address within the last hour.
func countLinks(ctx context.Context, tx postgres.Tx, kind, email string) (int64, error) {
	return links.Count(ctx, tx, "kind = ? AND lower(email) = lower(?)", kind, email)
}

// countLinksOf counts the links of a kind that were mailed for a client within the last hour.
func countLinksOf(ctx context.Context, tx postgres.Tx, kind, clientID string) (int64, error) {
	return links.Count(ctx, tx, "kind = ? AND client_id = ?", kind, clientID)
}

// openUndoLinks returns the client's links that give an earlier address back, the last to run out first.
func openUndoLinks(ctx context.Context, tx postgres.Tx, clientID string) ([]linkRow, error) {
	rows, err := gorm.G[linkRow](tx.Gorm(ctx)).
		Where("client_id = ? AND kind = ? AND expires_at > ?", clientID, kindUndoEmail, tx.Now).
		Order("expires_at DESC").Find(ctx)
	if err != nil {
		return nil, fmt.Errorf("list links to earlier addresses: %w", err)
	}
	return rows, nil
}

// endLinks ends the client's links of some kinds; links of the last hour stay in the count.
func endLinks(ctx context.Context, tx postgres.Tx, clientID string, kinds ...string) error {
	_, err := links.End(ctx, tx, "client_id = ? AND kind IN ?", clientID, kinds)
	return err
}

// endNewerLinks ends the client's links of a kind that were made after one.
func endNewerLinks(ctx context.Context, tx postgres.Tx, kind, clientID string, than time.Time) error {
	_, err := links.End(ctx, tx, "client_id = ? AND kind = ? AND created_at > ?", clientID, kind, than)
	return err
}

// endSignUps ends every other sign-up of an address.
func endSignUps(ctx context.Context, tx postgres.Tx, email string) error {
	_, err := links.End(ctx, tx, "kind = ? AND lower(email) = lower(?)", kindSignUp, email)
	return err
}

// codeRow is a row of client_phone_codes. Only the newest of a client counts.
type codeRow struct {
	ID          int64      `gorm:"column:id;primaryKey"` // made by the table
	ClientID    string     `gorm:"column:client_id"`
	PhoneSealed []byte     `gorm:"column:phone_sealed"` // by the client's key, as the next
	CodeSealed  []byte     `gorm:"column:code_sealed"`
	Tries       int        `gorm:"column:tries"`    // at most CodeTries
	EndedAt     *time.Time `gorm:"column:ended_at"` // used
	CreatedAt   time.Time  `gorm:"column:created_at;autoCreateTime:false"`
	ExpiresAt   time.Time  `gorm:"column:expires_at"`
}

// TableName implements [schema.Tabler].
func (codeRow) TableName() string { return "client_phone_codes" }

// codeCountRow is a row of phone_code_counts: how many codes were sent on a day, to one number and in all.
type codeCountRow struct {
	Day    time.Time `gorm:"column:day;primaryKey"`    // its beginning, UTC
	Number []byte    `gorm:"column:number;primaryKey"` // HMAC of the number; empty: of all numbers
	Sent   int       `gorm:"column:sent"`
}

// TableName implements [schema.Tabler].
func (codeCountRow) TableName() string { return "phone_code_counts" }

// openCode is a code that can be entered, with the key that opens it.
type openCode struct {
	ID          int64
	PhoneSealed []byte
	CodeSealed  []byte
	Tries       int
	KeySealed   []byte
}

// countCodes counts what was sent to the client within the last hour and the last 24.
func countCodes(ctx context.Context, tx postgres.Tx, clientID string) (hour, day int, err error) {
	var n struct{ Hour, Day int }
	err = gorm.G[codeRow](tx.Gorm(ctx)).
		Select("count(*) FILTER (WHERE created_at > ?) AS hour, count(*) AS day", tx.Now.Add(-time.Hour)).
		Where("client_id = ? AND created_at > ?", clientID, tx.Now.Add(-24*time.Hour)).Scan(ctx, &n)
	if err != nil {
		return 0, 0, fmt.Errorf("count codes: %w", err)
	}
	return n.Hour, n.Day, nil
}

func insertCode(ctx context.Context, tx postgres.Tx, r codeRow) error {
	r.CreatedAt = tx.Now
	if err := gorm.G[codeRow](tx.Gorm(ctx)).Create(ctx, &r); err != nil {
		return fmt.Errorf("insert code: %w", err)
	}
	return nil
}

// countCode adds one to what was sent to a number today, unless that is limit already.
func countCode(ctx context.Context, tx postgres.Tx, number []byte, limit int) error {
	more := clause.OnConflict{Columns: []clause.Column{{Name: "day"}, {Name: "number"}},
		DoUpdates: clause.Assignments(map[string]any{"sent": gorm.Expr("phone_code_counts.sent + 1")}),
		Where:     clause.Where{Exprs: []clause.Expression{gorm.Expr("phone_code_counts.sent < ?", limit)}}}
	counted := gorm.WithResult()
	err := gorm.G[codeCountRow](tx.Gorm(ctx), more, counted).Create(ctx,
		&codeCountRow{Day: tx.Now.Truncate(24 * time.Hour), Number: number, Sent: 1})
	if err != nil {
		return fmt.Errorf("count a code: %w", err)
	}
	if counted.RowsAffected == 0 {
		return ErrTooMany
	}
	return nil
}

// openCodes chooses the code that the client can enter.
func openCodes(ctx context.Context, tx postgres.Tx, clientID string) *gorm.DB {
	return tx.Gorm(ctx).Table("client_phone_codes").
		Where(`id = (SELECT max(id) FROM client_phone_codes WHERE client_id = ?)
		AND ended_at IS NULL AND tries < ? AND expires_at > ?`, clientID, CodeTries, tx.Now)
}

var openCodeColumns = "id, phone_sealed, code_sealed, tries, " + vault.Stored("client_phone_codes.client_id") +
	" AS key_sealed"

func currentCode(ctx context.Context, tx postgres.Tx, clientID string) (openCode, bool, error) {
	var list []openCode
	if err := openCodes(ctx, tx, clientID).Select(openCodeColumns).Find(&list).Error; err != nil {
		return openCode{}, false, fmt.Errorf("read code: %w", err)
	}
	return only(list)
}

// tryCode counts a try at the newest code and returns it, with the try counted.
func tryCode(ctx context.Context, tx postgres.Tx, clientID string) (openCode, bool, error) {
	var list []openCode
	err := openCodes(ctx, tx, clientID).Model(&list).
		Clauses(clause.Returning{Columns: []clause.Column{{Name: openCodeColumns, Raw: true}}}).
		Update("tries", gorm.Expr("tries + 1")).Error
	if err != nil {
		return openCode{}, false, fmt.Errorf("count a try at a code: %w", err)
	}
	return only(list)
}

func only(list []openCode) (openCode, bool, error) {
	if len(list) == 0 {
		return openCode{}, false, nil
	}
	return list[0], true, nil
}

func endCode(ctx context.Context, tx postgres.Tx, codeID int64) error {
	if _, err := gorm.G[codeRow](tx.Gorm(ctx)).Where("id = ?", codeID).Update(ctx, "ended_at", tx.Now); err != nil {
		return fmt.Errorf("end code: %w", err)
	}
	return nil
}

func endCodes(ctx context.Context, tx postgres.Tx, clientID string) error {
	if _, err := gorm.G[codeRow](tx.Gorm(ctx)).Where("client_id = ? AND ended_at IS NULL", clientID).
		Update(ctx, "ended_at", tx.Now); err != nil {
		return fmt.Errorf("end codes: %w", err)
	}
	return nil
}

func purge(ctx context.Context, tx postgres.Tx) (int, error) {
	n := 0
	for _, over := range []struct {
		model any
		where string
	}{
		{&linkRow{}, "expires_at < ?"},
		{&codeRow{}, "created_at < ?"},
		{&codeCountRow{}, "day < ?"},
		{&challengeRow{}, "expires_at < ?"},
		{&sessionRow{}, "expires_at < ?"},
	} {
		r := tx.Gorm(ctx).Where(over.where, tx.Now.Add(-24*time.Hour)).Delete(over.model)
		if r.Error != nil {
			return n, fmt.Errorf("purge: %w", r.Error)
		}
		n += int(r.RowsAffected)
	}
	return n, nil
}
