package payment

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"partnerd/internal/postgres"
)

const (
	maxNotice = 64 << 10 // bytes
	maxText   = 255      // bytes of each text in a notice
)

// HandleNotice acts on what a provider posted: body, with the value of [SignatureHeader]. ErrUnknownProvider,
// ErrBadSignature and ErrBadNotice refuse it and leave nothing behind. Otherwise it is recorded and nil returned, so
// that the provider stops sending it, whatever came of it: a repeated one changes nothing, one that does not fit is
// logged as an error and kept as an incident. Any other error means: send it again.
func (s *Service) HandleNotice(ctx context.Context, db *postgres.DB, provider string, body []byte, signature string) error {
	if provider != SandboxProvider || !s.cfg.Sandbox {
		return ErrUnknownProvider
	}
	if err := verifyNotice(s.cfg.NoticeSecret, signature, body, db.Clock().Now()); err != nil {
		return err
	}
	n, err := parseNotice(body)
	if err != nil {
		return err
	}
	var outcome Outcome
	var fresh bool
	err = db.InTx(ctx, func(tx postgres.Tx) error {
		outcome, fresh, err = s.apply(ctx, tx, provider, n)
		return err
	})
	if err != nil {
		return fmt.Errorf("handle payment notice: %w", err)
	}
	if fresh && outcome.Incident() {
		s.cfg.Logger.ErrorContext(ctx, "payment notice does not fit", "outcome", outcome, "provider", provider, "notice", n.ID,
			"session", n.SessionID, "amountCents", n.AmountCents, "currency", n.Currency)
	}
	return nil
}

// apply locks the session, so that notices about it queue, and does what n means for it unless n was handled before.
func (s *Service) apply(ctx context.Context, tx postgres.Tx, provider string, n Notice) (outcome Outcome, fresh bool, err error) {
	session, err := lockSession(ctx, tx, provider, n.SessionID)
	if err != nil {
		return "", false, fmt.Errorf("lock top-up session: %w", err)
	}
	outcome = decide(n, session)
	fresh, err = insertNotice(ctx, tx, provider, n, outcome)
	if err != nil {
		return "", false, fmt.Errorf("record notice: %w", err)
	}
	switch {
	case !fresh:
		return outcome, false, nil
	case outcome == Closed:
		err = endSession(ctx, tx, session.ID, Cancelled)
	case outcome.credits():
		if err = endSession(ctx, tx, session.ID, Paid); err == nil {
			err = s.wallet.TopUp(ctx, tx, session.ClientID, session.ApplicationID, session.ID, session.Amount)
		}
	}
	return outcome, true, err
}

func parseNotice(body []byte) (Notice, error) {
	if len(body) > maxNotice {
		return Notice{}, fmt.Errorf("%w: longer than %d bytes", ErrBadNotice, maxNotice)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	var n Notice
	if err := d.Decode(&n); err != nil {
		return Notice{}, fmt.Errorf("%w: %w", ErrBadNotice, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return Notice{}, fmt.Errorf("%w: more than one JSON value", ErrBadNotice)
	}
	for _, text := range []string{n.ID, string(n.Type), n.SessionID, n.Currency} {
		if text == "" || len(text) > maxText || !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return Notice{}, fmt.Errorf("%w: a text is missing, too long or not storable", ErrBadNotice)
		}
	}
	return n, nil
}
