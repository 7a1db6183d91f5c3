package staff

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"partnerd/internal/base/seal/sealtest"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/queue"
)

// letters collects sent emails.
type letters chan mail.Message

func (l letters) Send(_ context.Context, m mail.Message) error {
	l <- m
	return nil
}

// Each email about a change to sign-in says when, in which browser and from where it was made, in both languages.
func TestSecurityMailsSayWithWhatAndFromWhere(t *testing.T) {
	t.Parallel()
	h, sent := newHouse(t), make(letters, 100)
	q, err := queue.New(h.db, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	h.deps.Mail = mail.New(q, sealtest.Box(t), sent)
	running, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(running) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("queue: %v", err)
		}
	})
	m := h.join()
	agent := "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 Safari/605.1.15"
	ctx, kinds := mail.Caused(t.Context(), mail.Origin{UserAgent: agent, Address: "192.0.2.7"}), 0
	for key := range h.texts {
		what, is := strings.CutPrefix(key, "staff.notice.")
		if !is || what == "text" {
			continue
		}
		kinds++
		for lang, from := range map[string]string{
			"en": "with Safari, Mac, from the IP address 192.0.2.7",
			"fr": "avec Safari, Mac, depuis l’adresse IP 192.0.2.7",
		} {
			at := h.clock.Now().UTC().Format(noticeTime) + ", " + from
			h.ok(func(tx postgres.Tx) error {
				return h.notify(ctx, tx, staffRow{ID: m.ID, Email: m.Email, Name: m.Name, Language: lang}, what)
			})
			for !strings.Contains((<-sent).Text, at) { // the test times out if the email does not arrive
			}
		}
	}
	if kinds != 8 {
		t.Errorf("%d kinds of mails", kinds)
	}
}
