package telephony

import (
	"context"
	"errors"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
)

// Deliver takes one event of a provider. A repetition has no second effect.
type Deliver func(ctx context.Context, e Event) error

// Provider is a telephony provider of a live deployment: it takes commands, and it posts notices of what became of
// them.
type Provider interface {
	Adapter
	Inbound
	Collector() prometheus.Collector
}

// Inbound takes the notices of a provider, checks that they are the provider's, and delivers the events that they mean.
type Inbound interface {
	// Path is where notices arrive, and ends in a slash: behind it stand the id of a command and the kind of the
	// notice.
	Path() string
	// Handle takes a notice. Notices may be repeated and come in any order. Faults: [ErrSignature], [ErrMalformed],
	// [ErrUnknown].
	Handle(ctx context.Context, n Notice) (Reply, error)
}

// Notice is a request of the provider.
type Notice struct {
	CommandID, Kind string
	Address         string // path and query, as they were requested
	Header          http.Header
	Body            []byte
}

// MaxNotice is the longest body of a notice, in bytes.
const MaxNotice = 64 << 10

// Reply answers a notice: it tells the provider what to do on that leg. Most notices want none, and it is empty.
type Reply struct{ ContentType, Body string }

// Faults of notices.
var (
	ErrSignature = errors.New("the signature is not the provider's")
	ErrMalformed = errors.New("the notice cannot be read")
	ErrUnknown   = errors.New("there is no such leg")
)
