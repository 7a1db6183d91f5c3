package process_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"golang.org/x/oauth2"

	"partnerd/cmd/democrm/crm"
	"partnerd/internal/dev/dbtest"
)

const twins = 10 // concurrent requests, half at each process

// pair starts two processes at the same time on one empty database. They are one service: one public address, one set
// of keys.
func pair(t *testing.T) (in *installation, a, b *process) {
	t.Helper()
	addrA, addrB := freeAddress(t), freeAddress(t)
	in = install(t, "PARTNERD_ENV=sandbox", "PARTNERD_DATABASE_URL="+dbtest.URL(t), "PARTNERD_BASE_URL=http://"+addrA)
	a, b = in.spawn(t, addrA), in.spawn(t, addrB)
	for _, p := range []*process{a, b} {
		p.awaitStatus(t, "/readyz", http.StatusOK)
	}
	return in, a, b
}

// atOnce sends the same request several times concurrently, alternating between the processes, and returns all
// responses.
func atOnce(ctx context.Context, a, b *process, do func(ctx context.Context, base string) answer) []answer {
	answers, begin := make([]answer, twins), make(chan struct{})
	var wg sync.WaitGroup
	for i := range answers {
		wg.Go(func() {
			<-begin
			answers[i] = do(ctx, []string{a.url, b.url}[i%2])
		})
	}
	close(begin)
	wg.Wait()
	return answers
}

// oneSuccess asserts exactly one 200; the others must be rejections with status 400.
func oneSuccess(t *testing.T, answers []answer) (tokens struct {
	RefreshToken string `json:"refresh_token"`
}) {
	t.Helper()
	won := 0
	for _, x := range answers {
		switch x.status {
		case http.StatusOK:
			won++
			if err := json.Unmarshal(x.body, &tokens); err != nil {
				t.Error(err)
			}
		case http.StatusBadRequest:
		default:
			t.Errorf("%d %s", x.status, x.body)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d succeeded", won, len(answers))
	}
	return tokens
}

func TestTwoProcessesAreOneService(t *testing.T) {
	t.Parallel()
	in, a, b := pair(t)
	partner := onboard(t, in, a.url, 1_000_000)
	token := partner.link(t, a.url)
	for _, base := range []string{b.url, a.url} {
		if x := get(t, base+"/api/v1/me", token.AccessToken); x.status != http.StatusOK {
			t.Errorf("linked at one, asked at %s: %d %s", base, x.status, x.body)
		}
	}

	q := request{rand.Text(), "HOUSING", "FR"}
	ids := map[string]bool{}
	for _, x := range atOnce(t.Context(), a, b,
		func(ctx context.Context, base string) answer { return create(ctx, base, token.AccessToken, q) }) {
		if x.status != http.StatusCreated {
			t.Fatalf("create: %d %s", x.status, x.body)
		}
		ids[x.consultation(t).ID] = true
	}
	if len(ids) != 1 {
		t.Errorf("one key made %d consultations", len(ids))
	}
	for id := range ids {
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		defer cancel()
		if _, err := partner.received.Wait(ctx, id, "consultation.completed"); err != nil {
			t.Fatal(err)
		}
		if n := len(partner.received.Events(id)); n != 8 {
			t.Errorf("%d events, want 8", n)
		}
	}
	for _, fault := range partner.received.faults(false) {
		t.Error(fault)
	}

	form := url.Values{"token": {token.RefreshToken}, "client_id": {partner.app.ClientID},
		"client_secret": {partner.app.ClientSecret}}
	if x := post(t.Context(), a.url+"/api/oauth/revoke", form); x.status != http.StatusOK {
		t.Fatalf("revoke: %d %s", x.status, x.body)
	}
	if x := get(t, b.url+"/api/v1/me", token.AccessToken); x.status != http.StatusUnauthorized {
		t.Errorf("revoked at one, asked at the other: %d", x.status)
	}
	in.booksAgree(t)
	a.terminate(t)
	b.awaitStatus(t, "/readyz", http.StatusOK)
	b.terminate(t)
}

func TestCodeAndRefreshTokenWorkOnceOverTwoProcesses(t *testing.T) {
	t.Parallel()
	in, a, b := pair(t)
	partner := onboard(t, in, a.url, 0)
	browser, config := crm.NewBrowser(partner.app.RedirectURI), partner.config(b.url)
	client := url.Values{"client_id": {partner.app.ClientID}, "client_secret": {partner.app.ClientSecret}}
	code := func() url.Values {
		verifier := oauth2.GenerateVerifier()
		back, err := crm.Consent(t.Context(), browser,
			config.AuthCodeURL(rand.Text(), oauth2.S256ChallengeOption(verifier)), partner.email, password, "allow")
		if err != nil {
			t.Fatal(err)
		}
		return url.Values{"grant_type": {"authorization_code"}, "code": {back.Query().Get("code")},
			"redirect_uri": {config.RedirectURL}, "code_verifier": {verifier}, "client_id": client["client_id"],
			"client_secret": client["client_secret"]}
	}
	for range rounds(5, 100) {
		form := code()
		oneSuccess(t, atOnce(t.Context(), a, b,
			func(ctx context.Context, base string) answer { return post(ctx, base+"/api/oauth/token", form) }))

		fresh := post(t.Context(), b.url+"/api/oauth/token", code())
		form = url.Values{"grant_type": {"refresh_token"}, "client_id": client["client_id"],
			"client_secret": client["client_secret"]}
		form.Set("refresh_token", oneSuccess(t, []answer{fresh}).RefreshToken)
		oneSuccess(t, atOnce(t.Context(), a, b,
			func(ctx context.Context, base string) answer { return post(ctx, base+"/api/oauth/token", form) }))
	}
}
