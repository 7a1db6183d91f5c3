package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/postgres"
)

// Limits of test clients.
const (
	maxClients  = 100 // per application
	clientsHost = "clients.sandbox.example"
	testPhone   = "+33639980002" // reserved for fiction
)

// ErrLimit is returned when an application has reached the limit of a kind of object.
var ErrLimit = problem.Declare(problem.Conflict, "LIMIT_REACHED",
	"Your application has reached this limit. Delete some first.")

// ClientsDeps are the dependencies of [Clients].
type ClientsDeps struct {
	DB           *postgres.DB
	Accounts     *account.Service
	Applications *application.Service
	Wallet       *wallet.Service
	OAuth        *oauth.Service
}

// Clients manages an application's clients in a sandbox: creating test clients, linking them, and choosing their
// scenario.
type Clients struct{ deps ClientsDeps }

// NewClients creates the service.
func NewClients(d ClientsDeps) *Clients { return &Clients{d} }

// NewTestClient is the input of [Clients.Create].
type NewTestClient struct {
	Name          string // 1 to 200 code points
	PhoneVerified bool
	Balance       money.Cents // at least 0
	TimeZone      string      // IANA name; empty: the default
}

// account returns the input to create the client's account.
func (n NewTestClient) account(password string) account.NewClient {
	a := account.NewClient{Email: strings.ToLower(rand.Text()[:12]) + "@" + clientsHost, Password: password,
		Name: n.Name, TimeZone: n.TimeZone}
	if n.PhoneVerified {
		a.Phone, a.PhoneVerified = testPhone, true
	}
	return a
}

// Check validates a new test client and returns all issues as a VALIDATION_ERROR.
func (n NewTestClient) Check() error { return problem.Invalid(account.Check(n.account(rand.Text()))) }

// TestClient is a client that an application created for tests.
type TestClient struct {
	ID, Email, Name string
	PhoneVerified   bool
	Disabled        bool
	Scenario        string
	CreatedAt       time.Time
}

// Create creates a test client with a password, which is returned only here. by is the actor in the audit log. It
// returns VALIDATION_ERROR or LIMIT_REACHED.
func (c *Clients) Create(ctx context.Context, tx postgres.Tx, by, applicationID string,
	n NewTestClient,
) (made TestClient, password string, err error) {
	password = rand.Text()
	if err := tx.Lock(ctx, "sandbox clients of "+applicationID); err != nil {
		return made, "", err
	}
	there, err := countClients(ctx, tx, applicationID)
	if err != nil {
		return made, "", err
	}
	if there >= maxClients {
		return made, "", ErrLimit
	}
	made, err = c.create(ctx, tx, by, applicationID, n, password)
	return made, password, err
}

func (c *Clients) create(ctx context.Context, tx postgres.Tx, by, applicationID string, n NewTestClient,
	password string,
) (TestClient, error) {
	client, err := c.deps.Accounts.Create(ctx, tx, n.account(password))
	if err != nil {
		return TestClient{}, problem.Invalid(err)
	}
	if err := c.deps.Wallet.Open(ctx, tx, client.ID); err != nil {
		return TestClient{}, err
	}
	if n.Balance > 0 {
		if err := c.deps.Wallet.Adjust(ctx, tx, client.ID, n.Balance, wallet.SandboxMoney); err != nil {
			return TestClient{}, err
		}
	}
	if err := insertClient(ctx, tx, clientRow{ClientID: client.ID, ApplicationID: applicationID,
		CreatedAt: tx.Now}); err != nil {
		return TestClient{}, err
	}
	err = audit.Record(ctx, tx, audit.Entry{Actor: by, Action: "client.create", Subject: client.ID,
		Reason: "A test client of a sandbox.", Details: map[string]any{"phoneVerified": n.PhoneVerified,
			"balanceCents": n.Balance}})
	return TestClient{ID: client.ID, Email: client.Email, Name: client.Name, PhoneVerified: client.PhoneVerified,
		Scenario: Completed, CreatedAt: tx.Now}, err
}

// List returns the test clients of an application, oldest first.
func (c *Clients) List(ctx context.Context, tx postgres.Tx, applicationID string) ([]TestClient, error) {
	return listClients(ctx, tx, applicationID)
}

// Delete disables a test client, ends its connections and deletes the messages sent to it. Its open consultations
// continue to their end. by is the actor in the audit log. It returns NOT_FOUND.
func (c *Clients) Delete(ctx context.Context, by, applicationID, clientID string) error {
	return c.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := c.own(ctx, tx, applicationID, clientID); err != nil {
			return err
		}
		// not found: the client has erased itself
		if err := c.deps.Accounts.SetDisabled(ctx, tx, clientID, true); err != nil &&
			!errors.Is(err, problem.ErrNotFound) {
			return err
		}
		if _, err := c.deps.OAuth.UnlinkAll(ctx, tx, clientID, oauth.ReasonOperator); err != nil {
			return err
		}
		deleted, err := deleteClient(ctx, tx, clientID)
		if err != nil {
			return err
		}
		if !deleted { // a concurrent request was faster
			return problem.ErrNotFound
		}
		return audit.Record(ctx, tx, audit.Entry{Actor: by, Action: "client.delete", Subject: clientID,
			Reason: "A test client of a sandbox."})
	})
}

// own returns NOT_FOUND unless the application created the client.
func (c *Clients) own(ctx context.Context, tx postgres.Tx, applicationID, clientID string) error {
	own, err := isOwn(ctx, tx, applicationID, clientID)
	if err == nil && !own {
		err = problem.ErrNotFound
	}
	return err
}

// Link links a test client to its application as if it had consented to the scopes. It returns NOT_FOUND, also for a
// disabled client, or VALIDATION_ERROR for scopes that do not exist or are not allowed for the application.
func (c *Clients) Link(ctx context.Context, applicationID, clientID string,
	scopes []string,
) (oauth.TokenResponse, error) {
	tx := c.deps.DB.Read()
	if err := c.own(ctx, tx, applicationID, clientID); err != nil {
		return oauth.TokenResponse{}, err
	}
	app, err := c.deps.Applications.Get(ctx, tx, applicationID)
	if err != nil {
		return oauth.TokenResponse{}, err
	}
	var asked []application.Scope
	for _, scope := range scopes {
		asked = append(asked, application.Scope(scope))
	}
	if !application.Within(asked, app.Scopes) {
		return oauth.TokenResponse{}, problem.ErrValidation.With(problem.Issue{Path: "scopes",
			Code: problem.IssueInvalidValue, Message: "Must contain only scopes that this application may request."})
	}
	return c.deps.OAuth.Agreed(ctx, app, clientID, application.Ordered(asked))
}

// ChooseNamed is [Clients.Choose] for a name entered by someone. It returns VALIDATION_ERROR for an unknown scenario.
func (c *Clients) ChooseNamed(ctx context.Context, tx postgres.Tx, applicationID, clientID, scenario string) error {
	if !slices.Contains(Scenarios(), scenario) {
		return problem.ErrValidation.With(problem.Choice("scenario", scenario))
	}
	return c.Choose(ctx, tx, applicationID, clientID, scenario)
}

// Choose sets the scenario of the next consultations that the application starts for a client. It applies until the
// next choice; [Completed] resets it. The scenario must exist. It returns NOT_FOUND for a client that the application
// neither created nor is linked to.
func (c *Clients) Choose(ctx context.Context, tx postgres.Tx, applicationID, clientID, scenario string) error {
	known, err := isOwn(ctx, tx, applicationID, clientID)
	if err != nil {
		return err
	}
	if !known {
		links, err := c.deps.OAuth.Connections(ctx, tx, clientID)
		if err != nil {
			return err
		}
		known = slices.ContainsFunc(links, func(l oauth.Connection) bool { return l.Application.ID == applicationID })
	}
	if !known {
		return problem.ErrNotFound
	}
	return setChoice(ctx, tx, choiceRow{ApplicationID: applicationID, ClientID: clientID, Scenario: scenario})
}
