package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/money"
)

// Type is the type of an event (specification section 6.1).
type Type string

// The twelve types of events about consultations.
const (
	Created           Type = "consultation.created"
	PaymentAuthorized Type = "consultation.payment_authorized"
	Matching          Type = "consultation.matching"
	Assigned          Type = "consultation.assigned"
	CallStarted       Type = "consultation.call_started"
	CallEnded         Type = "consultation.call_ended"
	Completed         Type = "consultation.completed"
	NoteAvailable     Type = "consultation.note_available"
	PendingCallback   Type = "consultation.pending_callback"
	Cancelled         Type = "consultation.cancelled"
	Refunded          Type = "consultation.refunded"
	Expired           Type = "consultation.expired"
)

// Types lists these types in the order of the specification.
var Types = []Type{
	Created, PaymentAuthorized, Matching, Assigned, CallStarted, CallEnded,
	Completed, NoteAvailable, PendingCallback, Cancelled, Refunded, Expired,
}

// The types of events about a client, which applications enable themselves.
const (
	ClientDisconnected Type = "client.disconnected"
	WalletToppedUp     Type = "wallet.topped_up"
)

// ClientTypes lists the types of events about a client.
var ClientTypes = []Type{ClientDisconnected, WalletToppedUp}

// Subject is the consultation that events are about.
type Subject struct {
	ApplicationID, ConsultationID, ClientID, Competence string
	ExternalRef                                         string      // empty if the application gave none
	Price                                               money.Cents // of the consultation
}

// Event is something that happened to a subject. Nil and empty fields are omitted from the body.
type Event struct {
	Type          Type
	Status        string       // of the consultation after the transition
	DurationSec   *int         // of the call, in seconds; nil until the call has ended
	CallbackDueAt *time.Time   // deadline of the callback; PendingCallback only
	EndReason     string       // why it was cancelled or expired
	Refunded      *money.Cents // amount released or refunded to the client; only with events of an end or a refund
}

// payload is the body of a delivery (specification section 6.2). Keys without a value are omitted (trap T12).
type payload struct {
	ID        string `json:"id"`
	Type      Type   `json:"type"`
	CreatedAt string `json:"createdAt"`
	Data      any    `json:"data"` // consultationData or clientData
}

// clientData contains only the client's ID: when it arrives, the connection may have ended.
type clientData struct {
	ClientID string `json:"clientId"`
}

type consultationData struct {
	ID            string       `json:"id"`
	ClientID      string       `json:"clientId,omitempty"`
	Status        string       `json:"status"`
	Competence    string       `json:"competence"`
	ExternalRef   string       `json:"externalRef,omitempty"`
	PriceCents    money.Cents  `json:"priceCents,omitempty"`
	DurationSec   *int         `json:"durationSec,omitempty"`
	CallbackDueAt *clock.Stamp `json:"callbackDueAt,omitempty"`
	EndReason     string       `json:"endReason,omitempty"`
	RefundedCents *money.Cents `json:"refundedCents,omitempty"`
}

// encodeBody returns the bytes sent for an event in every attempt.
func encodeBody(eventID string, s Subject, e Event, now time.Time) ([]byte, error) {
	if !slices.Contains(Types, e.Type) {
		return nil, fmt.Errorf("%q is not an event type", e.Type)
	}
	return encode(payload{eventID, e.Type, clock.Format(now), consultationData{
		ID: s.ConsultationID, ClientID: s.ClientID, Status: e.Status, Competence: s.Competence,
		ExternalRef: s.ExternalRef, PriceCents: s.Price, DurationSec: e.DurationSec,
		CallbackDueAt: (*clock.Stamp)(e.CallbackDueAt), EndReason: e.EndReason, RefundedCents: e.Refunded,
	}})
}

func encode(p payload) ([]byte, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p); err != nil {
		return nil, fmt.Errorf("encode event: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
