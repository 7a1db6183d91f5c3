package consultation

import (
	"context"
	"fmt"
	"strings"

	"partnerd/internal/base/text"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
)

// remind handles a missing note (H37): it emails the lawyer, and with the last reminder it reports an incident to the
// operators, who also see it in [Service.MissingNotes]. With the last reminder the lawyer is free. Reminders that fell
// due together while no process ran count as one.
func (s *Service) remind(ctx context.Context, tx postgres.Tx, c *Consultation) error {
	c.Reminders = remindersDue(*c, tx.Now)
	if err := s.save(ctx, tx, c); err != nil {
		return err
	}
	if writing(*c) {
		return s.remindLawyer(ctx, tx, *c)
	}
	if err := s.releaseWriter(ctx, tx, *c, lawyer.Off(lawyer.NoteMissing)); err != nil {
		return err
	}
	s.incident(tx, noteMissing, c.ID, c.LawyerID)
	return nil
}

// remindLawyer emails the lawyer, who can still write the note.
func (s *Service) remindLawyer(ctx context.Context, tx postgres.Tx, c Consultation) error {
	return s.mailLawyer(ctx, tx, c, "note.missing", c.ID, c.CallEndedAt.Format("2006-01-02 15:04 UTC"),
		c.NoteDueAt().Format("2006-01-02 15:04 UTC"))
}

// mailLawyer emails the lawyer of c, unless they could do nothing about it: a suspended lawyer can write the note in
// hand but cannot correct any. The language is that of the consultation, if the product supports it. The text of key
// takes the lawyer's name, then args.
func (s *Service) mailLawyer(ctx context.Context, tx postgres.Tx, c Consultation, key string, args ...any) error {
	l, err := s.deps.Lawyers.Get(ctx, tx, c.LawyerID)
	if err != nil || l.Simulated || l.Suspended && c.Status != CallEnded {
		return err
	}
	texts, err := text.Messages()
	if err != nil {
		return err
	}
	lang := text.Known(strings.ToLower(c.Language))
	subject, body, err := texts.Letter(lang, key, append([]any{l.Name}, args...)...)
	if err != nil {
		return err
	}
	return s.deps.Mail.Send(ctx, tx, mail.Message{To: l.Email, Subject: subject, Text: body})
}

// giveUpNote closes a consultation whose note did not arrive in time (X12).
func (s *Service) giveUpNote(ctx context.Context, tx postgres.Tx, c *Consultation) error {
	if err := s.endWrapUp(ctx, tx, *c, lawyer.Off(lawyer.NoteMissing)); err != nil {
		return err
	}
	c.EndReason = NoteMissing
	if err := s.apply(ctx, tx, c, onNoteMissing); err != nil {
		return err
	}
	s.incident(tx, closedWithoutNote, c.ID, c.LawyerID)
	return nil
}

// uselessCall closes a locked consultation whose call was of no use, or whose note will not come (X12).
func (s *Service) uselessCall(ctx context.Context, tx postgres.Tx, c *Consultation, reason Reason) error {
	c.EndReason = reason
	if !uselessCall(*c, tx.Now) {
		return ErrReason
	}
	if err := s.endWrapUp(ctx, tx, *c, toWork); err != nil {
		return err
	}
	return s.apply(ctx, tx, c, onNoUsefulCall)
}

// endWrapUp moves on the lawyer whom the note of c kept from other work. A lawyer whom the last reminder freed stays
// where they are.
func (s *Service) endWrapUp(ctx context.Context, tx postgres.Tx, c Consultation, to lawyer.Move) error {
	if !writing(c) {
		return nil
	}
	return s.releaseWriter(ctx, tx, c, to)
}

// releaseWriter moves on the lawyer of c, who stays in WRAP_UP if they have another note to write.
func (s *Service) releaseWriter(ctx context.Context, tx postgres.Tx, c Consultation, to lawyer.Move) error {
	others, err := otherNotes(ctx, tx, c.LawyerID, c.ID, len(noteReminders))
	if err != nil {
		return fmt.Errorf("look for other notes of lawyer %s: %w", c.LawyerID, err)
	}
	if others {
		return nil
	}
	return s.freeLawyer(ctx, tx, c, lawyer.WrapUp, to)
}

// MissingNotes lists consultations whose note has been missing for at least a day. The one that will be closed first
// comes first.
func (s *Service) MissingNotes(ctx context.Context, tx postgres.Tx, limit int) ([]Consultation, error) {
	return missingNotes(ctx, tx, len(noteReminders), limit)
}
