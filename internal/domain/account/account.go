package account

import (
	"cmp"
	"errors"
	"time"

	"partnerd/internal/base/text"
)

// SessionLifetime is how long a browser session lasts after sign-in.
const SessionLifetime = 12 * time.Hour

const maxNameLength = 200 // code points

// Errors that pages and the command line show. None of them is part of the partner contract.
var (
	ErrEmailTaken     = errors.New("a client with this e-mail address exists already")
	ErrInvalid        = errors.New("invalid client")
	ErrBadCredentials = errors.New("e-mail address or password is wrong")
	ErrDisabled       = errors.New("the account is disabled") // only for a caller who has proven to be the client
	ErrNoSession      = errors.New("nobody is signed in")
)

// Client is an end client of the service (specification section 2.1).
type Client struct {
	ID            string
	Email         string
	Name          string
	PhoneVerified bool // whether the client has a number and has proved that it is theirs
	Disabled      bool // also when erased
	Erased        bool
	CreatedAt     time.Time
	TimeZone      string // IANA name
	Language      string // language of messages to the client; empty if not known yet

	browserEpoch int
}

// Speaks returns the language of messages to the client: their own or, if that is not known, asked. Callers pass the
// language of the page that causes the message.
func (c Client) Speaks(asked string) string { return text.Known(cmp.Or(c.Language, asked)) }

// NewClient is the input of [Service.Create].
type NewClient struct {
	Email         string // surrounding whitespace is removed
	Password      string // length as in [password.OfClients]
	Name          string // 1 to 200 code points
	Phone         string // any usual notation; French without a country code; empty for none
	PhoneVerified bool
	TimeZone      string // IANA name; empty for the default of new clients
}
