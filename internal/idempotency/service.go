package idempotency

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"partnerd/internal/postgres"
	"partnerd/internal/problem"
	"partnerd/internal/seal"
)

const purgeBatch = 5000

// Service runs operations at most once a key. Safe for concurrent use.
type Service struct {
	db  *postgres.DB
	box *seal.Box
}

// New returns the service. Stored responses are sealed with box: they repeat what clients wrote.
func New(db *postgres.DB, box *seal.Box) *Service { return &Service{db, box} }

// Effect is an operation: what it does in tx, and the status and body (written as JSON) that it answers.
type Effect func(tx postgres.Tx) (status int, body any, err error)

// Do runs effect once for the key of r, in the transaction that also keeps its response, or returns the response of the
// first time.
//
// Problems: IDEMPOTENCY_CONFLICT, IDEMPOTENCY_IN_PROGRESS, and whatever effect returns. When effect returns a problem,
// all it did is rolled back and the key stays bound to the body (T6).
func (s *Service) Do(ctx context.Context, r Request, effect Effect) (Response, error) {
	var out Response
	err := s.db.InTx(ctx, func(tx postgres.Tx) error {
		stored, err := s.claim(ctx, tx, r)
		if err != nil {
			return err
		}
		if stored != nil {
			out = *stored
			return nil
		}
		if out, err = run(tx, effect); err != nil {
			return err
		}
		sealed, err := s.box.Seal(r.place(), out.Body)
		if err != nil {
			return err
		}
		return store(ctx, tx, r, out.Status, sealed)
	})
	if err == nil {
		return out, nil
	}
	if _, refused := problem.As(err); refused && !errors.Is(err, ErrConflict) && !errors.Is(err, ErrInProgress) {
		return s.Refuse(ctx, r, err)
	}
	return Response{}, err
}

// Once runs effect in a transaction of its own, for a caller who sent no key.
func (s *Service) Once(ctx context.Context, effect Effect) (out Response, err error) {
	err = s.db.InTx(ctx, func(tx postgres.Tx) (err error) {
		out, err = run(tx, effect)
		return err
	})
	return out, err
}

func run(tx postgres.Tx, effect Effect) (Response, error) {
	status, body, err := effect(tx)
	if err != nil {
		return Response{}, err
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return Response{}, fmt.Errorf("write response: %w", err)
	}
	return Response{Status: status, Body: raw}, nil
}

// Refuse binds the key of r to its body and returns refusal, unless the key already says something else: a conflict, or
// the stored response. It is how a body that breaks the contract is answered in the order of T5.
func (s *Service) Refuse(ctx context.Context, r Request, refusal error) (Response, error) {
	var stored *Response
	err := s.db.InTx(ctx, func(tx postgres.Tx) (err error) {
		stored, err = s.claim(ctx, tx, r)
		return err
	})
	switch {
	case err != nil:
		return Response{}, err
	case stored != nil:
		return *stored, nil
	}
	return Response{}, refusal
}

// claim locks the key; it returns the stored response if there is one.
func (s *Service) claim(ctx context.Context, tx postgres.Tx, r Request) (*Response, error) {
	rec, err := claim(ctx, tx, r)
	switch {
	case err != nil:
		return nil, err
	case rec.Fingerprint != r.Fingerprint:
		return nil, ErrConflict
	case rec.Status == nil:
		return nil, nil
	}
	body, err := s.box.Open(r.place(), rec.Body)
	if err != nil {
		return nil, err
	}
	return &Response{Status: *rec.Status, Body: body, Replayed: true}, nil
}

// Purge deletes keys past their retention and returns how many.
func (s *Service) Purge(ctx context.Context) (int, error) {
	total := 0
	for {
		tx := s.db.Read()
		n, err := purge(ctx, tx, tx.Now, purgeBatch)
		total += n
		if err != nil || n < purgeBatch {
			return total, err
		}
	}
}

// EraseClient deletes the stored responses of a client, which hold what the client's partners wrote.
func (s *Service) EraseClient(ctx context.Context, tx postgres.Tx, clientID string) error {
	return eraseClient(ctx, tx, clientID)
}
