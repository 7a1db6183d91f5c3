package app

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"partnerd/internal/base/money"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/operator"
	"partnerd/internal/infra/deployment"
	"partnerd/internal/infra/postgres"
)

// Demo contains the initial data of the sandbox. It is stored in the data folder, because secrets cannot be read back.
type Demo struct {
	operator.Credentials
	RedirectURI    string `json:"redirectUri"` // empty, like the credentials, if there is no demo application
	WebhookURL     string `json:"webhookUrl"`  // empty if webhooks may not go to this machine
	ClientEmail    string `json:"clientEmail"`
	ClientPassword string `json:"clientPassword"`
}

const demoBalance money.Cents = 10_000

// Seed fills an empty sandbox with simulated lawyers, a client and, if the base URL is local, an application. It
// returns nil if the demo was created from another data folder.
func (a *App) Seed(ctx context.Context) (*Demo, error) {
	if err := a.DB.InTx(ctx, func(tx postgres.Tx) error { return a.SimulatedLawyers.Seed(ctx, tx) }); err != nil {
		return nil, fmt.Errorf("seed lawyers: %w", err)
	}
	path := a.Config.Path("demo.json")
	// with configured keys and database, the program has not created it yet
	if err := os.MkdirAll(a.Config.DataDir, 0o711); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	d := Demo{
		ClientEmail: "demo@client.example", ClientPassword: "demo-" + rand.Text()[:12],
	}
	_, err := a.CreateClient(ctx, account.NewClient{
		Email: d.ClientEmail, Password: d.ClientPassword, Name: "Demo Client", Phone: "+33 6 39 98 00 01",
		PhoneVerified: true}, demoBalance)
	if errors.Is(err, account.ErrEmailTaken) {
		return readDemo(path)
	}
	if err != nil {
		return nil, fmt.Errorf("seed client: %w", err)
	}
	if deployment.IsLocal(a.Config.BaseURL) { // elsewhere "localhost" would be the visitor's machine
		if err := a.seedApplication(ctx, &d); err != nil {
			return nil, fmt.Errorf("seed application: %w", err)
		}
	}
	raw, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, err
	}
	return &d, writeSecret(path, append(raw, '\n'))
}

// seedApplication registers the demo CRM, which "make run" starts beside the service.
func (a *App) seedApplication(ctx context.Context, d *Demo) (err error) {
	d.RedirectURI = "http://localhost:8090/callback"
	if allowed, _ := a.Config.Loopback(); allowed { // otherwise events are held until there is a URL
		d.WebhookURL = "http://localhost:8090/webhooks"
	}
	d.Credentials, err = a.CreateApplication(ctx, application.NewApplication{
		Name: "Demo CRM", RedirectURIs: []string{d.RedirectURI}, Scopes: application.AllScopes}, d.WebhookURL)
	return err
}

// writeSecret atomically writes a file that only this account can read: other programs wait for it and read it as soon
// as it exists.
func writeSecret(path string, content []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(content)
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	return os.Rename(temp.Name(), path)
}

func readDemo(path string) (*Demo, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var d Demo
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return &d, nil
}
