package operator

import (
	"context"
	"strings"

	"partnerd/internal/base/money"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
)

// CreateClient registers an end client with a wallet that holds balance: 0 in live ([ErrSandbox]). There a number that
// is said to be verified needs a reason ([ErrNoReason]).
func (s *Service) CreateClient(ctx context.Context, by Act, n account.NewClient,
	balance money.Cents,
) (c account.Client, err error) {
	switch {
	case balance != 0 && !s.Sandbox:
		return c, ErrSandbox
	case by.Reason == "" && n.PhoneVerified && !s.Sandbox:
		return c, ErrNoReason
	case by.Reason == "":
		by.Reason = "New client."
	}
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if c, err = s.Accounts.Create(ctx, tx, n); err != nil {
			return err
		}
		if err := s.Wallet.Open(ctx, tx, c.ID); err != nil {
			return err
		}
		if balance != 0 {
			if err := s.Wallet.Adjust(ctx, tx, c.ID, balance, wallet.OpeningBalance); err != nil {
				return err
			}
		}
		return by.Record(ctx, tx, "client.create", c.ID, map[string]any{"phoneVerified": c.PhoneVerified,
			"balanceCents": balance})
	})
	return c, err
}

// SetLawyerPhone replaces the number that a lawyer's consultations are made from, in any usual notation.
func (s *Service) SetLawyerPhone(ctx context.Context, by Act, lawyerID, phone string) error {
	number, err := account.E164(phone)
	if err != nil {
		return err
	}
	return s.DB.InTx(ctx, func(tx postgres.Tx) error {
		before, err := s.phoneEnds(ctx, tx, lawyerID)
		if err != nil {
			return err
		}
		if err := s.Lawyers.SetPhone(ctx, tx, lawyerID, number); err != nil {
			return err
		}
		what, args := "phone.set", []any{number[len(number)-2:]}
		if before != "" {
			what, args = "phone.changed", []any{before, args[0]}
		}
		if err := s.tellLawyer(ctx, tx, lawyerID, what, args...); err != nil {
			return err
		}
		return by.Record(ctx, tx, "lawyer.set_phone", lawyerID, nil)
	})
}

// SuspendLawyer keeps a lawyer from work and from going on duty, and ends their sessions; see
// [consultation.Service.SuspendLawyer]. A lawyer who has a call or a note to finish keeps the sessions for that
// ([desk.Service.Admit]). Fault: [lawyer.ErrNotFound].
func (s *Service) SuspendLawyer(ctx context.Context, by Act, lawyerID string) (l lawyer.Lawyer, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		after, err := s.Consultations.SuspendLawyer(ctx, tx, lawyerID, lawyer.BySuspension)
		if err != nil {
			return err
		}
		l = after.Lawyer
		if !after.Finishes {
			if err := s.Staff.EndLawyerSessions(ctx, tx, lawyerID); err != nil {
				return err
			}
		}
		if err := s.tellLawyer(ctx, tx, lawyerID, "suspended"); err != nil {
			return err
		}
		return by.Record(ctx, tx, "lawyer.suspend", lawyerID, map[string]any{"state": l.State,
			"offerTakenBack": after.Offered, "finishes": after.Finishes})
	})
	return l, err
}

// SetLawyerSkills replaces the competences and languages of a lawyer; see [lawyer.Service.SetSkills]. One who waits for
// work is found work at once.
func (s *Service) SetLawyerSkills(ctx context.Context, by Act, lawyerID string, to lawyer.Skills) error {
	return s.DB.InTx(ctx, func(tx postgres.Tx) error {
		before, err := s.Lawyers.SetSkills(ctx, tx, lawyerID, to)
		if err != nil {
			return err
		}
		s.Consultations.LawyerChanged(tx, lawyerID)
		err = s.tellLawyer(ctx, tx, lawyerID, "skills", strings.Join(to.Competences, " "),
			strings.Join(to.Languages, " "))
		if err != nil {
			return err
		}
		return by.Record(ctx, tx, "lawyer.set_skills", lawyerID, map[string]any{"before": before, "after": to})
	})
}

// ResumeLawyer lets a suspended lawyer sign on again, which he does himself. Fault: [lawyer.ErrNotFound].
func (s *Service) ResumeLawyer(ctx context.Context, by Act, lawyerID string) error {
	return s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := s.Lawyers.Resume(ctx, tx, lawyerID); err != nil {
			return err
		}
		if err := s.tellLawyer(ctx, tx, lawyerID, "resumed"); err != nil {
			return err
		}
		return by.Record(ctx, tx, "lawyer.resume", lawyerID, nil)
	})
}

// CreateLawyer registers a lawyer whom nobody invites: a simulated one.
func (s *Service) CreateLawyer(ctx context.Context, by Act, n lawyer.NewLawyer) (l lawyer.Lawyer, err error) {
	if n.Phone, err = account.E164(n.Phone); err != nil {
		return l, err
	}
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if l, err = s.Lawyers.Create(ctx, tx, n); err != nil {
			return err
		}
		return by.Record(ctx, tx, "lawyer.create", l.ID, map[string]any{"competences": n.Competences,
			"languages": n.Languages, "simulated": n.Simulated})
	})
	return l, err
}

// ClientState is what operators see of a client.
type ClientState struct {
	account.Client
	Wallet      wallet.Balance
	Connections []oauth.Connection
	OpenCases   int  // consultations that have not come to an end
	Paying      bool // a payment is under way
}

// Client shows a client. Problem: NOT_FOUND.
func (s *Service) Client(ctx context.Context, clientID string) (c ClientState, err error) {
	tx := s.DB.Read()
	if c.Client, err = s.Accounts.Get(ctx, tx, clientID); err != nil {
		return c, err
	}
	if c.Wallet, err = s.Wallet.Balance(ctx, tx, clientID); err != nil {
		return c, err
	}
	if c.Connections, err = s.OAuth.Connections(ctx, tx, clientID); err != nil {
		return c, err
	}
	if c.OpenCases, err = s.Consultations.OpenOf(ctx, tx, clientID); err != nil {
		return c, err
	}
	c.Paying, err = s.Payments.UnderWay(ctx, tx, clientID)
	return c, err
}

// DisableClient shuts a client out of pages and API, and ends the browser sessions and the links to applications for
// good. Consultations that run are finished. The client is told by mail. Problem: NOT_FOUND.
func (s *Service) DisableClient(ctx context.Context, by Act, clientID string) error {
	return s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := s.Accounts.SetDisabled(ctx, tx, clientID, true); err != nil {
			return err
		}
		links, err := s.OAuth.UnlinkAll(ctx, tx, clientID, oauth.ReasonOperator)
		if err != nil {
			return err
		}
		if err := s.SelfService.TellDisabled(ctx, tx, clientID); err != nil {
			return err
		}
		return by.Record(ctx, tx, "client.disable", clientID, map[string]int{"linksEnded": links})
	})
}

// EnableClient lets a client in again, who signs in and links applications afresh, and is told so by mail. Problem:
// NOT_FOUND, also for an erased one.
func (s *Service) EnableClient(ctx context.Context, by Act, clientID string) error {
	return s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := s.Accounts.SetDisabled(ctx, tx, clientID, false); err != nil {
			return err
		}
		if err := s.SelfService.TellDisabled(ctx, tx, clientID); err != nil {
			return err
		}
		return by.Record(ctx, tx, "client.enable", clientID, nil)
	})
}

// SignOutClient ends a client's browser sessions and tells how many those were. Problem: NOT_FOUND.
func (s *Service) SignOutClient(ctx context.Context, by Act, clientID string) (n int, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if _, err := s.Accounts.Lock(ctx, tx, clientID); err != nil {
			return err
		}
		if n, err = s.Accounts.EndSessions(ctx, tx, clientID); err != nil {
			return err
		}
		if err := s.tellClient(ctx, tx, clientID, "signedout"); err != nil {
			return err
		}
		return by.Record(ctx, tx, "client.sign_out", clientID, map[string]int{"sessionsEnded": n})
	})
	return n, err
}

// UnlinkClient ends a client's links to an application, or to all of them (empty), and tells how many grants those
// were.
// Problem: NOT_FOUND.
func (s *Service) UnlinkClient(ctx context.Context, by Act, clientID, applicationID string) (n int, err error) {
	err = s.DB.InTx(ctx, func(tx postgres.Tx) error {
		if applicationID == "" {
			n, err = s.OAuth.UnlinkAll(ctx, tx, clientID, oauth.ReasonOperator)
		} else if _, err = s.Applications.Get(ctx, tx, applicationID); err == nil {
			n, err = s.OAuth.Unlink(ctx, tx, clientID, applicationID, oauth.ReasonOperator)
		}
		if err != nil {
			return err
		}
		if err := s.tellClient(ctx, tx, clientID, "unlinked"); err != nil {
			return err
		}
		return by.Record(ctx, tx, "client.unlink", clientID, map[string]any{"application": applicationID,
			"linksEnded": n})
	})
	return n, err
}
