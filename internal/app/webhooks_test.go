package app

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
)

// TestAFailingEndpointIsMailedToItsContact checks that the notice of a failing endpoint becomes an email in the same
// transaction. Without an address nothing is sent.
func TestAFailingEndpointIsMailedToItsContact(t *testing.T) {
	t.Parallel()
	cfg := good()
	cfg.DatabaseURL, cfg.DataDir = dbtest.URL(t), filepath.Join(t.TempDir(), "data")
	a, err := Open(t.Context(), cfg, cfg.Logger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	for _, contact := range []string{"ops@crm.example", ""} {
		made, err := a.CreateApplication(t.Context(), application.NewApplication{
			Name: "Demo CRM", RedirectURIs: []string{"https://crm.example/callback"}, Scopes: application.AllScopes,
			ContactEmail: contact}, "")
		if err != nil {
			t.Fatal(err)
		}
		err = a.DB.InTx(t.Context(), func(tx postgres.Tx) error {
			return webhookMail{a}.Notify(t.Context(), tx, made.ClientID, webhook.NoticeFailing24h,
				tx.Now.Add(-24*time.Hour))
		})
		if err != nil {
			t.Fatal(err)
		}
		var jobs int
		if err := a.DB.Pool().QueryRow(t.Context(),
			"SELECT count(*) FROM river.river_job WHERE args::text LIKE '%mail%' OR kind LIKE '%mail%'").
			Scan(&jobs); err != nil || jobs != 1 {
			t.Errorf("after the contact %q: %d mails, %v", contact, jobs, err)
		}
	}
}

func TestTheMailAboutAnEndpointSaysWhatHoldsAtItsKind(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 5, 4, 9, 30, 0, 0, time.UTC)
	to := application.Application{ID: "app_1", Name: "Demo CRM", ContactEmail: "ops@crm.example"}
	const always, ended, enable, held = "https://api.example/api/platform/v1/redeliveries", " have failed",
		"/endpoint/enable", "are held and none is dropped"
	for kind, c := range map[webhook.NoticeKind]struct {
		subject   string
		has, not  []string
		rangeFrom string
	}{
		webhook.NoticeFailing1h: {"are failing", []string{"about 71 hours"}, []string{ended, enable, held},
			"2026-05-01T09:30:00Z"},
		webhook.NoticeFailing24h: {"are failing", []string{"about 71 hours"}, []string{ended, enable, held},
			"2026-05-01T09:30:00Z"},
		webhook.NoticeFailing72h: {"are failing", []string{ended, "redeliver them"}, []string{enable, held, "lost"},
			"2026-05-01T09:30:00Z"},
		webhook.NoticeDisabled: {"are held", []string{ended, enable, held}, []string{"still being retried"},
			"2026-04-26T09:30:00Z"},
	} {
		m := webhookNotice(to, "app_1", kind, since, "https://api.example")
		if !strings.Contains(m.Subject, c.subject) || m.To != to.ContactEmail {
			t.Errorf("%s: %+v", kind, m)
		}
		for _, text := range append(c.has, always, "4 May 2026 09:30 UTC", `{"from": "`+c.rangeFrom+`"`) {
			if !strings.Contains(m.Text, text) {
				t.Errorf("%s lacks %q:\n%s", kind, text, m.Text)
			}
		}
		if strings.Contains(m.Subject+m.Text, to.Name) {
			t.Errorf("%s calls the application otherwise than it was told to", kind)
		}
		for _, text := range c.not {
			if strings.Contains(m.Text, text) {
				t.Errorf("%s says %q:\n%s", kind, text, m.Text)
			}
		}
	}
}
