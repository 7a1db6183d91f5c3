package httpapi

import (
	"context"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/idempotency"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
)

// request is what the middlewares learn of a call to /api/v1 and the handlers use.
type request struct {
	ID           string // X-Request-Id
	Address      string
	UserAgent    string
	Principal    oauth.Principal
	Idempotency  idempotency.Request // zero when the caller sent no key
	Session      staff.Session       // of a lawyer, in the Desk API
	sessionToken string
	stream       bool // the answer goes on, so its length is no latency
	// what the caller's acts rest on; nil until it is known who calls
	rests        func(now time.Time) (postgres.Premise, bool)
	rate         ratelimit.Decision // what the X-RateLimit headers say
	scope        string             // that the operation needs, when the token lacks it
	refusal      refusal
	refreshed    bool           // a refresh token was exchanged
	body         map[string]any // when it was read and is JSON
	consultation string         // that was created
}

// refusal is what an answer that is an error says, and what only the people of the application read of it: why a
// code or a refresh token was refused.
type refusal struct {
	Code   string          `json:"code"`
	Issues []problem.Issue `json:"issues"`
}

// network is what the address counts as.
func (r *request) network() string { return ratelimit.Network(r.Address) }

// Premise implements [postgres.Rests]: what a request does rests on its credentials until the end.
func (r *request) Premise(now time.Time) (postgres.Premise, bool) {
	if r.rests == nil {
		return postgres.Premise{}, false
	}
	return r.rests(now)
}

type requestKey struct{}

// requestOf returns the request of ctx; every context of a request has one.
func requestOf(ctx context.Context) *request {
	return ctx.Value(requestKey{}).(*request)
}
