package conformance

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"
)

// Command is the command line of the checks. It needs no database: a partner runs it where their endpoint is.
type Command struct {
	Receiver          string        `help:"URL of the endpoint to check. It may be on this machine." required:""`
	WebhookSecretFile []byte        `help:"File with the signing secret of the endpoint; - for standard input." type:"filecontent" required:""`
	Format            string        `help:"Format of the report: text, html or junit." enum:"text,html,junit" default:"text"`
	Service           string        `help:"Base URL of a sandbox. Also runs a consultation there and checks its deliveries to the endpoint of the application. Needs --token-file, --application and --client-secret-file."`
	TokenFile         []byte        `help:"File with an access token of a linked client who has a verified number and 20 EUR." type:"filecontent"`
	Application       string        `help:"client_id of the application."`
	ClientSecretFile  []byte        `help:"File with the client secret of the application." type:"filecontent"`
	Patience          time.Duration `help:"Maximum duration of the consultation." default:"2m"`
}

// Run runs the checks and prints the report. It returns an error if a required check failed.
func (c *Command) Run(ctx context.Context) error {
	if c.Service != "" && (len(c.TokenFile) == 0 || c.Application == "" || len(c.ClientSecretFile) == 0) {
		return errors.New("--service needs --token-file, --application and --client-secret-file")
	}
	client := &http.Client{Timeout: 5 * time.Second}
	report := Examine(ctx, Direct(c.Receiver, client), secretIn(c.WebhookSecretFile))
	if c.Service != "" {
		within, cancel := context.WithTimeout(ctx, c.Patience)
		defer cancel()
		Life{BaseURL: c.Service, Token: secretIn(c.TokenFile), Application: c.Application,
			Secret: secretIn(c.ClientSecretFile), HTTP: client, Every: 250 * time.Millisecond}.Play(within, &report)
	}
	if err := report.Write(os.Stdout, c.Format, c.Receiver); err != nil {
		return err
	}
	if !report.Passed {
		return fmt.Errorf("the endpoint failed these checks: %s", strings.Join(report.Faults(), ", "))
	}
	return nil
}

// secretIn returns the content of a file without surrounding whitespace.
func secretIn(file []byte) string { return strings.TrimSpace(string(file)) }
