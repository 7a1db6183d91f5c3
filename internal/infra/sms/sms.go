// Package sms sends text messages to phones: they are written in the transaction of their cause and sent afterwards by
// the queue. A sandbox stores them in a directory instead; a live deployment passes them to a provider over HTTP.
//
// Tables: sms_messages.
//
// The table records that sending a message has begun. Such providers offer no idempotency, so an uncertain outcome (a
// crash, a connection lost after the request) is not retried: the person asks for another message. A definite failure
// is retried until the message expires.
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
	ClientID  string    `json:"clientId,omitempty"` // recipient; empty if not a client
}

// Sender delivers a message. An error that wraps [ErrNotSent] means that the message was definitely not sent, and
// [ErrRefused] that it never will be. After any other error it may have been sent.
type Sender interface {
	Send(ctx context.Context, m Message) error
}

// Outcomes that are certain after a failure.
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

// Service queues text messages within transactions.
type Service struct {
	db     *postgres.DB
	queue  *queue.Queue
	box    *seal.Box
	sender Sender
	log    *slog.Logger

	// Service is the service's name in every message; empty means [text.Product]. Set it before anything is sent.
	Service string
}

type job struct {
	ID     string `json:"id"`
	Sealed []byte `json:"sealed"`
}

// New returns the service and registers its handler with the queue.
func New(db *postgres.DB, q *queue.Queue, box *seal.Box, sender Sender, log *slog.Logger) *Service {
	s := &Service{db: db, queue: q, box: box, sender: sender, log: log}
	queue.Handle(q, jobName, s.send)
	return s
}

// Send queues m, with the service's name in it, to be sent once the transaction has committed. It is encrypted while it
// waits.
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
	case err != nil: // refused, or uncertain
		return queue.Final(err)
	}
	return nil
}

// Purge deletes the records of messages that can no longer be sent.
func (s *Service) Purge(ctx context.Context) (int, error) {
	tx := s.db.Read()
	return purge(ctx, tx, tx.Now.Add(-keep))
}
