package app

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"partnerd/internal/base/problem"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/staff"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/audit"
)

// TestActsOfOperatorsAreAudited checks that every operator action is in the audit log with its reason. Without a reason
// nothing happens.
func TestActsOfOperatorsAreAudited(t *testing.T) {
	t.Parallel()
	cfg := good()
	cfg.DatabaseURL, cfg.DataDir = dbtest.URL(t), filepath.Join(t.TempDir(), "data")
	a, err := Open(t.Context(), cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	ctx, o := t.Context(), a.Operator
	by := operator.Act{Actor: "cli:demo", Reason: "A test"}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	made, err := o.RegisterApplication(ctx, by, application.NewApplication{Name: "CRM",
		RedirectURIs: []string{"https://crm.example/cb"}, ContactEmail: "it@crm.example"}, "")
	must(err)
	c, err := o.CreateClient(ctx, by,
		account.NewClient{Email: "a@client.example", Password: "for the tests only, please", Name: "A Client"}, 5000)
	must(err)
	l, err := o.CreateLawyer(ctx, by, lawyer.NewLawyer{Email: "l@bar.example", Name: "A Lawyer", Phone: "+33199000001",
		Competences: []string{"TAX"}, Languages: []string{"FR"}})
	must(err)
	token, err := a.Accounts.SignIn(ctx, a.DB.Read(), c.ID)
	must(err)
	colleague := func(email string) staff.NewPerson {
		return staff.NewPerson{Email: email, Name: "An Operator", Language: "en", Roles: []staff.Role{staff.Support}}
	}
	p, _, err := o.InviteOperator(ctx, by, colleague("first@partners.example"))
	must(err)
	for action, act := range map[string]func(by operator.Act) error{
		"client.sign_out": func(by operator.Act) error { _, err := o.SignOutClient(ctx, by, c.ID); return err },
		"client.unlink": func(by operator.Act) error {
			_, err := o.UnlinkClient(ctx, by, c.ID, made.ClientID)
			return err
		},
		"client.disable": func(by operator.Act) error { return o.DisableClient(ctx, by, c.ID) },
		"client.enable":  func(by operator.Act) error { return o.EnableClient(ctx, by, c.ID) },
		"webhook.set_url": func(by operator.Act) error {
			return o.SetWebhookURL(ctx, by, made.ClientID, "https://crm.example/hooks", false)
		},
		"webhook.rotate_secret": func(by operator.Act) error {
			_, _, err := o.RotateWebhookSecret(ctx, by, made.ClientID, webhook.Rotation{EndPrevious: true})
			return err
		},
		"webhook.enable": func(by operator.Act) error { return o.EnableWebhooks(ctx, by, made.ClientID) },
		"application.suspend": func(by operator.Act) error {
			_, err := o.SuspendApplication(ctx, by, made.ClientID, true)
			return err
		},
		"application.rotate_secret": func(by operator.Act) error {
			_, _, err := o.RotateApplicationSecret(ctx, by, made.ClientID,
				application.Rotation{Overlap: time.Hour, EndPrevious: true})
			return err
		},
		"operator.invite": func(by operator.Act) error {
			_, _, err := o.InviteOperator(ctx, by, colleague("second@partners.example"))
			return err
		},
		"lawyer.invite": func(by operator.Act) error {
			_, _, err := o.InviteLawyer(ctx, by, lawyer.NewLawyer{Email: "m@bar.example", Name: "A Lawyer",
				Phone: "+33199000002", Competences: []string{"TAX"}, Languages: []string{"FR"}}, "fr")
			return err
		},
		"staff.reinvite": func(by operator.Act) error { _, _, err := o.ReinvitePerson(ctx, by, p.ID); return err },
		"staff.disable":  func(by operator.Act) error { return o.DisablePerson(ctx, by, p.ID) },
		"lawyer.suspend": func(by operator.Act) error { _, err := o.SuspendLawyer(ctx, by, l.ID); return err },
		"lawyer.resume":  func(by operator.Act) error { return o.ResumeLawyer(ctx, by, l.ID) },
		"webhook.test": func(by operator.Act) error {
			_, err := o.SendTestEvent(ctx, by, made.ClientID, webhook.Created)
			return err
		},
		"webhook.redeliver_range": func(by operator.Act) error {
			_, _, err := o.RedeliverRange(ctx, by, made.ClientID,
				webhook.RedeliveryFilter{From: time.Now().Add(-time.Hour), To: time.Now().Add(-time.Minute)})
			return err
		},
		"wallet.adjust": func(by operator.Act) error {
			_, err := o.AdjustWallet(ctx, wallet.Correction{ClientID: c.ID, Amount: -5, Actor: by.Actor,
				Reason: by.Reason})
			return err
		},
	} {
		before, err := audit.List(ctx, a.DB.Read(), "", 0, 100)
		must(err)
		if err := act(operator.Act{Actor: "cli:demo", Reason: " "}); !errors.Is(err, operator.ErrNoReason) {
			t.Errorf("%s without a reason: %v", action, err)
		}
		must(act(by))
		after, err := audit.List(ctx, a.DB.Read(), "", 0, 100)
		must(err)
		if len(after) != len(before)+1 || after[0].Action != action || after[0].Actor != "cli:demo" ||
			after[0].Reason != "A test" {
			t.Errorf("%s: %d entries after %d, the newest %+v", action, len(after), len(before), after[0])
		}
	}
	if _, err := a.Accounts.Session(ctx, a.DB.Read(), token); !errors.Is(err, account.ErrNoSession) {
		t.Errorf("the session before: %v", err)
	}
	for name, err := range map[string]error{
		"disable": o.DisableClient(ctx, by, "cli_none"), "enable": o.EnableClient(ctx, by, "cli_none"),
		"cancel": func() error { _, err := o.CancelConsultation(ctx, by, "con_none"); return err }(),
		"refund": func() error { _, err := o.RefundConsultation(ctx, by, "con_none", 0); return err }(),
	} {
		if !errors.Is(err, problem.ErrNotFound) {
			t.Errorf("%s of nobody: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"suspend": func() error { _, err := o.SuspendLawyer(ctx, by, "law_none"); return err }(),
		"resume":  o.ResumeLawyer(ctx, by, "law_none"),
	} {
		if !errors.Is(err, lawyer.ErrNotFound) {
			t.Errorf("%s of no lawyer: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"reinvite": func() error { _, _, err := o.ReinvitePerson(ctx, by, "stf_none"); return err }(),
		"disable":  o.DisablePerson(ctx, by, "stf_none"),
	} {
		if !errors.Is(err, staff.ErrNotFound) {
			t.Errorf("%s of nobody: %v", name, err)
		}
	}
	o.Sandbox = false
	if _, link, err := o.ReinviteLawyer(ctx, by, l.ID, "fr"); err != nil || link != "" {
		t.Errorf("a lawyer who was never invited, in live: link %q, %v", link, err)
	}
	n := account.NewClient{Email: "b@client.example", Password: "for the tests only, please", Name: "B",
		Phone: "+33639980002", PhoneVerified: true}
	if _, err := o.CreateClient(ctx, by, n, 1); !errors.Is(err, operator.ErrSandbox) {
		t.Errorf("opening balance in live: %v", err)
	}
	if _, err := o.CreateClient(ctx, operator.Act{Actor: "cli:demo"}, n, 0); !errors.Is(err, operator.ErrNoReason) {
		t.Errorf("verified number in live without a reason: %v", err)
	}
	var mails int
	must(a.DB.Pool().QueryRow(ctx,
		`SELECT count(*) FROM river.river_job WHERE args::text LIKE '%mail%' OR kind LIKE '%mail%'`).Scan(&mails))
	if mails != 15 {
		t.Errorf("%d mails, want five invitations and one for each act that concerns the partner, the "+
			"client or a person", mails)
	}
}
