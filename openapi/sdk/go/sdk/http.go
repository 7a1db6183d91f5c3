package sdk

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"time"
)

// Retries say how requests are retried. The zero value has the defaults.
type Retries struct {
	Tries     int               // most tries of a request; 0: 4
	Pause     time.Duration     // before the second try, doubled before each further one, less up to half at random; 0: 500 ms
	Longest   time.Duration     // longest pause; a longer Retry-After is returned; 0: 20 s
	Timeout   time.Duration     // in which a whole response must arrive; 0: 30 s
	Transport http.RoundTripper // what sends; nil: http.DefaultTransport
}

// NewIdempotencyKey is a key for one action of a user. Store it with what you are about to send, and send it again after a
// crash of your process.
func NewIdempotencyKey() string { return rand.Text() }

const idempotencyKey = "Idempotency-Key"

var (
	takesKey      = regexp.MustCompile(`/api/v1/(consultations|wallet/topup-session)$`)
	harmlessTwice = regexp.MustCompile(`/api/(v1/consultations/[^/]+/cancel|oauth/revoke)$`)
)

// retrying retries, after a pause, what got a 429, a 503 or no response. It retries what is safe to repeat: reads,
// cancellations, revocations, and every request with an Idempotency-Key. A POST that takes a key and has none gets one,
// the same for all its tries.
type retrying struct{ Retries }

// RoundTrip implements [http.RoundTripper]. The response has been read whole, so a connection lost halfway is retried.
func (s *retrying) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	r = withBody(r, body)
	if r.Method == http.MethodPost && takesKey.MatchString(r.URL.Path) && r.Header.Get(idempotencyKey) == "" {
		r.Header.Set(idempotencyKey, NewIdempotencyKey())
	}
	repeatable := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Header.Get(idempotencyKey) != "" ||
		harmlessTwice.MatchString(r.URL.Path)
	pause, longest := or(s.Pause, 500*time.Millisecond), or(s.Longest, 20*time.Second)
	for turn := 1; ; turn++ {
		last := !repeatable || turn >= or(s.Tries, 4)
		wait := pause - mathrand.N(pause/2+1)
		pause *= 2
		resp, err := s.once(r, body)
		if last || r.Context().Err() != nil || err == nil && resp.StatusCode != http.StatusTooManyRequests &&
			resp.StatusCode != http.StatusServiceUnavailable {
			return resp, err
		}
		if err == nil {
			if wait += retryAfter(resp); wait > longest {
				return resp, nil
			}
		}
		select {
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-time.After(min(wait, longest)):
		}
	}
}

// once sends a request and reads its response whole.
func (s *retrying) once(r *http.Request, body []byte) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), or(s.Timeout, 30*time.Second))
	defer cancel()
	transport := s.Transport
	if transport == nil {
		transport = http.DefaultTransport
	}
	resp, err := transport.RoundTrip(withBody(r, body).WithContext(ctx))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	whole, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(whole))
	return resp, nil
}

// retryAfter is what a response asks to wait: seconds or a date; 0 when it asks for nothing.
func retryAfter(resp *http.Response) time.Duration {
	value := resp.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return max(time.Until(at), 0)
}

// bodyOf reads and closes the body of a request, as a RoundTripper must.
func bodyOf(r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	defer r.Body.Close()
	return io.ReadAll(r.Body)
}

// withBody is a copy of a request.
func withBody(r *http.Request, body []byte) *http.Request {
	copied := r.Clone(r.Context())
	copied.GetBody = nil
	if body == nil {
		copied.Body = nil
		return copied
	}
	copied.Body, copied.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return copied
}

func or[T int | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}
