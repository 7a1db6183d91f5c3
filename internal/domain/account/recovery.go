package account

import (
	"context"
	"slices"
	"time"

	"partnerd/internal/base/text"
	"partnerd/internal/infra/passkey"
	"partnerd/internal/infra/postgres"
)

// recoveryWindow is how young a passkey, a linked application or a verified phone number is that may be an intruder's.
const recoveryWindow = 30 * 24 * time.Hour

// Recovery is what a client who recovers the account wants to end besides the browser sessions, which all end: of the
// passkeys, applications and the phone number that the form showed, those that were ticked.
type Recovery struct {
	Shown, Ticked []string // identifiers
}

// Suspect tells whether something that was added at since is young enough to be ticked from the start.
func Suspect(since, now time.Time) bool { return now.Sub(since) < recoveryWindow }

// Ends tells whether the passkey, application or phone number id, added at since, is to end. What the form did not show
// ends when it is young: it was added while the form was open.
func (r Recovery) Ends(id string, since, now time.Time) bool {
	return slices.Contains(r.Ticked, id) || !slices.Contains(r.Shown, id) && Suspect(since, now)
}

func (s *SelfService) endPasskeys(ctx context.Context, tx postgres.Tx, clientID string, r Recovery) error {
	return s.passkeys.RemoveThose(ctx, tx, clientID,
		func(k passkey.Passkey) bool { return r.Ends(k.ID, k.CreatedAt, tx.Now) })
}

// VerifiedNumber is the phone number on which lawyers call a client.
type VerifiedNumber struct {
	ID     string // of this verification: the next one has another
	Masked string
	At     time.Time // when it was verified
}

// VerifiedNumber returns the client's; ok is false when there is none.
func (s *SelfService) VerifiedNumber(ctx context.Context, tx postgres.Tx,
	clientID string,
) (n VerifiedNumber, ok bool, err error) {
	p, err := s.deps.Accounts.phone(ctx, tx, clientID)
	if err != nil || p.VerifiedAt == nil {
		return VerifiedNumber{}, false, err
	}
	masked, err := s.MaskedPhone(ctx, tx, clientID)
	return VerifiedNumber{verificationID(*p.VerifiedAt), masked, *p.VerifiedAt}, err == nil, err
}

func verificationID(at time.Time) string { return "phone " + at.UTC().Format(time.RFC3339Nano) }

// endPhone ends the client's codes too: a number that is being verified is either seen here or not verified.
func (s *SelfService) endPhone(ctx context.Context, tx postgres.Tx, clientID string, r Recovery) error {
	if err := endCodes(ctx, tx, clientID); err != nil {
		return err
	}
	p, err := s.deps.Accounts.phone(ctx, tx, clientID)
	if err != nil || p.VerifiedAt == nil || !r.Ends(verificationID(*p.VerifiedAt), *p.VerifiedAt, tx.Now) {
		return err
	}
	return s.deps.Accounts.SetPhone(ctx, tx, clientID, "", false)
}

// NotifyLink tells a client that the application of that name and identifier was allowed to act for it.
func (s *SelfService) NotifyLink(ctx context.Context, tx postgres.Tx, c Client,
	lang, name, applicationID string,
) error {
	return s.notify(ctx, tx, c, lang, "link", text.Mailed(name, applicationID))
}

// NotifyBrowser tells a client that somebody signed in from a browser in which nobody had signed in to the account
// before ([Service.Knows]).
func (s *SelfService) NotifyBrowser(ctx context.Context, tx postgres.Tx, c Client, lang, browser string) error {
	if browser == "" {
		return s.notify(ctx, tx, c, lang, "browser.unknown")
	}
	return s.notify(ctx, tx, c, lang, "browser", browser)
}
