package application

import (
	"errors"
	"slices"
	"time"
)

// How long the previous secret can work after a rotation.
const (
	SecretOverlap    = 24 * time.Hour // default
	MaxSecretOverlap = 90 * 24 * time.Hour
)

// Errors that the command line and the OAuth endpoints translate.
var (
	ErrInvalid        = errors.New("invalid application")
	ErrBadCredentials = errors.New("application credentials are wrong")
)

// Scope is a permission that a client can grant an application (specification section 5).
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

// AllScopes lists every scope in the order in which scopes are shown and written.
var AllScopes = []Scope{ProfileRead, WalletRead, WalletTopUp, ConsultationsRead, ConsultationsWrite, NotesRead,
	OfflineAccess}

// Application is a partner's program.
type Application struct {
	ID                  string // OAuth client_id
	Name                string
	RedirectURIs        []string
	Scopes              []Scope // scopes it may request
	ContactEmail        string  // for emails about the integration; may be empty
	Suspended           bool
	RecordingEnabled    bool
	RatePerMinute       int        // requests of all clients together; 0 means the deployment's default
	ClientRatePerMinute int        // requests of each client; 0 means the deployment's default
	PreviousSecretUntil *time.Time // nil if only one secret works; may be in the past
	CreatedAt           time.Time
	UpdatedAt           time.Time
}

// HasRedirectURI reports whether uri is registered. It compares byte for byte.
func (a Application) HasRedirectURI(uri string) bool { return slices.Contains(a.RedirectURIs, uri) }

// NewApplication is the input of [Service.Create].
type NewApplication struct {
	Name                string   // 1 to 100 code points
	RedirectURIs        []string // at least one
	Scopes              []Scope  // empty means all
	ContactEmail        string   // an address, or empty
	Live                bool     // whether the deployment is live, which requires https redirect URIs
	RecordingEnabled    bool
	RatePerMinute       int // 0 means the deployment's default
	ClientRatePerMinute int // 0 means the deployment's default
}

// Change is the input of [Service.Update]; nil leaves a field unchanged. The rules of [NewApplication] apply.
type Change struct {
	Name                *string
	RedirectURIs        []string
	Scopes              []Scope // a scope that is no longer listed is also taken from existing grants
	ContactEmail        *string // empty for none
	RecordingEnabled    *bool
	RatePerMinute       *int // 0 for the deployment's default
	ClientRatePerMinute *int // 0 for the deployment's default
}
