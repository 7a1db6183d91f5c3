package conformance

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"

	"partnerd/internal/base/clock"
	"partnerd/internal/domain/webhook"
)

// Direct posts to an endpoint without the service in between. It copies client, which must have a timeout, and follows
// no redirect.
func Direct(url string, client *http.Client) Poster {
	c := *client
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return func(ctx context.Context, p webhook.Post) (a webhook.Answer) {
		now := clock.System{}.Now
		began := now()
		defer func() { a.Took = now().Sub(began) }()
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(p.Body))
		if err != nil {
			return webhook.Answer{Fault: err.Error()}
		}
		req.Header = webhook.Headers(p.Type, p.Delivery, p.Sequence, p.Attempt, true)
		maps.Copy(req.Header, p.Signatures)
		resp, err := c.Do(req)
		if err != nil {
			return webhook.Answer{Fault: err.Error()}
		}
		defer resp.Body.Close()
		if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)); err != nil {
			return webhook.Answer{Fault: err.Error()}
		}
		return webhook.Answer{Status: resp.StatusCode}
	}
}
