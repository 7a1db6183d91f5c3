package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"partnerd/internal/base/seal"
	"partnerd/internal/base/text"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/passkey"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/queue"
	"partnerd/internal/infra/signin"
	"partnerd/internal/infra/sms"
	"partnerd/internal/infra/vault"
)

// Lifetimes and limits of the self-service.
const (
	SignUpLifetime = 24 * time.Hour     // of the link that confirms an email address
	ResetLifetime  = time.Hour          // of the link that lets a client choose a new password
	EmailLifetime  = time.Hour          // of the link that confirms a client's new email address
	UndoLifetime   = 7 * 24 * time.Hour // of the link that restores the old address
	CodeLifetime   = 10 * time.Minute
	CodeTries      = 5 // attempts per code
	linksPerHour   = 5 // emails with a link per address; requests per client to change the address
	codesPerHour   = 5 // text messages per client
	codesPerDay    = 10
	codesToNumber  = 5 // text messages per number and day (UTC), for all clients together
)

// Errors that pages show.
var (
	ErrBadLink   = signin.ErrBadLink
	ErrSameEmail = fmt.Errorf("%w: the account has this e-mail address already", ErrInvalid)
	ErrTooMany   = errors.New("too many messages were sent; try again later")
	ErrNoMobile  = fmt.Errorf("%w: the number cannot receive text messages", ErrInvalid)
	ErrCountry   = fmt.Errorf("%w: numbers of this country cannot be verified", ErrInvalid)
)

// Numbers says which phone numbers clients may verify, and how many codes may be sent.
type Numbers struct {
	Countries []string // ISO 3166 codes; nil for [EEA]
	PerDay    int      // codes per day (UTC) to all numbers together; 0 for [CodesPerDay]
	Key       []byte   // key of the digests by which numbers are counted
}

// CodesPerDay is the default limit of codes per day (UTC), to all numbers together.
const CodesPerDay = 5000

// EEA lists the countries of the European Economic Area and those overseas territories that have numbers of their own.
var EEA = []string{"AT", "BE", "BG", "CY", "CZ", "DE", "DK", "EE", "ES", "FI", "FR", "GR", "HR", "HU", "IE", "IS", "IT",
	"LI", "LT", "LU", "LV", "MT", "NL", "NO", "PL", "PT", "RO", "SE", "SI", "SK", "AX", "BL", "GF", "GP", "MF", "MQ",
	"RE", "YT"}

// SelfServiceDeps are the dependencies of a [SelfService].
type SelfServiceDeps struct {
	DB       *postgres.DB
	Accounts *Service
	Box      *seal.Box
	Queue    *queue.Queue
	Mail     *mail.Service
	SMS      *sms.Service
	BaseURL  string // absolute, without a trailing slash
	Contact  string // URL that people write to; empty to refer them to the application that sent them
	Numbers  Numbers

	// Kept reports whether text messages to a client are kept for a test and not sent. If nil, all are sent.
	Kept func(ctx context.Context, tx postgres.Tx, clientID string) (bool, error)

	// Opened is called in the transaction that creates a client. It opens the wallet.
	Opened func(ctx context.Context, tx postgres.Tx, clientID string) error
}

// SelfService is what clients do for themselves: sign up, recover the password, change the address, verify the phone,
// and manage passkeys. Safe for concurrent use.
//
// A request for a link gets the same response after the same work, whether or not the client exists. The request only
// inserts a sealed job, and the job looks the client up.
type SelfService struct {
	deps     SelfServiceDeps
	keys     *vault.Keys
	texts    text.Catalogue
	passkeys *passkey.Ring
}

const (
	signUpJob = "account.sign-up"
	resetJob  = "account.reset"
	emailJob  = "account.email"
)

// NewSelfService creates the service and registers its jobs with the queue.
func NewSelfService(d SelfServiceDeps) (*SelfService, error) {
	texts, err := text.Messages()
	if err != nil {
		return nil, err
	}
	if d.Numbers.Countries == nil {
		d.Numbers.Countries = EEA
	}
	if d.Numbers.PerDay == 0 {
		d.Numbers.PerDay = CodesPerDay
	}
	s := &SelfService{deps: d, keys: vault.New(d.Box), texts: texts}
	if s.passkeys, err = passkey.NewRing(d.BaseURL, passkeyTables); err != nil {
		return nil, err
	}
	queue.Handle(d.Queue, signUpJob, s.sealedJob(signUpJob, s.mailSignUp))
	queue.Handle(d.Queue, resetJob, s.sealedJob(resetJob, s.mailReset))
	queue.Handle(d.Queue, emailJob, s.sealedJob(emailJob, s.mailEmail))
	return s, nil
}

// linkRequest asks for an email with a link.
type linkRequest struct {
	Email string `json:"email"`
	Name  string `json:"name,omitempty"`
	Next  string `json:"next,omitempty"`
	Lang  string `json:"lang"`

	ClientID string `json:"clientId,omitempty"` // the client who asks for a new address
	Password string `json:"password,omitempty"` // digest of the hash of the password that the client entered

	From mail.Origin `json:"from,omitzero"`
}

func (s *SelfService) insertJob(ctx context.Context, tx postgres.Tx, name string, r linkRequest) error {
	r.Lang, r.From = text.Known(r.Lang), mail.OriginOf(ctx)
	raw, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	sealed, err := s.deps.Box.Seal(name, raw)
	if err != nil {
		return err
	}
	return s.deps.Queue.Insert(ctx, tx, name, sealed)
}

func (s *SelfService) sealedJob(name string,
	do func(context.Context, postgres.Tx, linkRequest) error,
) func(context.Context, []byte) error {
	return func(ctx context.Context, sealed []byte) error {
		raw, err := s.deps.Box.Open(name, sealed)
		if err != nil {
			return err
		}
		var r linkRequest
		if err := json.Unmarshal(raw, &r); err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		return s.deps.DB.InTx(ctx, func(tx postgres.Tx) error { return do(ctx, tx, r) })
	}
}

// send emails the message with the given key, whose subject and text are filled from args.
func (s *SelfService) send(ctx context.Context, tx postgres.Tx, to, lang, key string, args ...any) error {
	subject, body, err := s.texts.Letter(lang, key, args...)
	if err != nil {
		return err
	}
	return s.deps.Mail.Send(ctx, tx, mail.Message{To: to, Subject: subject, Text: body})
}

// notify notifies a client of a change to the security of the account, at every address that can take it back.
func (s *SelfService) notify(ctx context.Context, tx postgres.Tx, c Client, lang, what string, args ...any) error {
	lang = c.Speaks(lang)
	event, err := s.texts.Get(lang, "notice."+what, args...)
	if err != nil {
		return err
	}
	subject, err := s.texts.Get(lang, "notice.subject", event)
	if err != nil {
		return err
	}
	from, err := mail.OriginOf(ctx).Said(s.texts, lang)
	if err != nil {
		return err
	}
	at := tx.Now.Format("2006-01-02 15:04 UTC") + ", " + from
	body, err := s.texts.Get(lang, "notice.text", c.Name, event, at, s.deps.BaseURL+"/password/forgot",
		s.deps.BaseURL+"/account/security")
	if err != nil {
		return err
	}
	if err := s.deps.Mail.Send(ctx, tx, mail.Message{To: c.Email, Subject: subject, Text: body}); err != nil {
		return err
	}
	links, err := openUndoLinks(ctx, tx, c.ID)
	if err != nil {
		return err
	}
	notified := map[string]bool{strings.ToLower(c.Email): true}
	for _, l := range links { // if there are several links to one address, the one that expires last comes first
		if notified[strings.ToLower(l.Email)] {
			continue
		}
		notified[strings.ToLower(l.Email)] = true
		body, err := s.texts.Get(lang, "notice.former.text", c.Name, event, at,
			l.ExpiresAt.Format("2006-01-02 15:04 UTC"))
		if err != nil {
			return err
		}
		if err := s.deps.Mail.Send(ctx, tx, mail.Message{To: l.Email, Subject: subject, Text: body}); err != nil {
			return err
		}
	}
	return nil
}

// Purge deletes links, challenges and browser sessions a day after they expire, and codes a day after they were made.
// Until then links and codes count towards limits.
func (s *SelfService) Purge(ctx context.Context) (int, error) {
	return purge(ctx, s.deps.DB.Read())
}

// WithdrawalReceipt is the content of the receipt for a withdrawal from a contract. Its texts are in the client's
// language.
type WithdrawalReceipt struct {
	Reference   string // ID of the consultation
	Application string // name of the application that requested it

	ApplicationID string // replaces a name that contains an address
	At            string // date and time
	Price         string
	Begun         bool // whether the consultation had begun, so that part of the price may be due
}

// SendWithdrawalReceipt emails the receipt that the law requires.
func (s *SelfService) SendWithdrawalReceipt(ctx context.Context, tx postgres.Tx, c Client, lang string,
	r WithdrawalReceipt,
) error {
	lang = c.Speaks(lang)
	key := "withdrawal.cancelled"
	if r.Begun {
		key = "withdrawal.begun"
	}
	outcome, err := s.texts.Get(lang, key, r.Price)
	if err != nil {
		return err
	}
	return s.send(ctx, tx, c.Email, lang, "withdrawal", c.Name, r.Reference,
		text.Mailed(r.Application, r.ApplicationID), r.At, outcome)
}
