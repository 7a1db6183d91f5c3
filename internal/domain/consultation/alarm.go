package consultation

import (
	"context"

	"partnerd/internal/base/text"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
)

// alarm notifies operators once about a callback that is due soon and has no lawyer.
func (s *Service) alarm(ctx context.Context, tx postgres.Tx, c *Consultation) error {
	now := tx.Now
	c.AlarmedAt = &now
	if err := s.save(ctx, tx, c); err != nil {
		return err
	}
	s.incident(tx, callbackDueSoon, c.ID, "")
	if s.deps.Staff == nil {
		return nil
	}
	people, err := s.deps.Staff.List(ctx, tx, staff.Operator)
	if err != nil {
		return err
	}
	texts, err := text.Messages()
	if err != nil {
		return err
	}
	for _, p := range people {
		if p.State != staff.Active || !p.May(staff.Support) {
			continue
		}
		subject, err := texts.Get(p.Language, "callback.alarm.subject")
		if err != nil {
			return err
		}
		body, err := texts.Get(p.Language, "callback.alarm.text", p.Name, c.ID,
			c.CallbackDueAt.UTC().Format("2006-01-02 15:04 UTC"))
		if err != nil {
			return err
		}
		if err := s.deps.Mail.Send(ctx, tx, mail.Message{To: p.Email, Subject: subject, Text: body}); err != nil {
			return err
		}
	}
	return nil
}
