package sms

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/telemetry"
)

// Folder stores messages as files, for sandboxes. The newest is the last by name.
type Folder struct {
	Dir    string
	Logger *slog.Logger
}

// Send implements [Sender].
func (f Folder) Send(_ context.Context, m Message) error {
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return fmt.Errorf("%w: make folder of text messages: %w", ErrNotSent, err)
	}
	name := filepath.Join(f.Dir, clock.System{}.Now().Format("20060102T150405.000000")+"-"+rand.Text()[:6]+".txt")
	if err := os.WriteFile(name, []byte("To: "+m.To+"\n\n"+m.Text+"\n"), 0o600); err != nil {
		return fmt.Errorf("%w: write text message: %w", ErrNotSent, err)
	}
	f.Logger.Info("text message kept in the sandbox's folder", "file", name)
	return nil
}

// HTTP sends through a provider with Twilio's messaging API: Twilio itself, or one of several compatible providers.
type HTTP struct {
	endpoint      string
	account, auth string
	from          string
	client        *http.Client
}

const apiPath = "/2010-04-01/Accounts/"

// NewHTTP parses https://account:token@api.example and the sender: a number in E.164, a name, or the ID of a messaging
// service ("MG…"). tracer records requests to the provider; it may be nil.
func NewHTTP(address, from string, tracer *telemetry.Tracer) (*HTTP, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User == nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" {
		return nil, errors.New("the text message provider is not like https://account:token@api.example")
	}
	loopback := u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
	if u.Scheme != "https" && !(u.Scheme == "http" && loopback) {
		return nil, errors.New("the text message provider must be reached over https")
	}
	if from == "" {
		return nil, errors.New("text messages need a sender")
	}
	token, _ := u.User.Password()
	account := u.User.Username()
	return &HTTP{endpoint: u.Scheme + "://" + u.Host + apiPath + url.PathEscape(account) + "/Messages.json",
		account: account, auth: token, from: from, client: &http.Client{Transport: tracer.Transport(nil),
			Timeout: sendTimeout, CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse
			}}}, nil
}

// Send implements [Sender].
func (h *HTTP) Send(ctx context.Context, m Message) error {
	form := url.Values{"To": {m.To}, "Body": {m.Text}}
	if strings.HasPrefix(h.from, "MG") {
		form.Set("MessagingServiceSid", h.from)
	} else {
		form.Set("From", h.from)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	r.SetBasicAuth(h.account, h.auth)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := h.client.Do(r)
	if err != nil {
		var dial *net.OpError
		if errors.As(err, &dial) && dial.Op == "dial" {
			return fmt.Errorf("%w: %w", ErrNotSent, err)
		}
		return inDoubt(err)
	}
	defer res.Body.Close()
	return judge(res)
}

// inDoubt describes a failure without a response. It omits err's text, which may quote the data received, and with it
// the number.
func inDoubt(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return telemetry.WithClass(errors.New("text message provider did not answer in time"), "timeout")
	}
	return telemetry.WithClass(errors.New("text message provider gave no answer of HTTP"), "response")
}

// judge reads the provider's response. Its message may contain the number, so only its code is reported.
func judge(res *http.Response) error {
	if res.StatusCode/100 == 2 {
		return nil
	}
	var body struct {
		Code int `json:"code"`
	}
	_ = json.NewDecoder(io.LimitReader(res.Body, 64<<10)).Decode(&body)
	certain := ErrNotSent
	if res.StatusCode/100 == 4 && res.StatusCode != http.StatusTooManyRequests &&
		res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusForbidden {
		certain = ErrRefused
	}
	if res.StatusCode == http.StatusGatewayTimeout || res.StatusCode == http.StatusBadGateway {
		return telemetry.WithClass(fmt.Errorf("text message provider answered %d", res.StatusCode),
			strconv.Itoa(res.StatusCode))
	}
	class := strings.TrimSuffix(fmt.Sprintf("%d_%d", res.StatusCode, body.Code), "_0")
	return telemetry.WithClass(fmt.Errorf("%w: provider answered %d, code %d", certain, res.StatusCode, body.Code),
		class)
}
