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

// CreateClient registers a client with a wallet that holds balance. In a live deployment, balance must be 0
// ([ErrSandbox]), and a number declared as verified needs a reason ([ErrNoReason]).
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

// SetLawyerPhone replaces the number used for a lawyer's consultations. It accepts any usual notation.
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

// SuspendLawyer blocks a lawyer from working and from going on duty, and ends their sessions; see
// [consultation.Service.SuspendLawyer]. A lawyer with a call or a note to finish keeps the sessions for that
// ([desk.Service.Admit]). It returns [lawyer.ErrNotFound].
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

// SetLawyerSkills replaces the practice areas and languages of a lawyer; see [lawyer.Service.SetSkills]. If the lawyer
// is waiting for work, matching runs immediately.
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

// ResumeLawyer reinstates a suspended lawyer, who can then go on duty. It returns [lawyer.ErrNotFound].
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

// CreateLawyer registers a lawyer without an invitation, such as a simulated one.
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

// ClientState is a client as operators see it.
type ClientState struct {
	account.Client
	Wallet      wallet.Balance
	Connections []oauth.Connection
	OpenCases   int  // consultations that have not ended
	Paying      bool // a payment is in progress
}

// Client returns a client. It returns NOT_FOUND.
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

// DisableClient blocks a client from the pages and the API. It ends the browser sessions and the connections to
// applications permanently, and emails the client. Open consultations continue to their end. It returns NOT_FOUND.
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

// EnableClient reinstates a disabled client and emails them. They have to sign in and link applications again. It
// returns NOT_FOUND, also for an erased client.
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

// SignOutClient ends a client's browser sessions and returns how many. It returns NOT_FOUND.
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

// UnlinkClient ends a client's connections to an application, or to all if applicationID is empty. It returns the
// number of ended grants, or NOT_FOUND.
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
