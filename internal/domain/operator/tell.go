package operator

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"partnerd/internal/base/money"
	"partnerd/internal/base/text"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
)

// Whoever is affected by an action is emailed in its transaction. The table of actions in package web says which action
// emails whom.

var messages = sync.OnceValues(text.Messages)

// tellLawyer emails a lawyer. A lawyer who was never invited cannot work and gets no email.
func (s *Service) tellLawyer(ctx context.Context, tx postgres.Tx, lawyerID, what string, args ...any) error {
	p, err := s.Staff.OfLawyer(ctx, tx, lawyerID)
	if errors.Is(err, staff.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.Staff.Told(ctx, tx, p, what, args...)
}

// phoneEnds returns the last two digits of a phone number, which are all that an email shows, or "" if there is no
// number.
func (s *Service) phoneEnds(ctx context.Context, tx postgres.Tx, lawyerID string) (string, error) {
	number, err := s.Lawyers.Phone(ctx, tx, lawyerID)
	if errors.Is(err, lawyer.ErrNoPhone) {
		return "", nil
	}
	return number[max(len(number)-2, 0):], err
}

// tellPartner emails the owners and the contact of an application.
func (s *Service) tellPartner(ctx context.Context, tx postgres.Tx, applicationID, what string, args ...any) error {
	a, err := s.Applications.Get(ctx, tx, applicationID)
	if err != nil {
		return err
	}
	return s.Portal.Tell(ctx, tx, a, []string{a.ContactEmail}, portal.Told{What: what, Args: args})
}

// tellChanges emails the owners, the previous contact and the new contact about what changed, if anything did.
func (s *Service) tellChanges(ctx context.Context, tx postgres.Tx, before, after application.Application) error {
	var all []portal.Told
	add := func(changed bool, what string, args ...any) {
		if changed {
			all = append(all, portal.Told{What: what, Args: args})
		}
	}
	add(before.Name != after.Name, "name", after.Name)
	add(!slices.Equal(before.RedirectURIs, after.RedirectURIs), "redirects", strings.Join(after.RedirectURIs, " "))
	add(!slices.Equal(before.Scopes, after.Scopes), "scopes", application.FormatScopes(after.Scopes))
	add(before.ContactEmail != after.ContactEmail, "contact")
	add(before.RatePerMinute != after.RatePerMinute || before.ClientRatePerMinute != after.ClientRatePerMinute, "rates")
	add(before.RecordingEnabled != after.RecordingEnabled, "recording")
	if len(all) == 0 {
		return nil
	}
	return s.Portal.Tell(ctx, tx, before, []string{before.ContactEmail, after.ContactEmail}, all...)
}

// tellClient emails a client in their language and formats amounts for it.
func (s *Service) tellClient(ctx context.Context, tx postgres.Tx, clientID, what string, args ...any) error {
	c, err := s.Accounts.Get(ctx, tx, clientID)
	if err != nil || c.Erased {
		return err
	}
	texts, err := messages()
	if err != nil {
		return err
	}
	lang := c.Speaks("")
	for i, a := range args {
		if cents, ok := a.(money.Cents); ok {
			args[i] = cents.Format(lang)
		}
	}
	event, err := texts.Get(lang, "client.told."+what, args...)
	if err != nil {
		return err
	}
	subject, body, err := texts.Letter(lang, "client.told", c.Name, event, tx.Now.Format("2006-01-02 15:04 UTC"))
	if err != nil {
		return err
	}
	return s.Mail.Send(ctx, tx, mail.Message{To: c.Email, Subject: subject, Text: body})
}

// tellAdjusted emails a client that money was credited or debited.
func (s *Service) tellAdjusted(ctx context.Context, tx postgres.Tx, clientID string, amount money.Cents) error {
	if amount < 0 {
		return s.tellClient(ctx, tx, clientID, "debited", -amount)
	}
	return s.tellClient(ctx, tx, clientID, "credited", amount)
}
