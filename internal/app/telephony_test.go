package app

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"partnerd/internal/app/config"
	"partnerd/internal/base/clock"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/telephony"
	"partnerd/internal/domain/telephony/twilio"
	"partnerd/internal/domain/telephony/twilio/twiliotest"
	"partnerd/internal/infra/deployment"
	"partnerd/internal/infra/postgres"
)

// lockedBuffer is a log that several goroutines write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestALiveDeploymentCallsPeople checks that a live deployment calls the lawyer and then the client. Its callback
// endpoint accepts the provider's status callbacks, and rejects those of anyone else without a server error. The log
// contains no phone number.
func TestALiveDeploymentCallsPeople(t *testing.T) {
	t.Parallel()
	const account, token, lawyerNumber, clientNumber = "AC0123456789abcdef0123456789abcdef", "0123456789abcdef",
		"+33199000022", "+33199000011"
	clk := clock.NewManual(time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC))
	standIn := twiliotest.New(account, token, clk)
	standIn.Play(twiliotest.Script{Others: twiliotest.Phone{AnswerAfter: 1, Press: "1", PressAfter: 1}})
	provider := httptest.NewServer(standIn)
	t.Cleanup(provider.Close)
	var handler http.Handler
	ours := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(ours.Close)

	cfg := ofEnvironment(t, deployment.Live, dbtest.URL(t))
	cfg.BaseURL, cfg.Clock = ours.URL, clk
	cfg.Telephony, cfg.TwilioAccountSID, cfg.TwilioAuthToken, cfg.TwilioCallerID, cfg.TwilioURL = "twilio", account,
		token, "+33199000000", provider.URL
	log := &lockedBuffer{}
	a, err := Open(t.Context(), cfg, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	if handler, err = a.Handler(); err != nil {
		t.Fatal(err)
	}
	if !a.Consultations.Served() {
		t.Fatal("with a provider, consultations are refused")
	}
	calls := telephony.New(a.DB, a.Calls, numbersOf{lawyerNumber, clientNumber}, a.Logger)
	call := placeACall(t, a, calls)
	state := func() telephony.State {
		t.Helper()
		c, err := a.Telephony.Get(t.Context(), a.DB.Read(), call.ID)
		if err != nil {
			t.Fatal(err)
		}
		return c.State
	}
	for i := 0; i < 100 && state() != telephony.Bridged; i++ {
		if _, err := calls.Execute(t.Context()); err != nil {
			t.Fatal(err)
		}
		standIn.Due(t.Context())
		clk.Advance(250 * time.Millisecond)
	}
	legs := standIn.Calls()
	if state() != telephony.Bridged || len(legs) != 2 || legs[0].To != lawyerNumber || legs[1].To != clientNumber {
		t.Fatalf("the call is %s, with %+v", state(), legs)
	}
	var leg string
	if err := a.DB.Pool().QueryRow(t.Context(), "SELECT command_id FROM twilio_legs WHERE role = 'CLIENT'").
		Scan(&leg); err != nil {
		t.Fatal(err)
	}
	post := func(path string, form url.Values, token string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, ours.URL+path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("X-Twilio-Signature", twiliotest.Sign(token, ours.URL+path, form))
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	end := url.Values{"AccountSid": {account}, "CallSid": {legs[1].SID}, "CallStatus": {"completed"},
		"To": {clientNumber}}
	if w := post(twilio.CallbackPath+leg+"/status", end, "another"); w.Code != http.StatusForbidden ||
		state() != telephony.Bridged {
		t.Errorf("another's notice: %d %s, and the call is %s", w.Code, w.Body, state())
	}
	if w := post(twilio.CallbackPath+"cmd_unknown/status", end, token); w.Code != http.StatusNotFound {
		t.Errorf("a notice of an unknown leg: %d", w.Code)
	}
	if w := post(twilio.CallbackPath+leg+"/held", url.Values{"AccountSid": {account}, "CallSid": {legs[1].SID}},
		token); w.Code != http.StatusOK ||
		!strings.HasPrefix(w.Header().Get("Content-Type"), "text/xml") ||
		!strings.Contains(w.Body.String(), "<Response>") {
		t.Errorf("a question: %d %s %s", w.Code, w.Header(), w.Body)
	}
	for _, kind := range []string{"status", "machine", "held", "digits", "conference", "other", "%00", "..", "a%2Fb"} {
		for _, text := range hostile {
			for _, field := range []string{
				"CallSid", "CallStatus", "Timestamp", "AnsweredBy", "Digits", "StatusCallbackEvent", "AccountSid",
			} {
				form := url.Values{"AccountSid": {account}, "CallSid": {legs[0].SID}, "CallStatus": {"ringing"}}
				form.Set(field, text)
				for _, leg := range []string{leg, url.PathEscape(text)} {
					if w := post(twilio.CallbackPath+leg+"/"+kind, form, token); w.Code >= 500 {
						t.Fatalf("%s %s=%q: %d %s", kind, field, text, w.Code, w.Body)
					}
				}
			}
		}
	}
	if w := post(twilio.CallbackPath+leg+"/status", end, token); w.Code != http.StatusNoContent ||
		state() != telephony.Ended {
		t.Errorf("the end: %d %s, and the call is %s", w.Code, w.Body, state())
	}
	for _, never := range []string{lawyerNumber[1:], clientNumber[1:], token} {
		if strings.Contains(log.String(), never) {
			t.Errorf("the log has %s", never)
		}
	}
}

// placeACall starts a call for a consultation that a lawyer has accepted.
func placeACall(t *testing.T, a *App, calls *telephony.Service) (call telephony.Call) {
	t.Helper()
	err := a.DB.InTx(t.Context(), func(tx postgres.Tx) (err error) {
		for _, sql := range []string{
			`INSERT INTO applications (id, name, redirect_uris, scopes, secret_hash, created_at, updated_at) VALUES ('app', 'CRM', '{}', '{}', 'x', now(), now())`,
			`INSERT INTO clients (id, email, name, password_hash, created_at, updated_at) VALUES ('cli', 'c@example.com', 'Demo Client', 'x', now(), now())`,
			`INSERT INTO lawyers (id, email, name, password_hash, state, created_at, updated_at) VALUES ('law', 'l@example.com', 'L', 'x', 'BUSY', now(), now())`,
			`INSERT INTO consultations (id, application_id, client_id, status, competence, language, subject_sealed, recording_consent,
				price_cents, phone_sealed, created_at, updated_at, search_started_at, lawyer_id, assigned_at)
				VALUES ('con', 'app', 'cli', 'ASSIGNED', 'FAMILY', 'FR', 'x', false, 2000, 'x', now(), now(), now(), 'law', now())`,
		} {
			if err := dbtest.Exec(t.Context(), tx, sql); err != nil {
				return err
			}
		}
		call, err = calls.Place(t.Context(), tx, telephony.Start{ConsultationID: "con", ClientID: "cli",
			LawyerID: "law", Attempt: 1, Language: "FR"})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return call
}

type numbersOf struct{ lawyer, client string }

func (n numbersOf) LawyerNumber(context.Context, string) (string, error) { return n.lawyer, nil }
func (n numbersOf) ClientNumber(context.Context, string) (string, error) { return n.client, nil }
func (numbersOf) LawyerLanguage(context.Context, string) (string, error) { return "", nil }
func (numbersOf) Application(context.Context, string) (string, error)    { return "CRM", nil }

// TestTelephonyProvidersAreOpenedByName checks that every selectable provider can be opened.
func TestTelephonyProvidersAreOpenedByName(t *testing.T) {
	t.Parallel()
	field, _ := reflect.TypeFor[config.Config]().FieldByName("Telephony")
	if got := "," + strings.Join(slices.Sorted(maps.Keys(providers)), ","); got != field.Tag.Get("enum") {
		t.Errorf("the setting takes %q, and there are %q", field.Tag.Get("enum"), got)
	}
}
