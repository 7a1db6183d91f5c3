package twilio

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"partnerd/internal/base/telemetry/telemetrytest"
)

// A request to the provider is a span of the command that makes it, although the library does not pass on a context. No
// call, number or key is recorded.
func TestWhatTheProviderIsAskedIsAStep(t *testing.T) {
	t.Parallel()
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(r.URL.Path, "CAunknown") {
			http.Error(w, `{"code":20404,"status":404}`, http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(`{"sid":"CA1","status":"ringing","to":"+33639980011"}`))
	}))
	t.Cleanup(provider.Close)
	tracer, spans := telemetrytest.New(t)
	d, err := New(nil, Config{AccountSID: "AC0123", AuthToken: "canary", CallerID: "+33199000000",
		URL: provider.URL, Tracer: tracer}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ctx, command := tracer.Start(t.Context(), "call command")
		if _, err := d.fetch(ctx, "CA1", time.Now()); err != nil {
			t.Fatal(err)
		}
		if err := d.hangUp(ctx, "CAunknown"); err != nil {
			t.Fatal(err)
		}
		command.End(nil)
	}
	gets, posts := spans.Named("GET"), spans.Named("POST")
	if len(gets) != 2 || len(posts) != 2 || !gets[0].Client || !gets[1].Child || gets[1].Failed ||
		gets[0].Attributes["http.response.status_code"] != "200" || posts[0].Attributes["error.type"] != "404" ||
		!strings.HasSuffix(provider.URL, gets[0].Attributes["server.address"]+":"+gets[0].Attributes["server.port"]) {
		t.Errorf("%+v %+v", gets, posts)
	}
	for _, secret := range []string{"canary", "AC0123", "CA1", "unknown", "39980011"} {
		if strings.Contains(spans.Told(), secret) {
			t.Errorf("%s is told", secret)
		}
	}
}
