package privacy

import (
	"context"
	"errors"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/infra/access"
	"partnerd/internal/infra/postgres"
)

// Export is all data of the client. Amounts are cents of EUR, times are UTC.
type Export struct {
	ExportedAt    clock.Stamp    `json:"exportedAt"`
	Profile       Profile        `json:"profile"`
	Sessions      []Session      `json:"browserSessions"`
	Passkeys      []Passkey      `json:"passkeys"`
	Connections   []Connection   `json:"connectedApplications"`
	Uses          []Use          `json:"usesByApplications"`
	Wallet        Wallet         `json:"wallet"`
	Consultations []Consultation `json:"consultations"`
}

// Profile identifies the client.
type Profile struct {
	ID            string      `json:"id"`
	Email         string      `json:"email"`
	Name          string      `json:"name"`
	Phone         string      `json:"phone,omitempty"` // verified, E.164
	PhoneVerified bool        `json:"phoneVerified"`
	CreatedAt     clock.Stamp `json:"createdAt"`
}

// Session is a signed-in browser.
type Session struct {
	UserAgent  string      `json:"userAgent"`
	Address    string      `json:"address"`
	SignedInAt clock.Stamp `json:"signedInAt"`
	LastUsedAt clock.Stamp `json:"lastUsedAt"`
}

// Passkey is the label of a passkey; the key itself is on the client's device.
type Passkey struct {
	Name       string       `json:"name"`
	CreatedAt  clock.Stamp  `json:"createdAt"`
	LastUsedAt *clock.Stamp `json:"lastUsedAt"`
}

// Connection is an application that acts for the client.
type Connection struct {
	ApplicationID string       `json:"applicationId"`
	Name          string       `json:"name"`
	Scopes        []string     `json:"scopes"`
	Since         clock.Stamp  `json:"since"`
	LastUsedAt    *clock.Stamp `json:"lastUsedAt"`
}

// Use is how often an application used a category of the account's data on one UTC day.
type Use struct {
	ApplicationID string      `json:"applicationId"`
	Category      string      `json:"category"`
	Day           string      `json:"day"`
	Count         int64       `json:"count"`
	LastAt        clock.Stamp `json:"lastAt"`
}

// Wallet is the client's money and all its transactions, newest first.
type Wallet struct {
	BalanceCents   money.Cents   `json:"balanceCents"`
	AvailableCents money.Cents   `json:"availableCents"`
	HeldCents      money.Cents   `json:"heldCents"`
	Transactions   []Transaction `json:"transactions"`
}

// Transaction is one movement. HOLD and RELEASE change the available amount, CAPTURE the balance, all others both.
type Transaction struct {
	ID                  string      `json:"id"`
	Type                string      `json:"type"`
	AmountCents         money.Cents `json:"amountCents"`
	BalanceAfterCents   money.Cents `json:"balanceAfterCents"`
	AvailableAfterCents money.Cents `json:"availableAfterCents"`
	ApplicationID       string      `json:"applicationId,omitempty"`
	ConsultationID      string      `json:"consultationId,omitempty"`
	Description         string      `json:"description"`
	CreatedAt           clock.Stamp `json:"createdAt"`
}

// Consultation is one consultation with its texts, the preview of its note and the proof of its order.
type Consultation struct {
	ID               string       `json:"id"`
	ApplicationID    string       `json:"applicationId"`
	Status           string       `json:"status"`
	Competence       string       `json:"competence"`
	Language         string       `json:"language"`
	Subject          string       `json:"subject"`
	Description      string       `json:"description,omitempty"`
	ExternalRef      string       `json:"externalRef,omitempty"`
	RecordingConsent bool         `json:"recordingConsent"`
	PriceCents       money.Cents  `json:"priceCents"`
	RefundedCents    money.Cents  `json:"refundedCents,omitempty"`
	EndReason        string       `json:"endReason,omitempty"`
	CreatedAt        clock.Stamp  `json:"createdAt"`
	AssignedAt       *clock.Stamp `json:"assignedAt"`
	CallStartedAt    *clock.Stamp `json:"callStartedAt"`
	CallEndedAt      *clock.Stamp `json:"callEndedAt"`
	DurationSec      *int         `json:"durationSec"`
	CompletedAt      *clock.Stamp `json:"completedAt"`
	CancelledAt      *clock.Stamp `json:"cancelledAt"`
	ExpiredAt        *clock.Stamp `json:"expiredAt"`
	NotePreview      string       `json:"notePreview,omitempty"`
	WithdrawnAt      *clock.Stamp `json:"withdrawnAt,omitempty"`
	Waiver           *Waiver      `json:"waiver"`
}

const pageSize = 200

// Export returns all data of a client from one snapshot, so that the balance matches the transactions.
func (s *Service) Export(ctx context.Context, db *postgres.DB, clientID string) (e Export, err error) {
	err = db.Snapshot(ctx, func(tx postgres.Tx) error {
		e, err = s.export(ctx, tx, clientID)
		return err
	})
	return e, err
}

func (s *Service) export(ctx context.Context, tx postgres.Tx, clientID string) (Export, error) {
	e := Export{ExportedAt: clock.Stamp(tx.Now), Sessions: []Session{}, Passkeys: []Passkey{},
		Connections: []Connection{}, Uses: []Use{}, Consultations: []Consultation{}}
	for _, part := range []func(context.Context, postgres.Tx, string, *Export) error{
		s.exportProfile, s.exportSignIns, s.exportConnections, s.exportUses, s.exportWallet, s.exportConsultations,
	} {
		if err := part(ctx, tx, clientID, &e); err != nil {
			return Export{}, err
		}
	}
	return e, nil
}

func (s *Service) exportProfile(ctx context.Context, tx postgres.Tx, clientID string, e *Export) error {
	c, err := s.deps.Accounts.Get(ctx, tx, clientID)
	if err != nil {
		return err
	}
	phone, _, err := s.deps.Accounts.VerifiedPhone(ctx, tx, clientID)
	e.Profile = Profile{ID: c.ID, Email: c.Email, Name: c.Name, Phone: phone, PhoneVerified: c.PhoneVerified,
		CreatedAt: clock.Stamp(c.CreatedAt)}
	return err
}

func (s *Service) exportSignIns(ctx context.Context, tx postgres.Tx, clientID string, e *Export) error {
	sessions, err := s.deps.Accounts.Sessions(ctx, tx, clientID, "")
	if err != nil {
		return err
	}
	for _, b := range sessions {
		e.Sessions = append(e.Sessions, Session{b.Device.UserAgent, b.Device.Address, clock.Stamp(b.SignedInAt),
			clock.Stamp(b.LastUsedAt)})
	}
	keys, err := s.deps.SelfService.Passkeys(ctx, tx, clientID)
	if err != nil {
		return err
	}
	for _, k := range keys {
		e.Passkeys = append(e.Passkeys, Passkey{k.Name, clock.Stamp(k.CreatedAt), (*clock.Stamp)(k.LastUsedAt)})
	}
	return nil
}

func (s *Service) exportConnections(ctx context.Context, tx postgres.Tx, clientID string, e *Export) error {
	connections, err := s.deps.OAuth.Connections(ctx, tx, clientID)
	if err != nil {
		return err
	}
	for _, c := range connections {
		out := Connection{ApplicationID: c.Application.ID, Name: c.Application.Name, Scopes: []string{},
			Since: clock.Stamp(c.Since), LastUsedAt: (*clock.Stamp)(c.LastUsed)}
		for _, scope := range c.Scopes {
			out.Scopes = append(out.Scopes, string(scope))
		}
		e.Connections = append(e.Connections, out)
	}
	return nil
}

func (s *Service) exportUses(ctx context.Context, tx postgres.Tx, clientID string, e *Export) error {
	counts, err := s.deps.Access.Of(ctx, tx, clientID, access.Kept(tx.Now))
	for _, c := range counts {
		e.Uses = append(e.Uses, Use{c.ApplicationID, string(c.Category), c.Day.Format(time.DateOnly), c.Uses,
			clock.Stamp(c.LastAt)})
	}
	return err
}

func (s *Service) exportWallet(ctx context.Context, tx postgres.Tx, clientID string, e *Export) error {
	b, err := s.deps.Wallet.Balance(ctx, tx, clientID)
	if err != nil {
		return err
	}
	e.Wallet = Wallet{BalanceCents: b.Balance, AvailableCents: b.Available, HeldCents: b.Held,
		Transactions: []Transaction{}}
	for before, more := int64(0), true; more; {
		items, further, err := s.deps.Wallet.Transactions(ctx, tx, clientID, before, pageSize)
		if err != nil {
			return err
		}
		for _, t := range items {
			e.Wallet.Transactions = append(e.Wallet.Transactions, Transaction{t.ID, string(t.Type), t.Amount,
				t.BalanceAfter, t.AvailableAfter, t.ApplicationID, t.ConsultationID, t.Description,
				clock.Stamp(t.CreatedAt)})
			before = t.Seq
		}
		more = further
	}
	return nil
}

func (s *Service) exportConsultations(ctx context.Context, tx postgres.Tx, clientID string, e *Export) error {
	var before consultation.Position
	for more := true; more; {
		items, further, err := s.deps.Consultations.ListForClient(ctx, tx, clientID, before, pageSize)
		if err != nil {
			return err
		}
		for _, c := range items {
			out, err := s.exportConsultation(ctx, tx, c)
			if err != nil {
				return err
			}
			e.Consultations = append(e.Consultations, out)
			before = consultation.Position{CreatedAt: c.CreatedAt, ID: c.ID}
		}
		more = further
	}
	return nil
}

func (s *Service) exportConsultation(ctx context.Context, tx postgres.Tx,
	c consultation.Consultation,
) (Consultation, error) {
	out := recordOf(c)
	preview, err := s.deps.Consultations.Note(ctx, tx, c.ApplicationID, c.ClientID, c.ID)
	if err != nil && !errors.Is(err, consultation.ErrNoteNotAvailable) {
		return out, err
	}
	out.NotePreview = preview.Text
	w, found, err := s.deps.Consultations.Withdrawn(ctx, tx, c.ID)
	if err != nil {
		return out, err
	}
	if found {
		out.WithdrawnAt = (*clock.Stamp)(&w.DeclaredAt)
	}
	p, err := s.deps.Consultations.ProofOf(ctx, tx, c.ClientID, c.ID)
	if errors.Is(err, problem.ErrNotFound) {
		return out, nil
	}
	out.Waiver = waiver(p)
	return out, err
}

// recordOf converts the consultation's own columns. A test checks that every column is exported or left out for a
// reason.
func recordOf(c consultation.Consultation) Consultation {
	return Consultation{
		ID: c.ID, ApplicationID: c.ApplicationID, Status: string(c.Status), Competence: c.Competence,
		Language: c.Language, Subject: c.Subject, Description: c.Description, ExternalRef: c.ExternalRef,
		RecordingConsent: c.RecordingConsent, PriceCents: c.Price, RefundedCents: c.Refunded,
		EndReason: string(c.EndReason), CreatedAt: clock.Stamp(c.CreatedAt), AssignedAt: (*clock.Stamp)(c.AssignedAt),
		CallStartedAt: (*clock.Stamp)(c.CallStartedAt), CallEndedAt: (*clock.Stamp)(c.CallEndedAt),
		DurationSec: c.DurationSec, CompletedAt: (*clock.Stamp)(c.CompletedAt),
		CancelledAt: (*clock.Stamp)(c.CancelledAt),
		ExpiredAt:   (*clock.Stamp)(c.ExpiredAt),
	}
}
