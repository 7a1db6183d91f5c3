package mail_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/textproto"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"partnerd/internal/base/seal/sealtest"
	"partnerd/internal/base/telemetry/telemetrytest"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/queue"
)

func TestAMailIsSentAfterItsTransactionAndWaitsSealed(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	db, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	box := sealtest.Box(t)
	log := slog.New(slog.DiscardHandler)
	q, err := queue.New(db, log)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "mail")
	s := mail.New(q, box, mail.Folder{Dir: dir, Logger: log})
	s.Service = "Allo Droit"
	err = db.InTx(t.Context(), func(tx postgres.Tx) error {
		return s.Send(t.Context(), tx, mail.Message{To: "a@client.example", Subject: "Héllo from {service}",
			Text: "The link is CANARY."})
	})
	if err != nil {
		t.Fatal(err)
	}
	var args []byte
	if err := db.Pool().QueryRow(t.Context(), "SELECT args FROM river.river_job").Scan(&args); err != nil ||
		bytes.Contains(args, []byte("CANARY")) {
		t.Errorf("the waiting mail: %s %v", args, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- q.Run(ctx) }()
	deadline := time.Now().Add(20 * time.Second)
	var files []string
	for len(files) == 0 && time.Now().Before(deadline) {
		files, _ = filepath.Glob(filepath.Join(dir, "*.eml"))
		<-time.After(20 * time.Millisecond)
	}
	cancel()
	<-ended
	if len(files) != 1 {
		t.Fatalf("%d mails", len(files))
	}
	raw, err := os.ReadFile(files[0])
	if err != nil || !strings.Contains(string(raw), "To: a@client.example") ||
		!strings.Contains(string(raw), "The link is CANARY.") {
		t.Errorf("mail: %s %v", raw, err)
	}
	if !strings.Contains(string(raw), "Subject: Héllo from Allo Droit\r\n") ||
		!strings.HasSuffix(string(raw), "\n-- \nAllo Droit\n") {
		t.Errorf("the mail does not say who writes: %s", raw)
	}
}

func TestTheSenderOfMailHasTheServicesName(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"no-reply@partner.example":    `"Allo Droit" <no-reply@partner.example>`,
		"Help <help@partner.example>": "Help <help@partner.example>", "nonsense": "nonsense",
	} {
		if got := mail.From(address, "Allo Droit"); got != want {
			t.Errorf("From(%q) = %s", address, got)
		}
	}
}

// TestARefusedRecipientIsInNeitherTheLogNorTheQueue exists because servers quote the address that they refuse, at any
// step.
func TestARefusedRecipientIsInNeitherTheLogNorTheQueue(t *testing.T) {
	t.Parallel()
	const address = "canary@client.example"
	for _, step := range []string{"MAIL", "RCPT", "DATA", "."} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			db := dbtest.New(t)
			var log bytes.Buffer
			q, err := queue.New(db, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
			if err != nil {
				t.Fatal(err)
			}
			sender, err := mail.NewSMTP("smtp://"+refusingServer(t, step, "550 5.1.1 <"+address+"> is unknown here"),
				"service@partner.example", nil)
			if err != nil {
				t.Fatal(err)
			}
			s := mail.New(q, sealtest.Box(t), sender)
			err = db.InTx(t.Context(), func(tx postgres.Tx) error {
				return s.Send(t.Context(), tx, mail.Message{To: address, Subject: "Hello", Text: "Text"})
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- q.Run(ctx) }()
			var failure string
			for deadline := time.Now().Add(20 * time.Second); failure == "" &&
				time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
				err := db.Pool().QueryRow(t.Context(), "SELECT coalesce(errors[1]::text, '') FROM river.river_job").
					Scan(&failure)
				if err != nil {
					t.Fatal(err)
				}
			}
			cancel()
			<-ended
			for place, text := range map[string]string{"log": log.String(), "queue": failure} {
				if strings.Contains(text, "canary") || !strings.Contains(text, "550") {
					t.Errorf("the %s tells the address, or not the code: %s", place, text)
				}
			}
		})
	}
}

// TestOnlyAnAddressThatDoesNotExistEndsAMessage checks that refusing the recipient's address alone ends the job, with
// each of those codes. Every other refusal may be temporary, or caused by this deployment's settings: the message is
// retried. The same holds if another step refuses with the same code.
func TestOnlyAnAddressThatDoesNotExistEndsAMessage(t *testing.T) {
	t.Parallel()
	for _, refusal := range []struct {
		step, answer string
		ends         bool
	}{
		{"RCPT", "550 5.1.1 no such user", true}, {"RCPT", "550 5.1.2 no such host", true},
		{"RCPT", "553 5.1.3 bad syntax", true}, {"RCPT", "551 5.1.6 moved away", true},
		{"RCPT", "556 5.1.10 takes no mail", true}, {"RCPT", "450 4.2.0 greylisted", false},
		{"RCPT", "451 4.1.1 try later", false}, {"RCPT", "452 4.2.2 mailbox full", false},
		{"RCPT", "550 5.7.1 relaying denied", false}, {"RCPT", "550 5.1.8 your domain", false},
		{"RCPT", "550 no code", false}, {"MAIL", "550 5.1.1 no such sender", false},
		{"DATA", "550 5.1.1 no such user", false},
		{".", "554 5.7.1 looks like spam", false},
	} {
		sender, err := mail.NewSMTP("smtp://"+refusingServer(t, refusal.step, refusal.answer),
			"service@partner.example", nil)
		if err != nil {
			t.Fatal(err)
		}
		err = sender.Send(t.Context(), mail.Message{To: "a@client.example", Subject: "Hello", Text: "Text"})
		if err == nil || queue.IsFinal(err) != refusal.ends {
			t.Errorf("%s answers %s: %v ends the job: %t", refusal.step, refusal.answer, err, queue.IsFinal(err))
		}
	}
	sender, err := mail.NewSMTP("smtp://127.0.0.1:1", "service@partner.example", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := sender.Send(t.Context(), mail.Message{To: "a@client.example"}); err == nil || queue.IsFinal(err) {
		t.Errorf("a server that is away: %v", err)
	}
	if err := sender.Send(t.Context(), mail.Message{To: "no address"}); !queue.IsFinal(err) {
		t.Errorf("what is no address waits: %v", err)
	}
}

// TestAMessageIsAStep checks that a message is a span of the job that sends it. The span names the server and the code
// of a refusal, but no address and no text.
func TestAMessageIsAStep(t *testing.T) {
	t.Parallel()
	for want, server := range map[string]string{
		"": refusingServer(t, "", ""), "550": refusingServer(t, "RCPT",
			"550 5.1.1 <canary@client.example> is unknown here"),
		"connect": "127.0.0.1:1",
	} {
		tracer, spans := telemetrytest.New(t)
		sender, err := mail.NewSMTP("smtp://"+server, "service@partner.example", tracer)
		if err != nil {
			t.Fatal(err)
		}
		ctx, job := tracer.Start(t.Context(), "job")
		if err := sender.Send(ctx, mail.Message{To: "canary@client.example",
			Subject: "canary", Text: "canary"}); (err == nil) != (want == "") {
			t.Errorf("%q: %v", want, err)
		}
		job.End(nil)
		sent := spans.Named("send mail")
		if len(sent) != 1 || !sent[0].Client || !sent[0].Child || sent[0].Failed != (want != "") ||
			sent[0].Attributes["error.type"] != want || sent[0].Attributes["network.protocol.name"] != "smtp" ||
			sent[0].Attributes["server.address"]+":"+sent[0].Attributes["server.port"] != server ||
			strings.Contains(spans.Told(), "canary") {
			t.Errorf("%q: %s", want, spans.Told())
		}
	}
}

// refusingServer is a mail server that returns one response to a step of every message, and accepts the others.
func refusingServer(t *testing.T, step, answer string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go converse(textproto.NewConn(c), step, answer)
		}
	}()
	return l.Addr().String()
}

func converse(c *textproto.Conn, step, answer string) {
	defer c.Close()
	c.PrintfLine("220 mail.example")
	for {
		line, err := c.ReadLine()
		if err != nil {
			return
		}
		verb, _, _ := strings.Cut(line, " ")
		switch {
		case verb == "EHLO":
			c.PrintfLine("250-mail.example\r\n250 ENHANCEDSTATUSCODES")
		case verb == step:
			c.PrintfLine("%s", answer)
		case verb == "DATA":
			c.PrintfLine("354 go on")
			c.ReadDotBytes()
			if step == "." {
				c.PrintfLine("%s", answer)
				continue
			}
			c.PrintfLine("250 2.0.0 taken")
		default:
			c.PrintfLine("250 2.0.0 fine")
		}
	}
}

func TestMailServersAreNamedByURL(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"smtp://u:p@mail.example:587", "smtps://mail.example", "smtp://localhost:1025"} {
		if _, err := mail.NewSMTP(good, "a@b.example", nil); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "mail.example", "http://mail.example", "smtp://"} {
		if _, err := mail.NewSMTP(bad, "a@b.example", nil); err == nil {
			t.Errorf("%s accepted", bad)
		}
	}
}
