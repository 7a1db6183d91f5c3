package account

import (
	"strings"
	"testing"

	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
)

// Each security email says when, where and with which browser the action was taken, in both languages.
func TestSecurityMailsSayWithWhatAndFromWhere(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	client := create(t, c.Accounts, c.DB, demo)
	agent := "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	ctx := mail.Caused(t.Context(), mail.Origin{UserAgent: agent, Address: "192.0.2.7"})
	kinds := 0
	for key := range c.SelfService.texts {
		what, is := strings.CutPrefix(key, "notice.")
		if !is || strings.Contains(key, "subject") || strings.Contains(key, "text") {
			continue
		}
		kinds++
		args := make([]any, strings.Count(c.SelfService.texts[key]["en"], "%s"))
		for i := range args {
			args[i] = "x"
		}
		for lang, from := range map[string]string{
			"en": "with Firefox, Linux, from the IP address 192.0.2.7",
			"fr": "avec Firefox, Linux, depuis l’adresse IP 192.0.2.7",
		} {
			told := c.client(client)
			told.Language = lang
			c.ok(func(tx postgres.Tx) error { return c.notify(ctx, tx, told, lang, what, args...) })
			m := c.letter(client.Email, c.SelfService.texts["notice.subject"][lang][:12])
			if at := c.clock.Now().UTC().Format("2006-01-02 15:04 UTC"); !strings.Contains(m.Text, at+", "+from) {
				t.Errorf("%s: %q", what, m.Text)
			}
		}
	}
	if kinds != 8 {
		t.Errorf("%d kinds of mails", kinds)
	}
	c.ok(func(tx postgres.Tx) error { // sent later, by a job
		return c.RequestEmail(ctx, tx, client.ID, "new@example.com", demo.Password, "en")
	})
	if m := c.letter(client.Email, "was requested"); !strings.Contains(m.Text, "from the IP address 192.0.2.7") {
		t.Errorf("a change of the address: %q", m.Text)
	}
}

// A name that contains an address, stored before today's rules, is replaced by the ID in emails to clients.
func TestNamesThatLeadSomewhereStandInNoMail(t *testing.T) {
	t.Parallel()
	c := newFixture(t).work()
	client := create(t, c.Accounts, c.DB, demo)
	for _, name := range []string{"Sign in at evil.example", "Support\nhttps://evil.example", "help@evil.example"} {
		c.ok(func(tx postgres.Tx) error {
			return c.NotifyLink(t.Context(), tx, c.client(client), "en", name, "app_1")
		})
		m := c.letter(client.Email, "application app_1")
		c.ok(func(tx postgres.Tx) error {
			r := WithdrawalReceipt{Reference: "con_1", Application: name, ApplicationID: "app_1", At: "today",
				Price: "20"}
			return c.SendWithdrawalReceipt(t.Context(), tx, c.client(client), "en", r)
		})
		receipt := c.letter(client.Email, "We have received your withdrawal")
		if strings.Contains(m.Subject+m.Text+receipt.Text, "evil") || !strings.Contains(receipt.Text, "via app_1") {
			t.Errorf("%q: %q, %q", name, m.Text, receipt.Text)
		}
	}
}
