package application

import (
	"errors"
	"slices"
	"time"
)

// For how long the previous secret can work after a rotation.
const (
	SecretOverlap    = 24 * time.Hour // unless chosen otherwise
	MaxSecretOverlap = 90 * 24 * time.Hour
)

// Faults that the command line and the OAuth endpoints translate.
var (
	ErrInvalid        = errors.New("invalid application")
	ErrBadCredentials = errors.New("application credentials are wrong")
)

// Scope is one permission that a client can give to an application (specification section 5).
type Scope string

// The seven scopes.
const (
	ProfileRead        Scope = "profile:read"        // client profile
	WalletRead         Scope = "wallet:read"         // wallet balance and history
	WalletTopUp        Scope = "wallet:topup"        // starting a wallet top-up
	ConsultationsRead  Scope = "consultations:read"  // reading consultations, coverage
	ConsultationsWrite Scope = "consultations:write" // creating and cancelling consultations
	NotesRead          Scope = "notes:read"          // note previews
	OfflineAccess      Scope = "offline_access"      // a refresh token
)

// AllScopes lists every scope in the order in which they are shown and written.
var AllScopes = []Scope{ProfileRead, WalletRead, WalletTopUp, ConsultationsRead, ConsultationsWrite, NotesRead,
	OfflineAccess}

// Application is a partner's program.
type Application struct {
	ID                  string // OAuth client_id
	Name                string
	RedirectURIs        []string
	Scopes              []Scope // what it may ask for
	ContactEmail        string  // where notices about the integration go; may be empty
	Suspended           bool
	RecordingEnabled    bool
	RatePerMinute       int        // calls of all clients together; 0 means the deployment's default
	ClientRatePerMinute int        // calls of each client; 0 means the deployment's default
	PreviousSecretUntil *time.Time // nil when only one secret works; may be past
	CreatedAt           time.Time
	UpdatedAt           time.Time
}

// HasRedirectURI tells whether uri is registered: exactly, byte for byte.
func (a Application) HasRedirectURI(uri string) bool { return slices.Contains(a.RedirectURIs, uri) }

// NewApplication is what [Service.Create] needs.
type NewApplication struct {
	Name                string   // 1 to 100 code points
	RedirectURIs        []string // at least one
	Scopes              []Scope  // none means all
	ContactEmail        string   // an address, or empty
	Live                bool     // a live deployment: redirect URIs must be https
	RecordingEnabled    bool
	RatePerMinute       int // 0 means the deployment's default
	ClientRatePerMinute int // 0 means the deployment's default
}

// Change is what [Service.Update] changes; nil leaves a field as it is. The rules are those of [NewApplication].
type Change struct {
	Name                *string
	RedirectURIs        []string
	Scopes              []Scope // also takes away what clients granted before and is not listed any more
	ContactEmail        *string // empty for none
	RecordingEnabled    *bool
	RatePerMinute       *int // 0 for the deployment's default
	ClientRatePerMinute *int // 0 for the deployment's default
}
