package account

import (
	"context"
	"strings"

	"partnerd/internal/infra/postgres"
)

// TellDisabled emails a client that the account was disabled and whom to contact, or that it is enabled again.
func (s *SelfService) TellDisabled(ctx context.Context, tx postgres.Tx, clientID string) error {
	c, err := s.deps.Accounts.Get(ctx, tx, clientID)
	if err != nil {
		return err
	}
	at := tx.Now.Format("2006-01-02 15:04 UTC")
	if !c.Disabled {
		return s.send(ctx, tx, c.Email, c.Speaks(""), "enabled", c.Name, at, s.deps.BaseURL+"/login")
	}
	whom, err := s.whomToAsk(c.Speaks(""))
	if err != nil {
		return err
	}
	return s.send(ctx, tx, c.Email, c.Speaks(""), "disabled", c.Name, at, whom)
}

// mailDisabled answers a request for a link to a disabled account. Only the owner of the address reads it.
func (s *SelfService) mailDisabled(ctx context.Context, tx postgres.Tx, row clientRow, lang string) error {
	c := fromRow(row)
	whom, err := s.whomToAsk(c.Speaks(lang))
	if err != nil {
		return err
	}
	return s.send(ctx, tx, c.Email, c.Speaks(lang), "disabled.asked", c.Name, whom)
}

func (s *SelfService) whomToAsk(lang string) (string, error) {
	if s.deps.Contact == "" {
		return s.texts.Get(lang, "ask.application")
	}
	return s.texts.Get(lang, "ask.contact", strings.TrimPrefix(s.deps.Contact, "mailto:"))
}
