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

// Lifetimes and limits of what clients do for themselves.
const (
	SignUpLifetime = 24 * time.Hour     // of the link that confirms an e-mail address
	ResetLifetime  = time.Hour          // of the link that lets a client choose a new password
	EmailLifetime  = time.Hour          // of the link that confirms a client's new e-mail address
	UndoLifetime   = 7 * 24 * time.Hour // of the link that gives back the old one
	CodeLifetime   = 10 * time.Minute
	CodeTries      = 5 // of one code
	linksPerHour   = 5 // mails with a link to one address; requests of one client to change the address
	codesPerHour   = 5 // text messages of one client
	codesPerDay    = 10
	codesToNumber  = 5 // text messages a day (UTC) to one number, whoever asks for them
)

// Faults that pages show.
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
	PerDay    int      // codes a day (UTC) to all numbers together; 0 for [CodesPerDay]
	Key       []byte   // of the digests of numbers that are counted
}

// CodesPerDay is how many codes are sent a day (UTC), to all numbers together, unless it is set otherwise.
const CodesPerDay = 5000

// EEA are the countries of the European Economic Area, with the overseas departments that have numbers of their own.
var EEA = []string{"AT", "BE", "BG", "CY", "CZ", "DE", "DK", "EE", "ES", "FI", "FR", "GR", "HR", "HU", "IE", "IS", "IT",
	"LI", "LT", "LU", "LV", "MT", "NL", "NO", "PL", "PT", "RO", "SE", "SI", "SK", "AX", "BL", "GF", "GP", "MF", "MQ",
	"RE", "YT"}

// SelfServiceDeps are what a [SelfService] works with.
type SelfServiceDeps struct {
	DB       *postgres.DB
	Accounts *Service
	Box      *seal.Box
	Queue    *queue.Queue
	Mail     *mail.Service
	SMS      *sms.Service
	BaseURL  string // absolute, without a trailing slash
	Contact  string // whom people write to, a URL; empty: the application that sent them
	Numbers  Numbers

	// Kept tells that text messages to a client are kept for a test and sent to nobody; nil: none are.
	Kept func(ctx context.Context, tx postgres.Tx, clientID string) (bool, error)

	// Opened is called in the transaction that creates a client: whoever creates one opens the wallet.
	Opened func(ctx context.Context, tx postgres.Tx, clientID string) error
}

// SelfService is what clients do for themselves: sign up, recover the password, change the address, verify the phone,
// keep passkeys.
// Safe for concurrent use.
//
// Whoever asks for a link gets the same answer after the same work, whether there is such a client or not: the request
// only inserts a sealed job, and the job finds out.
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

// NewSelfService makes the service and tells the queue how to work for it.
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

// linkRequest asks for a mail with a link.
type linkRequest struct {
	Email string `json:"email"`
	Name  string `json:"name,omitempty"`
	Next  string `json:"next,omitempty"`
	Lang  string `json:"lang"`

	ClientID string `json:"clientId,omitempty"` // who asks for another address
	Password string `json:"password,omitempty"` // digest of the hash of the password that the client showed

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

// send mails the wording of key, whose subject and text are put together from args.
func (s *SelfService) send(ctx context.Context, tx postgres.Tx, to, lang, key string, args ...any) error {
	subject, body, err := s.texts.Letter(lang, key, args...)
	if err != nil {
		return err
	}
	return s.deps.Mail.Send(ctx, tx, mail.Message{To: to, Subject: subject, Text: body})
}

// notify tells a client that something about the security of the account changed, at every address that can take it
// back.
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
	told := map[string]bool{strings.ToLower(c.Email): true}
	for _, l := range links { // of several to one address, the one that works longest comes first
		if told[strings.ToLower(l.Email)] {
			continue
		}
		told[strings.ToLower(l.Email)] = true
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

// Purge deletes links, codes, challenges and browser sessions that are over; codes are kept a day, because they count.
func (s *SelfService) Purge(ctx context.Context) (int, error) {
	return purge(ctx, s.deps.DB.Read())
}

// WithdrawalReceipt is what the receipt of a withdrawal from a contract says; the texts are in the client's language.
type WithdrawalReceipt struct {
	Reference   string // of the consultation
	Application string // name of the application through which it was requested

	ApplicationID string // stands in the mail for a name that leads somewhere
	At            string // date and time
	Price         string
	Begun         bool // the consultation had begun, so a part of the price may be due
}

// SendWithdrawalReceipt mails the receipt that the law asks for.
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
