package telephony

import (
	"context"
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
)

// Deliver accepts one event of a provider. A repeated event has no second effect.
type Deliver func(ctx context.Context, e Event) error

// Provider is a telephony provider of a live deployment. It accepts commands and sends callbacks about their results.
type Provider interface {
	Adapter
	Inbound
	Collector() prometheus.Collector
}

// Inbound accepts the callbacks of a provider, verifies them and delivers the events that they mean.
type Inbound interface {
	// Path returns the path prefix of callbacks, with a trailing slash. The ID of a command and the kind of the
	// callback follow it.
	Path() string
	// Handle processes a callback. Callbacks may be repeated and come in any order. It returns [ErrSignature],
	// [ErrMalformed] or [ErrUnknown].
	Handle(ctx context.Context, n Notice) (Reply, error)
}

// Notice is a callback request of the provider.
type Notice struct {
	CommandID, Kind string
	Address         string // requested path and query
	Header          http.Header
	Body            []byte
}

// MaxNotice is the largest body of a callback, in bytes.
const MaxNotice = 64 << 10

// Reply is the response to a callback: instructions to the provider for that leg. It is empty for most callbacks.
type Reply struct{ ContentType, Body string }

// Errors of callbacks.
var (
	ErrSignature = errors.New("the signature is not the provider's")
	ErrMalformed = errors.New("the notice cannot be read")
	ErrUnknown   = errors.New("there is no such leg")
)
