package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// service is the Platform API of a deployment, for one application.
type service struct {
	BaseURL          string `name:"base-url" help:"Base URL of the service: the part before /api. Default: the local service of make run." default:"${address}" env:"PARTNERCTL_BASE_URL"`
	ClientID         string `name:"client-id" help:"client_id of the application." env:"PARTNERCTL_CLIENT_ID"`
	ClientSecretFile []byte `name:"secret-file" help:"File with the client_secret; - for standard input. Default: PARTNERCTL_CLIENT_SECRET." type:"filecontent"`
	JSON             bool   `name:"json" help:"Print the response body as JSON."`
}

// address returns the base URL of the service of make run, derived from the same variables.
func address() string {
	listens := os.Getenv("PARTNERD_ADDR")
	return cmp.Or(os.Getenv("PARTNERD_BASE_URL"),
		"http://localhost:"+cmp.Or(listens[strings.LastIndex(listens, ":")+1:], "8080"))
}

const (
	maxAnswer   = 8 << 20 // bytes
	maxPatience = 45 * time.Second
)

// refusal is an error response of the service.
type refusal struct {
	Status     int
	Code       string `json:"code"`
	Message    string `json:"message"`
	RetryAfter time.Duration
	RequestID  string
	Issues     []struct {
		Path    string `json:"path"`
		Message string `json:"message"`
	} `json:"issues"`
}

// Error implements the interface error.
func (r *refusal) Error() string {
	text := fmt.Sprintf("%d %s: %s", r.Status, r.Code, r.Message)
	for _, i := range r.Issues {
		text += fmt.Sprintf("\n  %s: %s", cmp.Or(i.Path, "body"), i.Message)
	}
	return text + "\n  (" + r.RequestID + ")"
}

// call sends a request and returns the body of a successful response. It retries once after a 429, a 503 or a lost
// response. All tries of a write have one Idempotency-Key, so a retry does nothing twice: a secret whose response was
// lost is returned, and not rotated again.
func (s *service) call(ctx context.Context, method, path string, body any) (json.RawMessage, error) {
	key := ""
	if method != http.MethodGet {
		key = rand.Text()
	}
	raw, err := s.try(ctx, method, path, key, body)
	var refused *refusal
	var pause time.Duration
	switch {
	case errors.As(err, &refused) && (refused.Status == http.StatusTooManyRequests ||
		refused.Status == http.StatusServiceUnavailable) && refused.RetryAfter <= maxPatience:
		pause = refused.RetryAfter
	case errors.Is(err, errLost):
		pause = time.Second
	default:
		return raw, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(pause):
	}
	return s.try(ctx, method, path, key, body)
}

// read sends a request and reads the response into v.
func (s *service) read(ctx context.Context, method, path string, body, v any) error {
	raw, err := s.call(ctx, method, path, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}

// errLost is part of the error when a request may have been processed and its response did not arrive.
var errLost = errors.New("the response was lost")

func (s *service) try(ctx context.Context, method, path, key string, body any) (json.RawMessage, error) {
	secret := cmp.Or(strings.TrimSpace(string(s.ClientSecretFile)), os.Getenv("PARTNERCTL_CLIENT_SECRET"))
	if s.ClientID == "" || secret == "" {
		return nil, errors.New("set --client-id (or PARTNERCTL_CLIENT_ID), and the client_secret with " +
			"PARTNERCTL_CLIENT_SECRET or --secret-file")
	}
	var sent io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(raw)
	}
	ctx, cancel := context.WithTimeout(ctx, maxPatience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(s.BaseURL, "/")+"/api/platform/v1"+path, sent)
	if err != nil {
		return nil, err
	}
	r.SetBasicAuth(s.ClientID, secret)
	r.Header.Set("User-Agent", "partnerctl/1")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	resp, err := http.DefaultClient.Do(r)
	var unconnected *net.OpError
	if err != nil && ctx.Err() == nil && !(errors.As(err, &unconnected) && unconnected.Op == "dial") {
		return nil, fmt.Errorf("%w: %w", errLost, err)
	}
	if err != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("%s does not respond; set the base URL of the service with --base-url, "+
			"PARTNERCTL_BASE_URL or in %s: %w", s.BaseURL, settingsFile, err)
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errLost, err)
	}
	if resp.StatusCode/100 != 2 {
		refused := &refusal{Status: resp.StatusCode, RequestID: resp.Header.Get("X-Request-Id")}
		if json.Unmarshal(raw, refused) != nil {
			return nil, fmt.Errorf("%s returned %s, which is not a response of this API", s.BaseURL, resp.Status)
		}
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // 0 if absent
		refused.RetryAfter = time.Duration(seconds) * time.Second
		return nil, refused
	}
	return raw, nil
}

// printJSON prints a value as one line.
func printJSON(v any) error {
	raw, err := json.Marshal(v)
	if err == nil {
		fmt.Println(string(raw))
	}
	return err
}

// tell sends a request, and prints the response as it is, or the lines that show returns for it.
func tell[T any](ctx context.Context, s *service, method, path string, body any, show func(T) []string) error {
	raw, err := s.call(ctx, method, path, body)
	if err != nil {
		return err
	}
	if s.JSON {
		fmt.Println(strings.TrimSpace(string(raw)))
		return nil
	}
	var v T
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &v); err != nil {
			return err
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	for _, line := range show(v) {
		fmt.Fprintln(w, line)
	}
	return w.Flush()
}

// row joins the cells of a table; nil becomes a dash.
func row(cells ...any) string {
	texts := make([]string, len(cells))
	for i, c := range cells {
		switch v := c.(type) {
		case *string:
			if v == nil {
				texts[i] = "-"
				continue
			}
			texts[i] = *v
		case *int:
			if v == nil {
				texts[i] = "-"
				continue
			}
			texts[i] = strconv.Itoa(*v)
		case time.Time:
			texts[i] = v.Local().Format("2006-01-02 15:04:05")
		default:
			texts[i] = fmt.Sprint(v)
		}
	}
	return strings.Join(texts, "\t")
}
