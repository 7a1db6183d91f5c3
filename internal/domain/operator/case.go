package operator

import (
	"context"
	"errors"

	"partnerd/internal/base/money"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/matching"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/postgres"
)

// Case is a consultation with its whole history. It excludes the client's texts, the note with its preview, and phone
// numbers.
type Case struct {
	consultation.Consultation
	Application application.Application
	Lawyers     map[string]lawyer.Lawyer // everyone to whom it was offered
	Withdrawal  *consultation.Withdrawal
	Proposed    money.Cents // default refund; 0 unless a withdrawal was declared
	Offers      []matching.Chapter
	Calls       []telephony.Told
	Deliveries  []webhook.Delivery // of its events, newest first
	Money       []wallet.Transaction
	Proposals   []Proposal
	Audit       []audit.Entry // newest first
}

// caseLimit limits each list of a case. The longest course of a consultation has some thirty events.
const caseLimit = 100

// Case returns a consultation with its history. It returns NOT_FOUND.
func (s *Service) Case(ctx context.Context, consultationID string) (c Case, err error) {
	tx := s.DB.Read()
	if c.Consultation, err = s.Consultations.Peek(ctx, tx, consultationID); err != nil {
		return c, err
	}
	if c.Application, err = s.Applications.Get(ctx, tx, c.ApplicationID); err != nil {
		return c, err
	}
	if w, declared, err := s.Consultations.Withdrawn(ctx, tx, c.ID); err != nil {
		return c, err
	} else if declared {
		c.Withdrawal, c.Proposed = &w, consultation.WithdrawalRefund(c.Consultation, w)
	}
	if err := s.addHistory(ctx, tx, &c); err != nil {
		return c, err
	}
	c.Lawyers = map[string]lawyer.Lawyer{}
	for _, o := range c.Offers {
		if err := s.addLawyer(ctx, tx, &c, o.LawyerID); err != nil {
			return c, err
		}
	}
	return c, s.addLawyer(ctx, tx, &c, c.LawyerID)
}

func (s *Service) addLawyer(ctx context.Context, tx postgres.Tx, c *Case, lawyerID string) error {
	if _, known := c.Lawyers[lawyerID]; known || lawyerID == "" {
		return nil
	}
	l, err := s.Lawyers.Get(ctx, tx, lawyerID)
	if errors.Is(err, lawyer.ErrNotFound) {
		return nil
	}
	c.Lawyers[lawyerID] = l
	return err
}

func (s *Service) addHistory(ctx context.Context, tx postgres.Tx, c *Case) (err error) {
	if c.Offers, err = s.Matching.Story(ctx, tx, c.ID); err != nil {
		return err
	}
	if c.Calls, err = s.Telephony.History(ctx, tx, c.ID); err != nil {
		return err
	}
	if c.Deliveries, _, err = s.Webhooks.Deliveries(ctx, tx, c.ApplicationID,
		webhook.DeliveryFilter{ConsultationID: c.ID, Limit: caseLimit}); err != nil {
		return err
	}
	if c.Money, err = s.Wallet.OfConsultation(ctx, tx, c.ID); err != nil {
		return err
	}
	if c.Proposals, err = s.ProposalsFor(ctx, tx, c.ID); err != nil {
		return err
	}
	c.Audit, err = audit.List(ctx, tx, c.ID, 0, caseLimit)
	return err
}
