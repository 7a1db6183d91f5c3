package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"partnerd/cmd/democrm/crm"
	"partnerd/gen/partner/client"
	"partnerd/gen/partner/models"
)

const (
	topUp    = 5000
	password = "a long demonstration password"
)

// demo is one run of the demonstration.
type demo struct {
	base, callback string
	http           *http.Client
	app            crm.Application
	email          string
	receiver       *crm.Receiver
	meta           crm.Metadata
	oauth          *oauth2.Config
	token          *oauth2.Token
	api            *client.ClientWithResponses
	consultation   string
}

// onboard does what the provider's staff do for a new partner, and signs a client up.
func (d *demo) onboard(ctx context.Context, partnerd, webhookURL string) error {
	d.email = "demo-" + strings.ToLower(rand.Text()[:10]) + "@client.example"
	err := operate(ctx, &d.app, partnerd, "app", "create", "--json", "--name", "Demonstration CRM",
		"--redirect-uri", d.callback, "--webhook-url", webhookURL)
	if err != nil {
		return err
	}
	d.app.RedirectURI = d.callback
	return operate(ctx, &struct{}{}, partnerd, "client", "create", "--json", "--email", d.email, "--password", "-",
		"--name", "Demonstration Client", "--phone", "+33639980002", "--phone-verified")
}

func operate(ctx context.Context, result any, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "PARTNERD_LOG_LEVEL=warn")
	var out bytes.Buffer
	// the password is for "client create"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(password+"\n"), &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, args[0], err)
	}
	return json.Unmarshal(out.Bytes(), result)
}

func (d *demo) play(ctx context.Context) error {
	steps := []struct {
		title string
		do    func(context.Context) (saw string, err error)
	}{
		{"Discover the service", d.discover},
		{"Link a client: sign-in, consent, code with PKCE", d.link},
		{"Read the client's profile", d.profile},
		{"Refresh the access token", d.refresh},
		{"Top up 50 EUR through the payment page", d.topUp},
		{"Check availability", d.coverage},
		{"Start a consultation", d.create},
		{"Receive every webhook until completed", d.receive},
		{"Read the consultation and the note preview", d.read},
		{"List the wallet transactions", d.history},
		{"Start a consultation no lawyer can take, and cancel it", d.cancel},
		{"Disconnect", d.disconnect},
	}
	for i, s := range steps {
		fmt.Printf("\n%2d. %s\n", i+1, s.title)
		saw, err := s.do(ctx)
		if err != nil {
			return fmt.Errorf("step %d, %s: %w", i+1, s.title, err)
		}
		for line := range strings.SplitSeq(saw, "\n") {
			fmt.Println("    ", line)
		}
	}
	return nil
}

func (d *demo) discover(ctx context.Context) (saw string, err error) {
	if d.meta, err = crm.Discover(ctx, d.base); err != nil {
		return "", err
	}
	d.oauth = d.app.Config(d.meta, crm.AllScopes...)
	return fmt.Sprintf("issuer %s, token endpoint %s", d.meta.Issuer, d.meta.TokenEndpoint), d.known(ctx)
}

// known returns an error if the server does not know our application: it was then registered in another installation.
func (d *demo) known(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet,
		d.oauth.AuthCodeURL("known", oauth2.S256ChallengeOption(oauth2.GenerateVerifier())), nil)
	if err != nil {
		return err
	}
	once := *d.http
	once.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := once.Do(r)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode == http.StatusBadRequest {
		return fmt.Errorf("the server at %s does not know the application that was just created. %s",
			d.base, sameInstallation)
	}
	return nil
}

func (d *demo) link(ctx context.Context) (saw string, err error) {
	if d.token, err = crm.Link(ctx, d.oauth, d.meta.Issuer, d.email, password); err != nil {
		return "", err
	}
	if err := d.useToken(); err != nil {
		return "", err
	}
	return fmt.Sprintf("scopes: %v; access token for %s", d.token.Extra("scope"),
			time.Until(d.token.Expiry).Round(time.Minute)),
		expect(d.token.RefreshToken != "", "offline_access was granted without a refresh token")
}

func (d *demo) useToken() (err error) {
	d.api, err = crm.API(d.base, d.token.AccessToken, d.http)
	return err
}

func (d *demo) profile(ctx context.Context) (string, error) {
	r, err := d.api.GetProfileWithResponse(ctx)
	if err != nil {
		return "", err
	}
	if r.JSON200 == nil {
		return "", unexpected(r.Status(), r.Body)
	}
	return fmt.Sprintf("%s, %s, phone verified: %t", r.JSON200.Name, r.JSON200.Email, r.JSON200.PhoneVerified),
		expect(r.JSON200.Email == d.email && r.JSON200.PhoneVerified, "the profile is not that of the demo client")
}

func (d *demo) refresh(ctx context.Context) (string, error) {
	old := d.token
	expired := *old
	expired.Expiry = time.Now().Add(-time.Minute)
	fresh, err := d.oauth.TokenSource(ctx, &expired).Token()
	if err != nil {
		return "", err
	}
	d.token = fresh
	return "a new access token and a new refresh token; the previous refresh token is used up",
		first(d.useToken(), expect(fresh.RefreshToken != old.RefreshToken && fresh.AccessToken != old.AccessToken,
			"the tokens did not change"))
}

func (d *demo) topUp(ctx context.Context) (string, error) {
	key := rand.Text()
	body := models.CreateTopupSessionRequest{AmountCents: topUp, ReturnURL: d.callback}
	r, err := d.api.CreateTopupSessionWithResponse(ctx, &models.CreateTopupSessionParams{IdempotencyKey: &key}, body)
	if err != nil {
		return "", err
	}
	if r.JSON200 == nil {
		return "", unexpected(r.Status(), r.Body)
	}
	b := crm.NewBrowser(d.callback)
	page, err := b.Open(ctx, r.JSON200.CheckoutURL)
	if err != nil {
		return "", err
	}
	form, err := page.Form("action")
	if err != nil {
		return "", err
	}
	if _, err = b.Send(ctx, page, form, nil, "pay"); err != nil {
		return "", err
	}
	w, err := d.awaitBalance(ctx, topUp)
	return fmt.Sprintf("paid at %s\nwallet: balance %d, available %d, held %d %s",
		r.JSON200.CheckoutURL, w.BalanceCents, w.AvailableCents, w.HeldCents, w.Currency), err
}

// awaitBalance reads the wallet until the payment provider's webhook has credited it.
func (d *demo) awaitBalance(ctx context.Context, cents int64) (models.Wallet, error) {
	for ctx.Err() == nil {
		w, err := d.wallet(ctx)
		if err != nil || w.BalanceCents == cents {
			return w, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	return models.Wallet{}, ctx.Err()
}

func (d *demo) wallet(ctx context.Context) (models.Wallet, error) {
	r, err := d.api.GetWalletWithResponse(ctx)
	if err != nil {
		return models.Wallet{}, err
	}
	if r.JSON200 == nil {
		return models.Wallet{}, unexpected(r.Status(), r.Body)
	}
	w := *r.JSON200
	return w, expect(w.AvailableCents == w.BalanceCents-w.HeldCents, "available is not balance minus held: %+v", w)
}

func (d *demo) coverage(ctx context.Context) (string, error) {
	r, err := d.api.GetCoverageWithResponse(ctx, &models.GetCoverageParams{Competence: "HOUSING", Language: "FR"})
	if err != nil {
		return "", err
	}
	if r.JSON200 == nil {
		return "", unexpected(r.Status(), r.Body)
	}
	wait := "unknown"
	if s := r.JSON200.EstimatedWaitSeconds; s != nil {
		wait = fmt.Sprint(*s, " s")
	}
	return fmt.Sprintf("HOUSING in FR: available %t, %d lawyers online, estimated wait %s",
			r.JSON200.Available, r.JSON200.LawyersOnline, wait),
		expect(r.JSON200.Available && r.JSON200.LawyersOnline > 0, "no lawyer is available")
}
