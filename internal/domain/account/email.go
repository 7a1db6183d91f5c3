package account

import (
	"context"

	"partnerd/internal/base/id"
	"partnerd/internal/base/password"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
)

// RequestEmail queues an email to the client's new address, with a link that confirms it, if current is the current
// password. The caller cannot learn whether another account has the address: a job finds that out later and notifies
// only the owner of the address. It returns [ErrInvalid], [ErrSameEmail] or [ErrBadCredentials].
func (s *SelfService) RequestEmail(ctx context.Context, tx postgres.Tx, clientID, email, current, lang string) error {
	email, err := normalEmail(email)
	if err != nil {
		return err
	}
	row, err := s.deps.Accounts.row(ctx, tx, clientID)
	if err != nil {
		return err
	}
	if email == row.Email {
		return ErrSameEmail
	}
	if !password.Verify(row.PasswordHash, current) || row.DisabledAt != nil {
		return ErrBadCredentials
	}
	return s.insertJob(ctx, tx, emailJob, linkRequest{Email: email, Lang: lang, ClientID: clientID,
		Password: passwordDigest(row)})
}

// passwordDigest identifies the client's current password, so that a change of it can be detected.
func passwordDigest(r clientRow) string { return id.DigestOf(r.PasswordHash).String() }

// mailEmail sends the link that confirms a new address. It sends nothing if the password has changed since the request.
// If another client has the address, the link is stored and counted but emailed to no one.
func (s *SelfService) mailEmail(ctx context.Context, tx postgres.Tx, r linkRequest) error {
	row, ok, err := clientForUpdate(ctx, tx, r.ClientID)
	if err != nil || !ok || row.DisabledAt != nil || passwordDigest(row) != r.Password {
		return err
	}
	to, err := countLinks(ctx, tx, kindEmail, r.Email)
	if err != nil {
		return err
	}
	of, err := countLinksOf(ctx, tx, kindEmail, row.ID)
	if err != nil || to >= linksPerHour || of >= linksPerHour {
		return err
	}
	if err := endLinks(ctx, tx, row.ID, kindEmail); err != nil {
		return err
	}
	owner, taken, err := clientByEmail(ctx, tx, r.Email)
	if err != nil {
		return err
	}
	token := tx.NewSecret("lnk")
	err = insertLink(ctx, tx, linkRow{TokenHash: id.DigestOf(token), Kind: kindEmail, Email: r.Email, ClientID: row.ID,
		ExpiresAt: tx.Now.Add(EmailLifetime)})
	if err != nil {
		return err
	}
	if taken && owner.ID != row.ID {
		err = s.send(ctx, tx, owner.Email, fromRow(owner).Speaks(r.Lang), "email.exists", s.deps.BaseURL+"/login",
			s.deps.BaseURL+"/password/forgot")
	} else { // without the client's name, which would let strangers write to any address through us
		err = s.send(ctx, tx, r.Email, fromRow(row).Speaks(r.Lang), "email",
			s.link("/account/security/email/confirm", token))
	}
	if err != nil {
		return err
	}
	return s.notify(mail.Caused(ctx, r.From), tx, fromRow(row), r.Lang, "email")
}

// PendingEmail returns the new address that one of the client's links confirms, without using the link. For any other
// link, including another client's, it returns [ErrBadLink].
func (s *SelfService) PendingEmail(ctx context.Context, tx postgres.Tx, clientID, token string) (string, error) {
	r, err := links.Find(ctx, tx, kindEmail, token)
	if err == nil && r.ClientID != clientID {
		err = ErrBadLink
	}
	return r.Email, err
}

// ConfirmEmail uses one of the client's links and changes the address. It ends the links emailed earlier, and emails
// the old address a link that undoes the change. It returns [ErrBadLink], or [ErrEmailTaken] if another client has
// taken the address. After either error tx must be rolled back.
func (s *SelfService) ConfirmEmail(ctx context.Context, tx postgres.Tx, clientID, token, lang string) (Client, error) {
	c, r, err := s.lockLink(ctx, tx, kindEmail, token)
	if err != nil {
		return Client{}, err
	}
	if c.ID != clientID {
		return Client{}, ErrBadLink
	}
	old := c.Email
	c.Email = r.Email
	if err := updateEmail(ctx, tx, c); err != nil {
		return Client{}, err
	}
	if err := endLinks(ctx, tx, c.ID, kindReset, kindEmail); err != nil {
		return Client{}, err
	}
	undo := tx.NewSecret("lnk")
	err = insertLink(ctx, tx, linkRow{TokenHash: id.DigestOf(undo), Kind: kindUndoEmail, Email: old, ClientID: c.ID,
		ExpiresAt: tx.Now.Add(UndoLifetime)})
	if err != nil {
		return Client{}, err
	}
	return c, s.send(ctx, tx, old, c.Speaks(lang), "email.changed", c.Name, s.link("/email/undo", undo))
}

// PendingUndo returns the address that a link restores and the client that it belongs to, without using the link. It
// returns [ErrBadLink] if the link is invalid or the client is disabled.
func (s *SelfService) PendingUndo(ctx context.Context, tx postgres.Tx,
	token string,
) (c Client, email string, err error) {
	r, err := links.Find(ctx, tx, kindUndoEmail, token)
	if err != nil {
		return Client{}, "", err
	}
	if c, err = s.deps.Accounts.Get(ctx, tx, r.ClientID); err == nil && c.Disabled {
		err = ErrBadLink
	}
	return c, r.Email, err
}

// UndoEmail uses an undo link: it restores the old address, ends the links that undo later changes, and notifies the
// address that loses the account. It then does what [SelfService.Reset] does, and its caller has the same duties. It
// returns [ErrInvalid], [ErrBadLink], or [ErrEmailTaken] if another client has taken the old address. After any of
// these errors tx must be rolled back, which leaves the link unused.
func (s *SelfService) UndoEmail(ctx context.Context, tx postgres.Tx, token, plain, lang string,
	also Recovery,
) (Client, error) {
	c, r, err := s.lockLink(ctx, tx, kindUndoEmail, token)
	if err != nil {
		return Client{}, err
	}
	lost := c.Email
	c.Email = r.Email // set before the rest, which notifies this address
	if err := updateEmail(ctx, tx, c); err != nil {
		return Client{}, err
	}
	if err := endNewerLinks(ctx, tx, kindUndoEmail, c.ID, r.CreatedAt); err != nil {
		return Client{}, err
	}
	if err := s.send(ctx, tx, lost, c.Speaks(lang), "email.undone", s.deps.BaseURL); err != nil {
		return Client{}, err
	}
	return s.recoverAccount(ctx, tx, c, plain, lang, also)
}

// lockLink uses a link that belongs to a client who is not disabled. It locks the client before the link, as all code
// does, so concurrent actions on an account see each other's effects.
func (s *SelfService) lockLink(ctx context.Context, tx postgres.Tx, kind, token string) (Client, linkRow, error) {
	r, err := links.Find(ctx, tx, kind, token)
	if err != nil {
		return Client{}, r, err
	}
	c, err := s.deps.Accounts.Lock(ctx, tx, r.ClientID)
	if err != nil {
		return Client{}, r, err
	}
	if c.Disabled {
		return Client{}, r, ErrBadLink
	}
	r, err = links.Use(ctx, tx, kind, token)
	return c, r, err
}

// recoverAccount sets the password. It ends all sessions, and the passkeys and the phone number that also selects.
func (s *SelfService) recoverAccount(ctx context.Context, tx postgres.Tx, c Client, plain, lang string,
	also Recovery,
) (Client, error) {
	if err := s.checkNewPassword(plain, c.Email, c.Name); err != nil {
		return Client{}, err
	}
	if err := s.endPasskeys(ctx, tx, c.ID, also); err != nil {
		return Client{}, err
	}
	if err := s.endPhone(ctx, tx, c.ID, also); err != nil {
		return Client{}, err
	}
	return s.setPassword(ctx, tx, c, plain, "", lang)
}
