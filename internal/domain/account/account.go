package account

import (
	"cmp"
	"errors"
	"time"

	"partnerd/internal/base/text"
)

// SessionLifetime is how long a browser session lasts after the sign-in.
const SessionLifetime = 12 * time.Hour

const maxNameLength = 200 // code points

// Faults that pages and the command line show. None of them is part of the partner contract.
var (
	ErrEmailTaken     = errors.New("a client with this e-mail address exists already")
	ErrInvalid        = errors.New("invalid client")
	ErrBadCredentials = errors.New("e-mail address or password is wrong")
	ErrDisabled       = errors.New("the account is disabled") // only for whoever has proven to be its client
	ErrNoSession      = errors.New("nobody is signed in")
)

// Client is an end client of the service (specification section 2.1).
type Client struct {
	ID            string
	Email         string
	Name          string
	PhoneVerified bool // there is a number, and it was proven to be the client's
	Disabled      bool // also when erased
	Erased        bool
	CreatedAt     time.Time
	TimeZone      string // of the IANA database
	Language      string // in which the client reads our messages; empty when that is not known yet

	browserEpoch int
}

// Speaks is the language of messages to the client: their own, or asked, that of the page from which a message is
// caused.
func (c Client) Speaks(asked string) string { return text.Known(cmp.Or(c.Language, asked)) }

// NewClient is what [Service.Create] needs.
type NewClient struct {
	Email         string // stored without outer white space
	Password      string // of the length of [password.OfClients]
	Name          string // 1 to 200 code points
	Phone         string // any usual notation, French without a country code; empty for none
	PhoneVerified bool
	TimeZone      string // of the IANA database; empty: that of every new client
}
