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

// Try is one count against a bucket of perMinute tries.
type Try struct {
	Bucket    string
	PerMinute int
}

// Attempt counts a try in each bucket in turn and returns how long to wait, 0 when it may go on.
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

// TakeBack uncounts tries that proved harmless.
func (p *Shell) TakeBack(ctx context.Context, tries []Try) {
	for _, t := range tries {
		p.limiter.Return(ctx, t.Bucket, t.PerMinute)
	}
}

// From is a try that counts against the network that it comes from.
func From(c echo.Context, what string, perMinute int) Try {
	return Try{what + " address " + ratelimit.Network(c.RealIP()), perMinute}
}

// SetRetryAfter tells the browser how long to wait, in seconds rounded up.
func SetRetryAfter(c echo.Context, wait time.Duration) {
	c.Response().Header().Set("Retry-After", fmt.Sprint(int(math.Ceil(wait.Seconds()))))
}

// TooMany is the error page for too many requests, with how long to wait.
func TooMany(c echo.Context, wait time.Duration) error {
	SetRetryAfter(c, wait)
	return StatusError(http.StatusTooManyRequests)
}

// GuessQuota bounds the wrong passwords or codes for one account, or from one browser that it knows: 34 within the
// first day, 24 on each day after it, and nobody waits longer than an hour.
var GuessQuota = ratelimit.Quota{Burst: 10, Interval: time.Hour}

// Guess is a try at a password or a code. This process counts it by the minute, and under key all processes together
// and for hours. A hopeless one cannot be guessed: it is counted, so that it can be told, and never refused for what
// was counted under key; the minute alone bounds what it costs us.
type Guess struct {
	Tries    []Try
	Key      string
	Hopeless bool
}

// Guess counts a try, which must come before it is judged so that parallel ones count too. [Shell.Forgive] takes back a
// right one: only guessing is slowed down.
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

// Forgive takes a guess back that was right.
func (p *Shell) Forgive(ctx context.Context, g Guess) error {
	p.TakeBack(ctx, g.Tries)
	return ratelimit.PutBack(ctx, p.DB.Read(), g.Key, GuessQuota)
}

// Judge has do judge a guess in a transaction, unless the decision says how long to wait. do reports a wrong guess by
// an error of wrong; any other outcome is not counted, because the guess was right or was not looked at.
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

// KnownGuess is one from a browser that the account knows.
func (p *Shell) KnownGuess(browser string) Guess {
	return Guess{Tries: []Try{{browser, p.LoginPerAccount}}, Key: browser}
}

// StrangeGuess is one from any other browser.
func (p *Shell) StrangeGuess(c echo.Context, account string) Guess {
	return Guess{Tries: []Try{From(c, "login", p.LoginPerAddress), {account, p.LoginPerAccount}},
		Key: account}
}

// Digest stands for an email address in the key of a limit.
func Digest(email string) string {
	return id.DigestOf(strings.ToLower(strings.TrimSpace(email))).String()
}

// PasswordsPerMinute is how often a person may try the present password a minute.
const PasswordsPerMinute = 10 // tries at the present password, of one client

// Tries a minute of asking for mails, of using their links, and of asking for passkey challenges.
const (
	MailsPerAddress      = 10
	MailsPerAccount      = 3
	linksPerAddress      = 30
	challengesPerAddress = 30
)

// TryMail counts a request for a mail, against its network and against what is asked for, which what names. It returns
// how long to wait, 0 when the mail may be sent.
func (p *Shell) TryMail(c echo.Context, what string) time.Duration {
	return p.Attempt(c.Request().Context(), From(c, "mail", MailsPerAddress), Try{what, MailsPerAccount})
}

// TryLink is [Shell.TryMail] for the use of a mailed link.
func (p *Shell) TryLink(c echo.Context) time.Duration {
	return p.Attempt(c.Request().Context(), From(c, "link", linksPerAddress))
}

// TryPasskey is [Shell.TryMail] for a challenge.
func (p *Shell) TryPasskey(c echo.Context) time.Duration {
	return p.Attempt(c.Request().Context(), From(c, "passkey", challengesPerAddress))
}
