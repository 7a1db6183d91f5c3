package consultation

import (
	"context"
	"fmt"
	"strings"
	"time"

	"partnerd/internal/base/text"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/sms"
)

const (
	wakeEvery   = 10 * time.Second
	wakePerPair = 10        // oldest callbacks of each pair without a present lawyer
	wakeText    = time.Hour // after that, an unsent text message is no longer useful
)

// wakeLawyers notifies lawyers of callbacks that could be made now, in pairs for which no lawyer is present.
func (s *Service) wakeLawyers(ctx context.Context) (errs []error) {
	tx := s.deps.Searches.Read()
	pairs, err := waitingPairs(ctx, tx)
	if err != nil {
		return []error{err}
	}
	if pairs, err = s.deps.Matching.Unattended(ctx, tx, pairs...); err != nil {
		return []error{err}
	}
	for _, p := range pairs {
		work, err := waitingOf(ctx, tx, p, "", wakePerPair)
		if err != nil {
			return append(errs, err)
		}
		for _, c := range work {
			if c.Status != PendingCallback {
				continue
			}
			if err := s.wakeFor(ctx, c.ID); err != nil {
				errs = append(errs, fmt.Errorf("wake lawyers for %s: %w", c.ID, err))
			}
		}
	}
	return errs
}

func (s *Service) wakeFor(ctx context.Context, consultationID string) error {
	return s.deps.Searches.InTx(ctx, func(tx postgres.Tx) error {
		c, ok, err := lockWaiting(ctx, tx, consultationID)
		if err != nil || !ok || c.Status != PendingCallback {
			return err
		}
		soon := !tx.Now.Before(c.CallbackDueAt.Add(-callbackOnCall))
		woken, err := s.deps.Matching.Wake(ctx, tx, s.workOf(tx, c), soon)
		if err != nil || len(woken) == 0 {
			return err
		}
		texts, err := text.Messages()
		if err != nil {
			return err
		}
		lang := text.Known(strings.ToLower(c.Language))
		subject, err := texts.Get(lang, "lawyer.wake.subject")
		if err != nil {
			return err
		}
		for _, l := range woken {
			due := *c.CallbackDueAt
			if zone, err := time.LoadLocation(l.TimeZone); err == nil {
				due = due.In(zone)
			}
			when := due.Format("2006-01-02 15:04 MST")
			body, err := texts.Get(lang, "lawyer.wake.text", l.Name, c.ID, when)
			if err != nil {
				return err
			}
			if err := s.deps.Mail.Send(ctx, tx, mail.Message{To: l.Email, Subject: subject, Text: body}); err != nil {
				return err
			}
			if err := s.textLawyer(ctx, tx, l.ID, lang, when); err != nil {
				return err
			}
		}
		tx.AfterCommit(func() {
			s.log.Info("lawyers woken", "consultation", c.ID, "lawyers", len(woken), "soon", soon)
		})
		return nil
	})
}

// textLawyer sends a lawyer a text message about a waiting callback, if text messages can be sent.
func (s *Service) textLawyer(ctx context.Context, tx postgres.Tx, lawyerID, lang, due string) error {
	if s.deps.SMS == nil {
		return nil
	}
	texts, err := text.Messages()
	if err != nil {
		return err
	}
	words, err := texts.Get(lang, "lawyer.wake.sms", due)
	if err != nil {
		return err
	}
	number, err := s.deps.Lawyers.Phone(ctx, tx, lawyerID)
	if err != nil {
		return err
	}
	return s.deps.SMS.Send(ctx, tx, sms.Message{To: number, Text: words, ExpiresAt: tx.Now.Add(wakeText)})
}
