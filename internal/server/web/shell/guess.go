package shell

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/id"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
)

// Try is one attempt, counted in a bucket of perMinute attempts.
type Try struct {
	Bucket    string
	PerMinute int
}

// Attempt counts an attempt in each bucket in turn. It returns how long to wait, or 0 if the attempt may proceed.
func (p *Shell) Attempt(ctx context.Context, tries ...Try) time.Duration {
	if len(tries) == 0 {
		return 0
	}
	var buckets []ratelimit.Bucket
	for _, t := range tries {
		buckets = append(buckets, ratelimit.Bucket{Key: t.Bucket, PerMinute: t.PerMinute})
	}
	said := p.limiter.AllowEach(ctx, p.DB.Clock().Now(), buckets...)
	return said[len(said)-1].RetryAfter
}

// TakeBack removes attempts that proved harmless from their buckets.
func (p *Shell) TakeBack(ctx context.Context, tries []Try) {
	for _, t := range tries {
		p.limiter.Return(ctx, t.Bucket, t.PerMinute)
	}
}

// From is an attempt that counts against its network.
func From(c echo.Context, what string, perMinute int) Try {
	return Try{what + " address " + ratelimit.Network(c.RealIP()), perMinute}
}

// SetRetryAfter tells the browser how long to wait, in seconds rounded up.
func SetRetryAfter(c echo.Context, wait time.Duration) {
	c.Response().Header().Set("Retry-After", fmt.Sprint(int(math.Ceil(wait.Seconds()))))
}

// TooMany responds with the error page for too many requests and how long to wait.
func TooMany(c echo.Context, wait time.Duration) error {
	SetRetryAfter(c, wait)
	return StatusError(http.StatusTooManyRequests)
}

// GuessQuota limits wrong passwords or codes for one account, or from one browser known to it. It allows 34 on the
// first day and 24 on each further day. The longest wait is one hour.
var GuessQuota = ratelimit.Quota{Burst: 10, Interval: time.Hour}

// Guess is an attempt at a password or a code. This process counts it per minute, and all processes together count it
// under key for hours. A hopeless guess aims at something that cannot be guessed. It is counted under key so that the
// person can be notified, but only the limit per minute can refuse it.
type Guess struct {
	Tries    []Try
	Key      string
	Hopeless bool
}

// Guess counts an attempt. It must be called before the attempt is checked, so that parallel attempts count too.
// [Shell.Forgive] removes a correct attempt, so only guessing is slowed down.
func (p *Shell) Guess(ctx context.Context, g Guess) (d ratelimit.Decision, err error) {
	if wait := p.Attempt(ctx, g.Tries...); wait > 0 {
		return ratelimit.Decision{RetryAfter: wait}, nil
	}
	err = p.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		d, err = ratelimit.Take(ctx, tx, g.Key, GuessQuota)
		return err
	})
	if err != nil {
		return d, fmt.Errorf("count a guess: %w", err)
	}
	if g.Hopeless {
		d.Allowed, d.RetryAfter = true, 0
	}
	return d, nil
}

// Forgive removes a correct guess from its limits.
func (p *Shell) Forgive(ctx context.Context, g Guess) error {
	p.TakeBack(ctx, g.Tries)
	return ratelimit.PutBack(ctx, p.DB.Read(), g.Key, GuessQuota)
}

// Judge runs do to check a guess in a transaction, unless the decision says how long to wait. do reports a wrong guess
// by an error in wrong. All other outcomes are not counted, because the guess was correct or was not checked.
func (p *Shell) Judge(ctx context.Context, g Guess, wrong []error,
	do func(tx postgres.Tx) error,
) (ratelimit.Decision, error) {
	d, err := p.Guess(ctx, g)
	if err != nil || d.RetryAfter > 0 {
		return d, err
	}
	err = p.DB.InTx(ctx, do)
	if slices.ContainsFunc(wrong, func(target error) bool { return errors.Is(err, target) }) {
		return d, err
	}
	if forgiven := p.Forgive(ctx, g); forgiven != nil {
		return d, forgiven
	}
	return d, err
}

// KnownGuess is a guess from a browser that the account knows.
func (p *Shell) KnownGuess(browser string) Guess {
	return Guess{Tries: []Try{{browser, p.LoginPerAccount}}, Key: browser}
}

// StrangeGuess is a guess from any other browser.
func (p *Shell) StrangeGuess(c echo.Context, account string) Guess {
	return Guess{Tries: []Try{From(c, "login", p.LoginPerAddress), {account, p.LoginPerAccount}},
		Key: account}
}

// Digest represents an email address in the key of a limit.
func Digest(email string) string {
	return id.DigestOf(strings.ToLower(strings.TrimSpace(email))).String()
}

// PasswordsPerMinute is how many times per minute a person may enter the current password.
const PasswordsPerMinute = 10 // attempts at the current password, of one client

// Attempts per minute to request emails, to use their links, and to request passkey challenges.
const (
	MailsPerAddress      = 10
	MailsPerAccount      = 3
	linksPerAddress      = 30
	challengesPerAddress = 30
)

// TryMail counts a request for an email, against its network and against the requested email, which what identifies. It
// returns how long to wait, or 0 if the email may be sent.
func (p *Shell) TryMail(c echo.Context, what string) time.Duration {
	return p.Attempt(c.Request().Context(), From(c, "mail", MailsPerAddress), Try{what, MailsPerAccount})
}

// TryLink is [Shell.TryMail] for using an emailed link.
func (p *Shell) TryLink(c echo.Context) time.Duration {
	return p.Attempt(c.Request().Context(), From(c, "link", linksPerAddress))
}

// TryPasskey is [Shell.TryMail] for a challenge.
func (p *Shell) TryPasskey(c echo.Context) time.Duration {
	return p.Attempt(c.Request().Context(), From(c, "passkey", challengesPerAddress))
}
