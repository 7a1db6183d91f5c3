package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"partnerd/cmd/democrm/crm"
	"partnerd/cmd/democrm/office"
)

// serve runs "democrm serve": the CRM with a web interface.
func serve(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("democrm serve", flag.ExitOnError)
	base := f.String("base-url", "http://localhost:8080", "base URL of the service; waits until it is ready")
	credentials := f.String("credentials", "", "JSON file with clientId, clientSecret, webhookSecret and "+
		"redirectUri; waits until it exists, and listens at the redirect URI")
	beside := f.Int("beside", 0, "process ID to exit with; 0 for none")
	if err := f.Parse(args); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if *beside != 0 {
		go func() {
			defer cancel()
			for syscall.Kill(*beside, 0) == nil && ctx.Err() == nil {
				time.Sleep(time.Second)
			}
		}()
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	given, err := awaitCredentials(ctx, strings.TrimSuffix(*base, "/"), *credentials)
	if err != nil {
		return err
	}
	if given.ClientID == "" {
		return fmt.Errorf("%s has no demo application, because the sandbox has a public base URL. Create one "+
			"at %s/developers", *credentials, *base)
	}
	callback, err := url.Parse(given.RedirectURI)
	if err != nil || callback.Path != "/callback" {
		return fmt.Errorf("the redirect URI %q does not end with /callback", given.RedirectURI)
	}
	app := crm.Application{ClientID: given.ClientID, ClientSecret: given.ClientSecret,
		WebhookSecret: given.WebhookSecret, RedirectURI: given.RedirectURI}
	o, err := office.New(ctx, strings.TrimSuffix(*base, "/"), app, log)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", callback.Port()))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: o.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
		IdleTimeout: time.Minute}
	fmt.Println("The demo CRM is at", strings.TrimSuffix(given.RedirectURI, "callback"))
	ended := make(chan error, 1) // of the server
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return server.Close()
	}
}

// credentials are the credentials that the provider issued to the partner.
type credentials struct {
	ClientID      string `json:"clientId"`
	ClientSecret  string `json:"clientSecret"`
	WebhookSecret string `json:"webhookSecret"`
	RedirectURI   string `json:"redirectUri"`
}

// awaitCredentials reads the credentials once they exist and the service is ready.
func awaitCredentials(ctx context.Context, base, file string) (c credentials, err error) {
	for {
		raw, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(raw, &c)
		}
		if err == nil && ready(ctx, base) {
			return c, nil
		}
		if err != nil && !os.IsNotExist(err) {
			return c, fmt.Errorf("read credentials: %w", err)
		}
		select {
		case <-ctx.Done():
			return c, ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}
