package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/id"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
)

// Ping is the type of the POST that verifies a URL before it is used. It is not an event: it is sent once and not
// stored.
const Ping Type = "webhook.ping"

// ProveURL posts a signed ping, which must get a 2xx response, to a URL that is to become the endpoint's. The caller
// then sets it with [Service.SetURL]. It returns VALIDATION_ERROR with issue invalid_url, NOT_FOUND, or UNAVAILABLE if
// our own outbound connection fails.
func (s *Service) ProveURL(ctx context.Context, applicationID, rawURL string) error {
	if err := s.checkURL(rawURL); err != nil {
		return err
	}
	return s.ping(ctx, applicationID, rawURL)
}

// ping posts to a URL that is not the endpoint's yet, under the rules of every attempt.
func (s *Service) ping(ctx context.Context, applicationID, rawURL string) error {
	tx := s.db.Read()
	endpoint, err := selectEndpoint(ctx, tx, applicationID)
	if err != nil {
		return err
	}
	secret, previous, err := s.openSecrets(applicationID, endpoint.secrets(tx.Now))
	if err != nil {
		return err
	}
	eventID := tx.NewID(id.Event)
	body, err := json.Marshal(map[string]any{
		"id": eventID, "type": Ping, "createdAt": clock.Format(tx.Now), "data": struct{}{}})
	if err != nil {
		return fmt.Errorf("encode ping: %w", err)
	}
	o := s.sender.send(ctx, message{
		url: rawURL, secret: secret, previousSecret: previous, deliveryID: tx.NewID(id.Delivery), kind: Ping,
		sequence: 1, attempt: 1, body: body, applicationID: applicationID, test: true,
	})
	s.metrics.attempted(purposePing, o)
	s.log.With("application", applicationID).Info("webhook ping", o.logged()...)
	if ctx.Err() != nil {
		return fmt.Errorf("ping: %w", ctx.Err())
	}
	if o.class == classProxy {
		return problem.ErrUnavailable.Because("We could not reach the URL because our outbound connection " +
			"failed. Try again.")
	}
	if o.class != "" {
		return problem.ErrValidation.With(ruleURLPing.At("url", int(endpointTimeout/time.Second), o.errorText()))
	}
	return nil
}

// SendTest writes a test event of a type, about a consultation or a client that does not exist. It is delivered like
// any other, with [HeaderTest]. It returns VALIDATION_ERROR, NOT_FOUND, or RATE_LIMITED if too many deliveries are
// pending.
func (s *Service) SendTest(ctx context.Context, tx postgres.Tx, applicationID string, t Type) (Delivery, error) {
	if !slices.Contains(Types, t) && !slices.Contains(ClientTypes, t) {
		return Delivery{}, problem.ErrValidation.With(problem.Choice("type", string(t)))
	}
	if _, err := selectEndpoint(ctx, tx, applicationID); err != nil {
		return Delivery{}, err
	}
	if room, err := pendingRoom(ctx, tx, applicationID); err != nil || room == 0 {
		return Delivery{}, cmp.Or(err, errPending)
	}
	row := newEvent{ID: tx.NewID(id.Event), DeliveryID: tx.NewID(id.Delivery), ApplicationID: applicationID,
		Sequence: 1, Type: t}
	about := Subject{ConsultationID: tx.NewID(id.Consultation), ClientID: tx.NewID(id.Client), ExternalRef: "test"}
	var err error
	if row.Body, err = Sample(row.ID, about, t, tx.Now); err != nil {
		return Delivery{}, err
	}
	if err := insertEvents(ctx, tx, []newEvent{row}); err != nil {
		return Delivery{}, fmt.Errorf("write test event of %s: %w", applicationID, err)
	}
	tx.AfterCommit(s.wakeUp)
	return selectDelivery(ctx, tx, applicationID, row.DeliveryID)
}

// Sample returns the body of a test event of a type. Only the IDs in about need to be set.
func Sample(eventID string, about Subject, t Type, now time.Time) ([]byte, error) {
	if slices.Contains(ClientTypes, t) {
		return encode(payload{eventID, t, clock.Format(now), clientData{about.ClientID}})
	}
	about.Competence, about.Price = "HOUSING", wallet.Price
	event := Event{Type: t, Status: testStatus[t], EndReason: testReason[t]}
	switch t {
	case CallEnded, Completed, NoteAvailable:
		seconds := int((12 * time.Minute).Seconds())
		event.DurationSec = &seconds
	case PendingCallback:
		due := now.Add(24 * time.Hour)
		event.CallbackDueAt = &due
	case Cancelled, Expired, Refunded:
		event.Refunded = &about.Price
	case Created, PaymentAuthorized, Matching, Assigned, CallStarted, ClientDisconnected, WalletToppedUp, Ping:
		// nothing more
	}
	return encodeBody(eventID, about, event, now)
}

// testReason is the end reason in test events.
var testReason = map[Type]string{Cancelled: "CANCELLED_BY_PARTNER", Refunded: "CANCELLED_BY_PARTNER",
	Expired: "GUARANTEE_MISSED"}

// testStatus is the status of a consultation after each type of event.
var testStatus = map[Type]string{
	Created: "DRAFT", PaymentAuthorized: "MATCHING", Matching: "MATCHING", Assigned: "ASSIGNED", CallStarted: "IN_CALL",
	CallEnded: "CALL_ENDED", Completed: "COMPLETED", NoteAvailable: "COMPLETED", PendingCallback: "PENDING_CALLBACK",
	Cancelled: "CANCELLED", Refunded: "CANCELLED", Expired: "EXPIRED",
}
