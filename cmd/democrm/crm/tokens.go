package crm

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	tokenTries = 4
	tokenPause = 250 * time.Millisecond // before the second attempt; then doubled each time
	tokenBody  = 64 << 10
)

// TokenClient returns the HTTP client for the token endpoint. Pass it to the OAuth client with
// [golang.org/x/oauth2.HTTPClient].
//
// A refresh token can be used once, and reusing it ends the connection. A request whose response was lost must
// therefore not simply be repeated. This client gives every request its own Idempotency-Key and retries with the same
// key, within the minute for which the service stores its response.
func TokenClient(base http.RoundTripper) *http.Client {
	return &http.Client{Transport: repeating{base}, Timeout: 30 * time.Second}
}

type repeating struct{ base http.RoundTripper }

func (t repeating) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Idempotency-Key", rand.Text())
	for try, wait := 1, tokenPause; ; try, wait = try+1, 2*wait {
		resp, err := t.once(r)
		if try == tokenTries || err == nil && resp.StatusCode < 500 {
			return resp, err
		}
		select {
		case <-r.Context().Done():
			return resp, err
		case <-time.After(wait):
		}
		if r.GetBody != nil {
			if r.Body, err = r.GetBody(); err != nil {
				return nil, fmt.Errorf("repeat the request: %w", err)
			}
		}
	}
}

// once returns a response that has arrived completely.
func (t repeating) once(r *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, tokenBody))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}
