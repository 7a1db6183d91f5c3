package account

import (
	"context"
	"slices"
	"time"

	"partnerd/internal/base/text"
	"partnerd/internal/infra/passkey"
	"partnerd/internal/infra/postgres"
)

// recoveryWindow is how long a new passkey, connected application or verified number may be an intruder's.
const recoveryWindow = 30 * 24 * time.Hour

// Recovery is what a client who recovers the account wants to end besides the browser sessions, which all end: those
// passkeys, applications and phone numbers on the form that were ticked.
type Recovery struct {
	Shown, Ticked []string // IDs
}

// Suspect reports whether something added at since is recent enough to be ticked by default.
func Suspect(since, now time.Time) bool { return now.Sub(since) < recoveryWindow }

// Ends reports whether the passkey, application or phone number id, added at since, is to end. An item that the form
// did not show ends if it is recent: it was added while the form was open.
func (r Recovery) Ends(id string, since, now time.Time) bool {
	return slices.Contains(r.Ticked, id) || !slices.Contains(r.Shown, id) && Suspect(since, now)
}

func (s *SelfService) endPasskeys(ctx context.Context, tx postgres.Tx, clientID string, r Recovery) error {
	return s.passkeys.RemoveThose(ctx, tx, clientID,
		func(k passkey.Passkey) bool { return r.Ends(k.ID, k.CreatedAt, tx.Now) })
}

// VerifiedNumber is the phone number on which lawyers call a client.
type VerifiedNumber struct {
	ID     string // of this verification; a later one has another ID
	Masked string
	At     time.Time // time of verification
}

// VerifiedNumber returns the client's verified number; ok is false if there is none.
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

// endPhone ends the client's codes and, if r selects it, their verified number. Ending the codes means that a number
// being verified is either seen here or never verified.
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

// NotifyLink notifies a client that the application with this name and ID was allowed to act for them.
func (s *SelfService) NotifyLink(ctx context.Context, tx postgres.Tx, c Client,
	lang, name, applicationID string,
) error {
	return s.notify(ctx, tx, c, lang, "link", text.Mailed(name, applicationID))
}

// NotifyBrowser notifies a client of a sign-in from a browser that the account does not know ([Service.Knows]).
func (s *SelfService) NotifyBrowser(ctx context.Context, tx postgres.Tx, c Client, lang, browser string) error {
	if browser == "" {
		return s.notify(ctx, tx, c, lang, "browser.unknown")
	}
	return s.notify(ctx, tx, c, lang, "browser", browser)
}
