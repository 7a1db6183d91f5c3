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

// request holds what the middlewares learn about a call to /api and the handlers use.
type request struct {
	ID           string // X-Request-Id
	Address      string
	UserAgent    string
	Principal    oauth.Principal
	Idempotency  idempotency.Request // zero if the caller sent no key
	Session      staff.Session       // of a lawyer, in the Desk API
	sessionToken string
	stream       bool // the response stays open, so its duration is no latency
	// the premise of the caller's actions; nil until the caller is identified
	rests        func(now time.Time) (postgres.Premise, bool)
	rate         ratelimit.Decision // content of the X-RateLimit headers
	scope        string             // required by the operation but missing from the token
	refusal      refusal
	refreshed    bool           // a refresh token was exchanged
	body         map[string]any // if it was read and is JSON
	consultation string         // ID of the created consultation
}

// refusal is the content of an error response. It also holds what only the application's team may see: why a code or a
// refresh token was rejected.
type refusal struct {
	Code   string          `json:"code"`
	Issues []problem.Issue `json:"issues"`
}

// network returns the network as which the address is counted.
func (r *request) network() string { return ratelimit.Network(r.Address) }

// Premise implements [postgres.Rests]. The effects of a request depend on its credentials until it ends.
func (r *request) Premise(now time.Time) (postgres.Premise, bool) {
	if r.rests == nil {
		return postgres.Premise{}, false
	}
	return r.rests(now)
}

type requestKey struct{}

// requestOf returns the request of ctx. Every context of a request has one.
func requestOf(ctx context.Context) *request {
	return ctx.Value(requestKey{}).(*request)
}
