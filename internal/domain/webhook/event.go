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

// The twelve types.
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

// Types lists all types in the order of the specification.
var Types = []Type{
	Created, PaymentAuthorized, Matching, Assigned, CallStarted, CallEnded,
	Completed, NoteAvailable, PendingCallback, Cancelled, Refunded, Expired,
}

// The types of events about a client, which an application turns on for itself.
const (
	ClientDisconnected Type = "client.disconnected"
	WalletToppedUp     Type = "wallet.topped_up"
)

// ClientTypes lists them.
var ClientTypes = []Type{ClientDisconnected, WalletToppedUp}

// Subject is the consultation that events are about.
type Subject struct {
	ApplicationID, ConsultationID, ClientID, Competence string
	ExternalRef                                         string      // empty when the application gave none
	Price                                               money.Cents // of the consultation
}

// Event is one thing that happened to a subject. What is nil or empty is left out of the body.
type Event struct {
	Type          Type
	Status        string       // of the consultation, after the transition
	DurationSec   *int         // of the call, in seconds; nil before it ended
	CallbackDueAt *time.Time   // by when the client is called back; with PendingCallback alone
	EndReason     string       // why it was cancelled or expired
	Refunded      *money.Cents // what the client has again; with the events of an end and of a refund
}

// payload is the body of a delivery (specification section 6.2). Keys without a value are left out (trap T12).
type payload struct {
	ID        string `json:"id"`
	Type      Type   `json:"type"`
	CreatedAt string `json:"createdAt"`
	Data      any    `json:"data"` // consultationData or clientData
}

// clientData says who it is and nothing else: when it arrives, the link may have ended.
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

// encodeBody returns the bytes that will be sent for an event, whatever the number of attempts.
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
