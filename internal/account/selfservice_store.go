package account

import (
	"context"
	"fmt"
	"time"

	"partnerd/internal/id"
	"partnerd/internal/postgres"
	"partnerd/internal/problem"
	"partnerd/internal/vault"
)

const (
	kindSignUp    = "SIGN_UP"
	kindReset     = "RESET"
	kindEmail     = "EMAIL"      // sent to the new address
	kindUndoEmail = "UNDO_EMAIL" // sent to the old one
)

type linkRow struct {
	TokenHash id.Digest
	Kind      string
	Email     string
	Name      *string
	NextPath  *string
	ClientID  *string // of all kinds but SIGN_UP
	CreatedAt time.Time
	ExpiresAt time.Time
}

func (r linkRow) signUp() SignUp {
	s := SignUp{Email: r.Email}
	if r.Name != nil {
		s.Name = *r.Name
	}
	if r.NextPath != nil {
		s.Next = *r.NextPath
	}
	return s
}

func insertLink(ctx context.Context, tx postgres.Tx, r linkRow) error {
	err := tx.Gorm(ctx).Exec(`INSERT INTO client_links (token_hash, kind, email, name, next_path, client_id, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, r.TokenHash, r.Kind, r.Email, r.Name, r.NextPath, r.ClientID, tx.Now, r.ExpiresAt).Error
	if err != nil {
		return fmt.Errorf("insert link: %w", err)
	}
	return nil
}

// countLinks counts the links of a kind that were mailed to an address within the last hour.
func countLinks(ctx context.Context, tx postgres.Tx, kind, email string) (n int, err error) {
	err = tx.Gorm(ctx).Raw(`SELECT count(*) FROM client_links WHERE kind = ? AND lower(email) = lower(?) AND created_at > ?`,
		kind, email, tx.Now.Add(-time.Hour)).Row().Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count links: %w", err)
	}
	return n, nil
}

// countLinksOf counts the links of a kind that were mailed for a client within the last hour.
func countLinksOf(ctx context.Context, tx postgres.Tx, kind, clientID string) (n int, err error) {
	err = tx.Gorm(ctx).Raw(`SELECT count(*) FROM client_links WHERE kind = ? AND client_id = ? AND created_at > ?`,
		kind, clientID, tx.Now.Add(-time.Hour)).Row().Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count links of client: %w", err)
	}
	return n, nil
}

const linkColumns = `kind, email, name, next_path, client_id, created_at, expires_at`

func findLink(ctx context.Context, tx postgres.Tx, kind string, token id.Digest) (linkRow, error) {
	return oneLink(ctx, tx, `SELECT `+linkColumns+` FROM client_links WHERE token_hash = ? AND kind = ? AND expires_at > ?`, token, kind, tx.Now)
}

// useLink takes a link out of the table: of several at once, one gets it. The row stays for the count of the hour with
// a token that nobody has.
func useLink(ctx context.Context, tx postgres.Tx, kind string, token id.Digest) (linkRow, error) {
	return oneLink(ctx, tx, `UPDATE client_links SET token_hash = ?, expires_at = ? WHERE token_hash = ? AND kind = ? AND expires_at > ? RETURNING `+linkColumns,
		id.DigestOf(tx.NewSecret("lnk")), tx.Now, token, kind, tx.Now)
}

func oneLink(ctx context.Context, tx postgres.Tx, query string, args ...any) (r linkRow, err error) {
	err = tx.Gorm(ctx).Raw(query, args...).Row().Scan(&r.Kind, &r.Email, &r.Name, &r.NextPath, &r.ClientID, &r.CreatedAt, &r.ExpiresAt)
	if postgres.IsNotFound(err) {
		return linkRow{}, ErrBadLink
	}
	if err != nil {
		return linkRow{}, fmt.Errorf("read link: %w", err)
	}
	return r, nil
}

// endLinks ends the client's links of some kinds; links of the last hour stay in the count.
func endLinks(ctx context.Context, tx postgres.Tx, clientID string, kinds ...string) error {
	err := tx.Gorm(ctx).Exec(`UPDATE client_links SET expires_at = ? WHERE client_id = ? AND kind IN ? AND expires_at > ?`, tx.Now, clientID, kinds, tx.Now).Error
	if err != nil {
		return fmt.Errorf("end links: %w", err)
	}
	return nil
}

// endNewerLinks ends the client's links of a kind that were made after one.
func endNewerLinks(ctx context.Context, tx postgres.Tx, kind, clientID string, than time.Time) error {
	err := tx.Gorm(ctx).Exec(`UPDATE client_links SET expires_at = ? WHERE client_id = ? AND kind = ? AND created_at > ? AND expires_at > ?`,
		tx.Now, clientID, kind, than, tx.Now).Error
	if err != nil {
		return fmt.Errorf("end newer links: %w", err)
	}
	return nil
}

// endSignUps ends every other sign-up of an address.
func endSignUps(ctx context.Context, tx postgres.Tx, email string) error {
	err := tx.Gorm(ctx).Exec(`UPDATE client_links SET expires_at = ? WHERE kind = ? AND lower(email) = lower(?) AND expires_at > ?`,
		tx.Now, kindSignUp, email, tx.Now).Error
	if err != nil {
		return fmt.Errorf("end sign-ups: %w", err)
	}
	return nil
}

// updateEmail returns [ErrEmailTaken] when another client has the address; tx cannot go on then.
func updateEmail(ctx context.Context, tx postgres.Tx, c Client) error {
	err := tx.Gorm(ctx).Exec(`UPDATE clients SET email = ?, updated_at = ? WHERE id = ?`, c.Email, tx.Now, c.ID).Error
	if postgres.IsUnique(err, "clients_email_key") {
		return ErrEmailTaken
	}
	if err != nil {
		return fmt.Errorf("update e-mail address of client: %w", err)
	}
	return nil
}

func updatePassword(ctx context.Context, tx postgres.Tx, clientID, hash string) error {
	if err := tx.Gorm(ctx).Exec(`UPDATE clients SET password_hash = ?, updated_at = ? WHERE id = ?`, hash, tx.Now, clientID).Error; err != nil {
		return fmt.Errorf("update password: %w", err)
	}
	return nil
}

func lockClient(ctx context.Context, tx postgres.Tx, clientID string) error {
	var id string
	err := tx.Gorm(ctx).Raw(`SELECT id FROM clients WHERE id = ? AND disabled_at IS NULL FOR UPDATE`, clientID).Row().Scan(&id)
	if postgres.IsNotFound(err) {
		return problem.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("lock client: %w", err)
	}
	return nil
}

type codeRow struct {
	ID          int64
	ClientID    string
	PhoneSealed []byte
	CodeSealed  []byte
	Tries       int
	ExpiresAt   time.Time
	KeySealed   []byte
}

func countCodes(ctx context.Context, tx postgres.Tx, clientID string) (hour, day int, err error) {
	err = tx.Gorm(ctx).Raw(`SELECT count(*) FILTER (WHERE created_at > ?), count(*) FROM client_phone_codes WHERE client_id = ? AND created_at > ?`,
		tx.Now.Add(-time.Hour), clientID, tx.Now.Add(-24*time.Hour)).Row().Scan(&hour, &day)
	if err != nil {
		return 0, 0, fmt.Errorf("count codes: %w", err)
	}
	return hour, day, nil
}

func insertCode(ctx context.Context, tx postgres.Tx, r codeRow) error {
	err := tx.Gorm(ctx).Exec(`INSERT INTO client_phone_codes (client_id, phone_sealed, code_sealed, created_at, expires_at) VALUES (?, ?, ?, ?, ?)`,
		r.ClientID, r.PhoneSealed, r.CodeSealed, tx.Now, r.ExpiresAt).Error
	if err != nil {
		return fmt.Errorf("insert code: %w", err)
	}
	return nil
}

// countCode adds one to what was sent to a number today, unless that is limit already.
func countCode(ctx context.Context, tx postgres.Tx, number []byte, limit int) error {
	r := tx.Gorm(ctx).Exec(`INSERT INTO phone_code_counts (day, number, sent) VALUES (@day, @number, 1)
		ON CONFLICT (day, number) DO UPDATE SET sent = phone_code_counts.sent + 1 WHERE phone_code_counts.sent < @limit`,
		map[string]any{"day": tx.Now.Format(time.DateOnly), "number": number, "limit": limit})
	if r.Error != nil {
		return fmt.Errorf("count a code: %w", r.Error)
	}
	if r.RowsAffected == 0 {
		return ErrTooMany
	}
	return nil
}

var codeColumns = `id, phone_sealed, code_sealed, tries, ` + vault.Stored("client_phone_codes.client_id")

const (
	newestCode = `(SELECT max(id) FROM client_phone_codes WHERE client_id = ?)`
	codeIsOpen = `ended_at IS NULL AND tries < 5 AND expires_at > ?`
)

func currentCode(ctx context.Context, tx postgres.Tx, clientID string) (codeRow, bool, error) {
	return oneCode(ctx, tx, `SELECT `+codeColumns+` FROM client_phone_codes WHERE id = `+newestCode+` AND `+codeIsOpen, clientID, tx.Now)
}

// tryCode counts a try at the newest code and returns it, with the try counted.
func tryCode(ctx context.Context, tx postgres.Tx, clientID string) (codeRow, bool, error) {
	return oneCode(ctx, tx, `UPDATE client_phone_codes SET tries = tries + 1 WHERE id = `+newestCode+` AND `+codeIsOpen+` RETURNING `+codeColumns,
		clientID, tx.Now)
}

func oneCode(ctx context.Context, tx postgres.Tx, query string, args ...any) (r codeRow, found bool, err error) {
	err = tx.Gorm(ctx).Raw(query, args...).Row().Scan(&r.ID, &r.PhoneSealed, &r.CodeSealed, &r.Tries, &r.KeySealed)
	if postgres.IsNotFound(err) {
		return codeRow{}, false, nil
	}
	if err != nil {
		return codeRow{}, false, fmt.Errorf("read code: %w", err)
	}
	return r, true, nil
}

func endCode(ctx context.Context, tx postgres.Tx, codeID int64) error {
	if err := tx.Gorm(ctx).Exec(`UPDATE client_phone_codes SET ended_at = ? WHERE id = ?`, tx.Now, codeID).Error; err != nil {
		return fmt.Errorf("end code: %w", err)
	}
	return nil
}

func purge(ctx context.Context, tx postgres.Tx) (int, error) {
	n := 0
	for _, statement := range []string{
		`DELETE FROM client_links WHERE expires_at < ?`,
		`DELETE FROM client_phone_codes WHERE created_at < ?`,
		`DELETE FROM phone_code_counts WHERE day < (?::timestamptz AT TIME ZONE 'UTC')::date`,
		`DELETE FROM passkey_challenges WHERE expires_at < ?`,
		`DELETE FROM browser_sessions WHERE expires_at < ?`,
	} {
		r := tx.Gorm(ctx).Exec(statement, tx.Now.Add(-24*time.Hour))
		if r.Error != nil {
			return n, fmt.Errorf("purge: %w", r.Error)
		}
		n += int(r.RowsAffected)
	}
	return n, nil
}
