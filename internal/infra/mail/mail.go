// Package mail sends email to people: it is written in the transaction of its cause and sent afterwards by the queue,
// at least once. A sandbox stores it in a directory instead; a live deployment sends it through SMTP.
package mail

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	netmail "net/mail"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/seal"
	"partnerd/internal/base/telemetry"
	"partnerd/internal/base/text"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/queue"
)

// Message is a plain text email.
type Message struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
}

// Sender delivers a message.
type Sender interface {
	Send(ctx context.Context, m Message) error
}

const (
	jobName     = "mail"
	place       = "mail.message"
	sendTimeout = 30 * time.Second
	signature   = "\n\n-- \n{service}\n"
)

// From returns the sender as readers see it: an address without a name gets the service's name.
func From(address, service string) string {
	a, err := netmail.ParseAddress(address)
	if err != nil || a.Name != "" {
		return address
	}
	a.Name = service
	return a.String()
}

// Service queues email within transactions.
type Service struct {
	queue *queue.Queue
	box   *seal.Box

	// Service is the service's name in every email; empty means [text.Product]. Set it before anything is sent.
	Service string
}

// New returns the service and registers its handler with the queue.
func New(q *queue.Queue, box *seal.Box, sender Sender) *Service {
	queue.Handle(q, jobName, func(ctx context.Context, sealed []byte) error {
		raw, err := box.Open(place, sealed)
		if err != nil {
			return err
		}
		var m Message
		if err := json.Unmarshal(raw, &m); err != nil {
			return fmt.Errorf("read mail: %w", err)
		}
		ctx, cancel := context.WithTimeout(ctx, sendTimeout)
		defer cancel()
		return sender.Send(ctx, m)
	})
	return &Service{queue: q, box: box}
}

// Send queues m to be sent once the transaction has committed. The service's name is put into the message and its
// signature, so that readers know who is writing. The message is encrypted while it waits, because it may contain a
// sign-in link.
func (s *Service) Send(ctx context.Context, tx postgres.Tx, m Message) error {
	m.Subject = text.Named(m.Subject, s.Service)
	m.Text = text.Named(strings.TrimRight(m.Text, "\n")+signature, s.Service)
	raw, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("write mail: %w", err)
	}
	sealed, err := s.box.Seal(place, raw)
	if err != nil {
		return err
	}
	return s.queue.Insert(ctx, tx, jobName, sealed)
}

// Folder stores messages as files, for sandboxes. The newest is the last by name.
type Folder struct {
	Dir    string
	Logger *slog.Logger
}

// Send implements [Sender].
func (f Folder) Send(_ context.Context, m Message) error {
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return fmt.Errorf("make mail folder: %w", err)
	}
	name := filepath.Join(f.Dir, clock.System{}.Now().Format("20060102T150405.000000")+"-"+rand.Text()[:6]+".eml")
	file := "To: " + m.To + "\r\nSubject: " + m.Subject + "\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n" + m.Text
	if err := os.WriteFile(name, []byte(file), 0o600); err != nil {
		return fmt.Errorf("write mail: %w", err)
	}
	f.Logger.Info("mail kept in the sandbox's folder", "subject", m.Subject, "file", name)
	return nil
}

// SMTP sends through a mail server. Connections are always encrypted, unless the server is this machine.
type SMTP struct {
	from   string
	client *gomail.Client
	host   string
	port   int
	tracer *telemetry.Tracer
}

// NewSMTP parses smtp://user:password@host:587 (STARTTLS) or smtps://…:465, and the sender's address. tracer records
// messages; it may be nil.
func NewSMTP(address, from string, tracer *telemetry.Tracer) (*SMTP, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.Scheme != "smtp" && u.Scheme != "smtps" {
		return nil, errors.New("the mail server is not like smtp://user:password@host:587")
	}
	options := []gomail.Option{gomail.WithTimeout(sendTimeout), gomail.WithTLSPolicy(gomail.TLSMandatory)}
	switch {
	case u.Scheme == "smtps":
		options = append(options, gomail.WithSSL())
	case u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1" || u.Hostname() == "::1":
		options = append(options, gomail.WithTLSPolicy(gomail.TLSOpportunistic))
	}
	if u.Port() != "" {
		port, err := strconv.Atoi(u.Port())
		if err != nil {
			return nil, fmt.Errorf("port of the mail server: %w", err)
		}
		options = append(options, gomail.WithPort(port))
	}
	if password, ok := u.User.Password(); ok {
		options = append(options, gomail.WithSMTPAuth(gomail.SMTPAuthAutoDiscover),
			gomail.WithUsername(u.User.Username()), gomail.WithPassword(password))
	}
	c, err := gomail.NewClient(u.Hostname(), options...)
	if err != nil {
		return nil, fmt.Errorf("mail server: %w", err)
	}
	host, port := telemetry.HostPort(u.Host)
	return &SMTP{from: from, client: c, host: host, port: port, tracer: tracer}, nil
}

// Send implements [Sender].
func (s *SMTP) Send(ctx context.Context, m Message) error {
	msg := gomail.NewMsg()
	if err := msg.From(s.from); err != nil {
		return fmt.Errorf("address of the sender of mail: %w", err)
	}
	if err := msg.To(m.To); err != nil {
		return errAddress
	}
	msg.Subject(m.Subject)
	msg.SetBodyString(gomail.TypeTextPlain, m.Text)
	ctx, span := s.tracer.Ask(ctx, "send mail", s.host, s.port)
	span.Set(telemetry.Protocol, "smtp")
	defer span.End(nil)
	server, err := s.client.DialToSMTPClientWithContext(ctx)
	if err != nil { // the server has not received the message
		span.Fail(class(err))
		return fmt.Errorf("reach the mail server: %w", err)
	}
	defer s.client.CloseWithSMTPClient(server) // once the message is accepted, how the connection ends does not matter
	if err = s.client.SendWithSMTPClient(server, msg); err != nil {
		span.Fail(class(err))
	}
	return judge(err)
}

// class returns the error class for a span: the server's code, or the kind of connection failure.
func class(err error) string {
	var failed *gomail.SendError
	var refused *textproto.Error
	switch {
	case errors.As(err, &failed) && failed.ErrorCode() != 0:
		return strconv.Itoa(failed.ErrorCode())
	case errors.As(err, &refused):
		return strconv.Itoa(refused.Code)
	}
	return telemetry.Class(err)
}

// Check connects to the server as [SMTP.Send] does, encrypted and signed in, and sends nothing.
func (s *SMTP) Check(ctx context.Context) error {
	server, err := s.client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return fmt.Errorf("reach the mail server: %w", err)
	}
	return s.client.CloseWithSMTPClient(server)
}

var errAddress = queue.Final(telemetry.WithClass(errors.New("the recipient has no address that mail can go to"),
	"address"))

// judge interprets the outcome of a message. Texts of the server and of the library may contain the address, so only
// the step and the codes are reported.
func judge(err error) error {
	var failed *gomail.SendError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failed):
		code, status := failed.ErrorCode(), failed.EnhancedStatusCode()
		refused := fmt.Errorf("mail server refused: %s, code %d %s", failed.Reason, code, status)
		refused = telemetry.WithClass(refused, strings.TrimSuffix(fmt.Sprintf("%d_%s", code, status), "_"))
		if failed.Reason == gomail.ErrSMTPRcptTo && slices.Contains(unknownAddress, status) {
			return queue.Final(refused)
		}
		return refused
	}
	return telemetry.WithClass(errors.New("mail server took the message no further"), telemetry.Class(err))
}

// unknownAddress lists the enhanced codes (RFC 3463) that concern only the recipient's address. Other refusals may be
// caused by this deployment's settings, so those messages are retried.
var unknownAddress = []string{"5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10"}
