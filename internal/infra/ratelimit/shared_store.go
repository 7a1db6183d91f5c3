package ratelimit

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/valkey-io/valkey-go"

	"partnerd/internal/base/poll"
	"partnerd/internal/base/telemetry"
)

const (
	answerWithin = 50 * time.Millisecond // the server's time limit; after it this process decides
	// late responses in a row after which the server is not used until a reconnect succeeds
	lateAnswers   = 3
	connectWithin = time.Second
	connectEvery  = time.Second
	firstConnect  = 2 * time.Second // how long startup waits
)

// takeScript implements AllowEach. It returns the state of each bucket before the request, from which decide derives
// the rest. A bucket is stored as the microsecond at which it is full again. It expires a minute later than necessary,
// so that no two clocks must agree.
//
// The time is the caller's, which is the database's in every process, not the server's. Reset is thus consistent with
// every other time in a response. A failover to a server with a different clock moves no bucket, and tests can set the
// clock.
var takeScript = valkey.NewLuaScript(`
local now, before = tonumber(ARGV[1]), {}
for i, key in ipairs(KEYS) do
  local interval, burst = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1])
  local full = tonumber(redis.call('GET', key) or 0)
  before[i] = full
  local after = math.max(full, now) + interval
  if after - now > interval * burst then break end
  redis.call('SET', key, string.format('%.0f', after), 'PX', string.format('%.0f', math.ceil((after - now) / 1000) + 60000))
end
return before`)

// putBackScript ignores a bucket that is not stored, and so is full: a key created here would never expire.
var putBackScript = valkey.NewLuaScript(
	`if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('DECRBY', KEYS[1], ARGV[1]) end return 0`,
)

// shared is the set of buckets of all processes of a deployment, in a server compatible with Valkey. A nil shared has
// no server.
type shared struct {
	options valkey.ClientOption
	prefix  string
	secret  []byte
	log     *slog.Logger
	tracer  *telemetry.Tracer
	host    string // the server's host, for spans
	port    int
	within  time.Duration

	server atomic.Pointer[valkey.Client] // nil while the server is unavailable
	late   atomic.Int32                  // late responses in a row
	gone   chan struct{}                 // signals that the server has just been given up
	alone  prometheus.Counter
	there  prometheus.GaugeFunc
}

// NewShared returns a limiter that shares its buckets with all processes that use the same server and secret, once
// [Limiter.Run] has connected. While the server is unavailable or late, this process counts separately. Bucket keys are
// sent only as digests, so they reveal neither personal nor network addresses. tracer records requests to the server;
// it may be nil.
func NewShared(address string, secret []byte, log *slog.Logger, tracer *telemetry.Tracer) (*Limiter, error) {
	o, err := valkey.ParseURL(address)
	if err != nil {
		// err contains the password
		return nil, errors.New("is not like valkey://user:password@host:6379, or valkeys:// where the network is " +
			"not to be trusted")
	}
	o.Dialer.Timeout, o.ConnWriteTimeout = connectWithin, connectWithin
	o.DisableCache, o.DisableRetry = true, true // a counted request must not be counted again
	o.ClientName = "partnerd"
	l := New()
	s := &shared{options: o, secret: secret, log: log, tracer: tracer, within: answerWithin,
		gone: make(chan struct{}, 1)}
	// The part in braces determines which server of a cluster stores a bucket. It is the same for all buckets of a
	// deployment, because a script may access several.
	s.prefix = "partnerd:{" + s.digest("")[:8] + "}:"
	if len(o.InitAddress) > 0 {
		s.host, s.port = telemetry.HostPort(o.InitAddress[0])
	}
	s.measure()
	l.shared = s
	return l, nil
}

func (s *shared) measure() {
	s.alone = prometheus.NewCounter(prometheus.CounterOpts{Name: "partnerd_rate_limit_alone_total",
		Help: "Decisions about quotas that this process took for itself because the shared server did not answer."})
	s.there = prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "partnerd_rate_limit_shared",
		Help: "1 while quotas are counted by all processes together, 0 while this one counts for itself."},
		func() float64 {
			if s.server.Load() == nil {
				return 0
			}
			return 1
		})
}

// CheckPrivate rejects an unencrypted connection over a network. Its password could be read, and with it everyone's
// buckets.
func CheckPrivate(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return errors.New("cannot be read")
	}
	local := u.Scheme == "unix" || u.Hostname() == "localhost" || filepath.IsAbs(u.Hostname()) ||
		net.ParseIP(u.Hostname()).IsLoopback()
	if local || u.Scheme == "valkeys" || u.Scheme == "rediss" {
		return nil
	}
	return errors.New("connections over a network must be encrypted: valkeys://")
}

// Collectors returns metrics about where requests are counted.
func (l *Limiter) Collectors() []prometheus.Collector {
	s := l.shared
	if s == nil {
		s = &shared{}
		s.measure()
	}
	return []prometheus.Collector{s.alone, s.there}
}

// Shared reports whether all processes currently count together.
func (l *Limiter) Shared() bool { return l.shared != nil && l.shared.server.Load() != nil }

// Connect connects to the server, if one is configured. It waits two seconds at most; [Limiter.Run] keeps trying.
func (l *Limiter) Connect(ctx context.Context) {
	if l.shared == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, firstConnect)
	defer cancel()
	if err := l.shared.connect(ctx); err != nil {
		l.shared.log.Warn("the server of PARTNERD_VALKEY_URL is not there: this process counts requests for "+
			"itself until it is", "error", err)
	}
}

// CheckServer returns an error unless the server at address responds and lets us count there.
func CheckServer(ctx context.Context, address string) error {
	l, err := NewShared(address, nil, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		return err
	}
	defer l.shared.hangUp()
	return l.shared.connect(ctx)
}

// Run keeps the connection to the server until ctx ends, and logs whenever counting switches between the server and
// this process.
func (l *Limiter) Run(ctx context.Context) error {
	if l.shared == nil {
		<-ctx.Done()
		return nil
	}
	defer l.shared.hangUp()
	for ctx.Err() == nil {
		if l.shared.server.Load() == nil {
			if err := l.shared.connect(ctx); err != nil {
				poll.Pause(ctx, connectEvery)
				continue
			}
			l.shared.log.Info("requests are counted by all processes together")
		}
		select {
		case <-ctx.Done():
		case <-l.shared.gone:
		}
	}
	return nil
}

func (s *shared) connect(ctx context.Context) error {
	c, err := valkey.NewClient(s.options)
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, connectWithin)
	defer cancel()
	// Without any bucket: the server loads the script, and shows whether we may run it.
	if err := takeScript.Exec(asking, c, nil, []string{"0"}).Error(); err != nil {
		c.Close()
		return err
	}
	s.late.Store(0)
	s.server.Store(&c)
	return nil
}

func (s *shared) hangUp() {
	if c := s.server.Swap(nil); c != nil {
		(*c).Close()
	}
}

// ask sends a command to the server and reports whether it responded. It does not use the deadline of caller: a
// cancelled request says nothing about the server.
func (s *shared) ask(caller context.Context, command string, f func(ctx context.Context, c valkey.Client) error) bool {
	if s == nil {
		return false
	}
	c := s.server.Load()
	if c == nil {
		s.alone.Inc()
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.within)
	defer cancel()
	_, span := s.tracer.Ask(caller, command, s.host, s.port)
	span.Set(telemetry.System, "redis") // the protocol, which tools know; the product is not determined
	span.Set(telemetry.Operation, command)
	err := f(ctx, *c)
	if err != nil {
		span.Fail(telemetry.Class(err))
	}
	span.End(nil)
	if err == nil {
		if s.late.Load() != 0 {
			s.late.Store(0)
		}
		return true
	}
	s.alone.Inc()
	if errors.Is(err, context.DeadlineExceeded) && s.late.Add(1) < lateAnswers {
		return false
	}
	s.giveUp(c, err)
	return false
}

// giveUp stops using the server, so that a hung one delays only a few requests per moment, and not every one.
func (s *shared) giveUp(c *valkey.Client, err error) {
	if !s.server.CompareAndSwap(c, nil) {
		return
	}
	s.log.Warn("the server of PARTNERD_VALKEY_URL does not answer: this process counts requests for "+
		"itself until it does", "error", err)
	go (*c).Close() // waits for commands in progress
	select {
	case s.gone <- struct{}{}:
	default:
	}
}

// take runs takeScript.
func (s *shared) take(ctx context.Context, now time.Time, buckets []Bucket) (before []time.Time, ok bool) {
	if s == nil {
		return nil, false
	}
	keys, args := make([]string, 0, len(buckets)), make([]string, 0, 1+2*len(buckets))
	args = append(args, micros(now.UnixMicro()))
	for _, b := range buckets {
		q := PerMinute(b.PerMinute)
		keys = append(keys, s.key(b.Key))
		args = append(args, micros(q.Interval.Microseconds()), strconv.Itoa(q.Burst))
	}
	ok = s.ask(ctx, "EVALSHA", func(ctx context.Context, c valkey.Client) error {
		at, err := takeScript.Exec(ctx, c, keys, args).AsIntSlice()
		if err != nil {
			return err
		}
		if len(at) == 0 || len(at) > len(buckets) {
			return fmt.Errorf("%d answers about %d buckets", len(at), len(buckets))
		}
		for _, us := range at {
			before = append(before, time.UnixMicro(us).UTC())
		}
		return nil
	})
	return before, ok
}

// look reads when a bucket is full again.
func (s *shared) look(ctx context.Context, key string) (full time.Time, ok bool) {
	ok = s.ask(ctx, "GET", func(ctx context.Context, c valkey.Client) error {
		us, err := c.Do(ctx, c.B().Get().Key(s.key(key)).Build()).AsInt64()
		if err != nil && !valkey.IsValkeyNil(err) {
			return err
		}
		full = time.UnixMicro(us).UTC()
		return nil
	})
	return full, ok
}

// putBack runs putBackScript.
func (s *shared) putBack(ctx context.Context, key string, q Quota) bool {
	return s.ask(ctx, "EVALSHA", func(ctx context.Context, c valkey.Client) error {
		return putBackScript.Exec(ctx, c, []string{s.key(key)}, []string{micros(q.Interval.Microseconds())}).Error()
	})
}

func (s *shared) key(bucket string) string { return s.prefix + s.digest(bucket) }

// digest returns 128 bits. The digest of the empty text identifies the deployment.
func (s *shared) digest(text string) string {
	mac := hmac.New(sha256.New, s.secret)
	mac.Write([]byte(text))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}

func micros(us int64) string { return strconv.FormatInt(us, 10) }
