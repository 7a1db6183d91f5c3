package idempotency

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/base/seal"
	"partnerd/internal/infra/postgres"
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
	out, err := s.Form(ctx, r, effect)
	if err == nil {
		return out, nil
	}
	if _, refused := problem.As(err); refused && !errors.Is(err, ErrConflict) && !errors.Is(err, ErrInProgress) {
		return s.Refuse(ctx, r, err)
	}
	return Response{}, err
}

// Form is [Service.Do] for what a person sends: a refusal binds nothing, because they correct the form and send it
// again.
func (s *Service) Form(ctx context.Context, r Request, effect Effect) (out Response, err error) {
	err = s.db.InTx(ctx, func(tx postgres.Tx) error {
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
		return s.keep(ctx, tx, r, out)
	})
	return out, err
}

// Alone is [Service.Form] for an effect that has transactions of its own, or waits for others. While it runs, a twin
// gets IDEMPOTENCY_IN_PROGRESS. When the process ends in the middle, the key is free after two minutes.
func (s *Service) Alone(ctx context.Context, r Request,
	effect func(context.Context) (int, any, error),
) (out Response, err error) {
	var stored *Response
	err = s.db.InTx(ctx, func(tx postgres.Tx) error {
		if stored, err = s.claim(ctx, tx, r); err != nil || stored != nil {
			return err
		}
		since, err := run(tx, func(postgres.Tx) (int, any, error) { return running, tx.Now, nil })
		if err != nil {
			return err
		}
		return s.keep(ctx, tx, r, since)
	})
	if err != nil || stored != nil {
		return deref(stored), err
	}
	status, body, refusal := effect(ctx)
	// the effect has been, whether or not anybody still waits or may ask for it
	after := postgres.Regardless(context.WithoutCancel(ctx))
	err = s.db.InTx(after, func(tx postgres.Tx) (err error) {
		if refusal != nil {
			return release(after, tx, r)
		}
		if out, err = run(tx, func(postgres.Tx) (int, any, error) { return status, body, nil }); err != nil {
			return err
		}
		return s.keep(after, tx, r, out)
	})
	return out, errors.Join(refusal, err)
}

// running is the status of a key whose effect runs by [Service.Alone]; its body is since when.
const (
	running  = 102
	aloneFor = 2 * time.Minute
)

func deref(r *Response) Response {
	if r == nil {
		return Response{}
	}
	return *r
}

// Keep stores the response of what tx does under the key of r, which no other transaction has kept before: [ErrKept].
// It is for whoever learns what to answer within a transaction that somebody else began.
func (s *Service) Keep(ctx context.Context, tx postgres.Tx, r Request, status int, body any) error {
	stored, err := s.claim(ctx, tx, r)
	if err != nil {
		return err
	}
	if stored != nil {
		return ErrKept
	}
	out, err := run(tx, func(postgres.Tx) (int, any, error) { return status, body, nil })
	if err != nil {
		return err
	}
	return s.keep(ctx, tx, r, out)
}

// Stored returns the response that is kept under the key of r; nil when there is none. Problem: IDEMPOTENCY_CONFLICT.
func (s *Service) Stored(ctx context.Context, r Request) (*Response, error) {
	tx := s.db.Read()
	rec, found, err := find(ctx, tx, r, tx.Now)
	if err != nil || !found {
		return nil, err
	}
	return s.opened(r, rec, tx.Now)
}

// Kept returns the response that is kept under the key of r, whatever was sent under it, and changes nothing. The
// fingerprint of r is not looked at: whoever knows the key reads what it answered. It returns nil when there is none.
// Problem: IDEMPOTENCY_IN_PROGRESS.
func (s *Service) Kept(ctx context.Context, r Request) (*Response, error) {
	tx := s.db.Read()
	rec, found, err := find(ctx, tx, r, tx.Now)
	if err != nil || !found {
		return nil, err
	}
	r.Fingerprint = rec.Fingerprint
	return s.opened(r, rec, tx.Now)
}

// Replace has the stored response of r changed by change, which gets what is kept and returns what is kept from now on.
// The fingerprint of r is not looked at: whoever knows the key reads what it answered. Without a response change is not
// called, and found is false.
func (s *Service) Replace(ctx context.Context, r Request,
	change func(body []byte) (any, error),
) (found bool, err error) {
	err = s.db.InTx(ctx, func(tx postgres.Tx) error {
		rec, known, err := find(ctx, tx, r, tx.Now, postgres.ForUpdate)
		if err != nil || !known || rec.Status == nil {
			return err
		}
		r.Fingerprint = rec.Fingerprint
		stored, err := s.opened(r, rec, tx.Now)
		if err != nil || stored == nil { // nil: its process ended before it answered
			return err
		}
		found = true
		out, err := run(tx, func(postgres.Tx) (int, any, error) {
			body, err := change(stored.Body)
			return stored.Status, body, err
		})
		if err != nil {
			return err
		}
		sealed, err := s.box.Seal(r.place(), out.Body)
		if err != nil {
			return err
		}
		return replace(ctx, tx, r, sealed)
	})
	return found, err
}

func (s *Service) keep(ctx context.Context, tx postgres.Tx, r Request, out Response) error {
	sealed, err := s.box.Seal(r.place(), out.Body)
	if err != nil {
		return err
	}
	return store(ctx, tx, r, out.Status, sealed)
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
	if err != nil {
		return nil, err
	}
	return s.opened(r, rec, tx.Now)
}

// opened is the response in rec, nil when there is none.
func (s *Service) opened(r Request, rec keyRow, now time.Time) (*Response, error) {
	switch {
	case rec.Fingerprint != r.Fingerprint:
		return nil, ErrConflict
	case rec.Status == nil:
		return nil, nil
	}
	body, err := s.box.Open(r.place(), rec.Body)
	if err != nil {
		return nil, err
	}
	if *rec.Status == running {
		var since time.Time
		if err := json.Unmarshal(body, &since); err != nil {
			return nil, fmt.Errorf("read since when a request runs: %w", err)
		}
		if now.Sub(since) < aloneFor {
			return nil, ErrInProgress
		}
		return nil, nil // its process has ended
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
