package webhook

import (
	"context"
	"fmt"
	"slices"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/id"
	"partnerd/internal/base/problem"
	"partnerd/internal/infra/postgres"
)

var ruleEvents = problem.DeclareRule("events", problem.IssueInvalidValue,
	"Must contain only %s and %s, each at most once.")

// SetEnabledEvents sets which of [ClientTypes] an application gets, from the next event on. It returns VALIDATION_ERROR
// or NOT_FOUND.
func (s *Service) SetEnabledEvents(ctx context.Context, tx postgres.Tx, applicationID string, types []Type) error {
	enabled := []Type{}
	for _, t := range ClientTypes { // in their order, each once
		if slices.Contains(types, t) {
			enabled = append(enabled, t)
		}
	}
	if len(enabled) != len(types) {
		return problem.ErrValidation.With(ruleEvents.At("enabledEvents", ClientDisconnected, WalletToppedUp))
	}
	return updateEnabledEvents(ctx, tx, applicationID, enabled)
}

// Tell writes an event of one of [ClientTypes], and a delivery for each given application that has enabled the type. It
// runs in the caller's transaction. The caller selects the applications that may know of the event, and calls Tell once
// per event.
func (s *Service) Tell(ctx context.Context, tx postgres.Tx, clientID string, t Type, applicationIDs []string) error {
	if !slices.Contains(ClientTypes, t) {
		return fmt.Errorf("%q is no type of an event about a client", t)
	}
	if len(applicationIDs) == 0 {
		return nil
	}
	numbers, err := nextOfClient(ctx, tx, clientID, t, applicationIDs)
	if err != nil {
		return fmt.Errorf("number events about client %s: %w", clientID, err)
	}
	if len(numbers) == 0 {
		return nil
	}
	var rows []newEvent
	for _, n := range numbers {
		row := newEvent{ID: tx.NewID(id.Event), DeliveryID: tx.NewID(id.Delivery), ApplicationID: n.ApplicationID,
			ClientID: clientID, Sequence: n.LastSequence, Type: t}
		if row.Body, err = encode(payload{row.ID, t, clock.Format(tx.Now), clientData{clientID}}); err != nil {
			return err
		}
		rows = append(rows, row)
	}
	if err := insertEvents(ctx, tx, rows); err != nil {
		return fmt.Errorf("write events about client %s: %w", clientID, err)
	}
	tx.AfterCommit(s.wakeUp)
	return nil
}
