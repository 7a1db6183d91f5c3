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

// Service runs operations at most once per key. It is safe for concurrent use.
type Service struct {
	db  *postgres.DB
	box *seal.Box
}

// New returns the service. Stored responses are sealed with box, because they contain what clients wrote.
func New(db *postgres.DB, box *seal.Box) *Service { return &Service{db, box} }

// Effect is an operation: it acts in tx and returns the status and body of the response. body is encoded as JSON.
type Effect func(tx postgres.Tx) (status int, body any, err error)

// Do runs effect once for the key of r, in the transaction that also stores its response, or returns the stored
// response.
//
// Problems: IDEMPOTENCY_CONFLICT, IDEMPOTENCY_IN_PROGRESS, and those of effect. If effect returns a problem, its
// changes are rolled back and the key stays bound to the body (T6).
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

// Form is [Service.Do] for a form sent by a person. A refusal binds nothing, because they correct the form and send it
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

// Alone is [Service.Form] for an effect that has its own transactions or waits for others. While it runs, a duplicate
// gets IDEMPOTENCY_IN_PROGRESS. If the process ends in between, the key is free again after two minutes.
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
	// the effect has happened, even if the caller has gone or may no longer ask
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

// running is the status of a key whose effect is run by [Service.Alone]; the body is its start time.
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

// Keep stores the response of what tx does under the key of r. If another transaction has already stored one, it
// returns [ErrKept]. Use it where the response is determined within a transaction that another package began.
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

// Stored returns the response stored under the key of r, or nil if there is none. Problem: IDEMPOTENCY_CONFLICT.
func (s *Service) Stored(ctx context.Context, r Request) (*Response, error) {
	tx := s.db.Read()
	rec, found, err := find(ctx, tx, r, tx.Now)
	if err != nil || !found {
		return nil, err
	}
	return s.opened(r, rec, tx.Now)
}

// Kept returns the response stored under the key of r, or nil if there is none, and changes nothing. It ignores the
// fingerprint of r: knowing the key is enough to read its response. Problem: IDEMPOTENCY_IN_PROGRESS.
func (s *Service) Kept(ctx context.Context, r Request) (*Response, error) {
	tx := s.db.Read()
	rec, found, err := find(ctx, tx, r, tx.Now)
	if err != nil || !found {
		return nil, err
	}
	r.Fingerprint = rec.Fingerprint
	return s.opened(r, rec, tx.Now)
}

// Replace replaces the stored response of r by the result of change, which receives the current body. It ignores the
// fingerprint of r: knowing the key is enough. If no response is stored, change is not called and found is false.
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
		if err != nil || stored == nil { // nil: its process ended before it responded
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

// Once runs effect in its own transaction, for a caller who sent no key.
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

// Refuse binds the key of r to its body and returns refusal. If the key is already bound otherwise, it returns a
// conflict or the stored response instead. It thus rejects a body that violates the contract in the order of T5.
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

// claim locks the key and returns the stored response, if there is one.
func (s *Service) claim(ctx context.Context, tx postgres.Tx, r Request) (*Response, error) {
	rec, err := claim(ctx, tx, r)
	if err != nil {
		return nil, err
	}
	return s.opened(r, rec, tx.Now)
}

// opened returns the response in rec, or nil if there is none.
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

// EraseClient deletes the stored responses of a client, which contain what the client's partners wrote.
func (s *Service) EraseClient(ctx context.Context, tx postgres.Tx, clientID string) error {
	return eraseClient(ctx, tx, clientID)
}
