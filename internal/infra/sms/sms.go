// Package sms sends text messages to phones: written in the transaction of their cause, sent after it by the queue. A
// sandbox keeps them in a folder instead; a live deployment hands them to a provider over HTTP.
//
// Tables: sms_messages.
// It remembers that sending a message was begun. Providers of this kind know no idempotency, so
// a message whose sending ended in doubt (a crash, a connection lost after the request) is not sent again: the person
// asks for another one. A refusal that is certain is tried again until the message is out of date.
package sms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"partnerd/internal/base/id"
	"partnerd/internal/base/seal"
	"partnerd/internal/base/text"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/queue"
)

// Message is a short text for one phone.
type Message struct {
	To        string    `json:"to"` // E.164
	Text      string    `json:"text"`
	ExpiresAt time.Time `json:"expiresAt"`          // not sent from then on
	ClientID  string    `json:"clientId,omitempty"` // whom it is for; empty for one who is no client
}

// Sender hands a message to the world. An error that wraps [ErrNotSent] means that it certainly did not go out,
// [ErrRefused] that it never will; after any other error it may have.
type Sender interface {
	Send(ctx context.Context, m Message) error
}

// What is certain about a failure.
var (
	ErrNotSent = errors.New("message was not sent")
	ErrRefused = errors.New("message is refused for good")
)

const (
	jobName     = "sms"
	place       = "sms.message"
	sendTimeout = 20 * time.Second
	keep        = 24 * time.Hour
)

// Service writes text messages into transactions.
type Service struct {
	db     *postgres.DB
	queue  *queue.Queue
	box    *seal.Box
	sender Sender
	log    *slog.Logger

	// Service is what the service is called in every message; empty: [text.Product]. Set it before anything is sent.
	Service string
}

type job struct {
	ID     string `json:"id"`
	Sealed []byte `json:"sealed"`
}

// New makes the service and tells the queue how to send.
func New(db *postgres.DB, q *queue.Queue, box *seal.Box, sender Sender, log *slog.Logger) *Service {
	s := &Service{db: db, queue: q, box: box, sender: sender, log: log}
	queue.Handle(q, jobName, s.send)
	return s
}

// Send lets m, with the service's name in it, be sent once the transaction has committed. It is sealed while it waits.
func (s *Service) Send(ctx context.Context, tx postgres.Tx, m Message) error {
	m.Text = text.Named(m.Text, s.Service)
	raw, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write text message: %w", err)
	}
	sealed, err := s.box.Seal(place, raw)
	if err != nil {
		return err
	}
	return s.queue.Insert(ctx, tx, jobName, job{ID: tx.NewID(id.TextMessage), Sealed: sealed})
}

func (s *Service) send(ctx context.Context, j job) error {
	raw, err := s.box.Open(place, j.Sealed)
	if err != nil {
		return err
	}
	var m Message
	if err := json.Unmarshal(raw, &m); err != nil {
		return fmt.Errorf("read text message: %w", err)
	}
	if !s.db.Read().Now.Before(m.ExpiresAt) {
		s.log.Warn("text message is out of date and was not sent", "message", j.ID)
		return nil
	}
	begun, err := begin(ctx, s.db.Read(), j.ID)
	if err != nil {
		return err
	}
	if !begun {
		s.log.Warn("text message may have been sent before and is not sent again", "message", j.ID)
		return nil
	}
	sending, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	err = s.sender.Send(sending, m)
	switch {
	case errors.Is(err, ErrNotSent):
		return errors.Join(err, forget(context.WithoutCancel(ctx), s.db.Read(), j.ID))
	case err != nil: // refused, or in doubt
		return queue.Final(err)
	}
	return nil
}

// Purge deletes what is remembered of messages that can no longer be sent.
func (s *Service) Purge(ctx context.Context) (int, error) {
	tx := s.db.Read()
	return purge(ctx, tx, tx.Now.Add(-keep))
}
