package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/seal"
	"partnerd/internal/base/seal/sealtest"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/conformance"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/audit"
	"partnerd/internal/infra/idempotency"
	"partnerd/internal/infra/mail"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/queue"
	"partnerd/internal/infra/ratelimit"
	"partnerd/internal/infra/requestlog"
	"partnerd/internal/server/httpapi"
)

// house is the Platform API on its own database, with a running dispatcher.
type house struct {
	*observer
	db       *postgres.DB
	clock    *clock.Manual
	box      *seal.Box
	webhooks *webhook.Service
	requests *requestlog.Log
}

var plenty = httpapi.Quotas{ApplicationPerMinute: 10_000, ClientPerMinute: 10_000, UnauthorizedPerMinute: 10_000,
	TokenFailurePerMinute: 10_000}

func newHouse(t *testing.T, quotas httpapi.Quotas) *house {
	t.Helper()
	clk := clock.NewManual(time.Date(2026, 6, 1, 8, 30, 0, 0, time.UTC))
	return newHouseOn(t, dbtest.NewWithClock(t, clk), clk, sealtest.Box(t), quotas)
}

// newHouseOn adds another process to a database.
func newHouseOn(t *testing.T, db *postgres.DB, clk *clock.Manual, box *seal.Box, quotas httpapi.Quotas) *house {
	t.Helper()
	h := &house{db: db, clock: clk, box: box}
	h.webhooks = webhook.New(h.db, box, webhook.Config{Sandbox: true, AllowLoopback: true, Poll: 20 * time.Millisecond})
	h.requests = requestlog.New(h.db, prometheus.NewRegistry())
	limiter := ratelimit.New()
	jobs, err := queue.New(h.db, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	// These applications have no members, so no emails are sent.
	members, err := portal.New(portal.Deps{DB: h.db, Box: box, Queue: jobs, Mail: mail.New(jobs, box, nil),
		Applications: application.New(), Webhooks: h.webhooks, Limiter: limiter, BaseURL: "http://localhost:8080",
		Sandbox: true, ApplicationPerMinute: quotas.ApplicationPerMinute, ClientPerMinute: quotas.ClientPerMinute})
	if err != nil {
		t.Fatal(err)
	}
	server, err := httpapi.New(httpapi.Deps{
		Portal: members, Idempotency: idempotency.New(h.db, box), Requests: h.requests,
		Conformance: conformance.New(h.db, h.webhooks, application.New(), h.requests),
		DB:          h.db, Logger: slog.New(slog.DiscardHandler), Metrics: httpapi.NewMetrics(prometheus.NewRegistry()),
		Applications: application.New(), Webhooks: h.webhooks, Limiter: limiter,
		Quotas: quotas, BaseURL: "http://localhost:8080", CursorKey: []byte("key"), Test: true,
		Authorize: func(c echo.Context) error { return c.NoContent(http.StatusNotFound) },
		ErrorPage: func(c echo.Context, status int) error { return c.NoContent(status) },
	})
	if err != nil {
		t.Fatal(err)
	}
	e := echo.New()
	server.Register(e)
	listening := httptest.NewServer(e)
	t.Cleanup(listening.Close)
	h.observer = newObserver(t, listening.URL)
	return h
}

// deliver runs the dispatcher until the test ends.
func (h *house) deliver() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := h.webhooks.Run(ctx); err != nil {
			h.t.Error(err)
		}
	}()
	h.t.Cleanup(func() { cancel(); <-done })
}

// application creates an application with an endpoint and returns its ID and credentials.
func (h *house) application(url string) (id, credentials, webhookSecret string) {
	h.t.Helper()
	err := h.db.InTx(h.t.Context(), func(tx postgres.Tx) error {
		app, secret, err := application.New().Create(h.t.Context(), tx, application.NewApplication{
			Name: "Demo CRM", RedirectURIs: []string{"https://crm.example/callback"}, Scopes: application.AllScopes})
		if err != nil {
			return err
		}
		id, credentials = app.ID, app.ID+":"+secret
		webhookSecret, err = h.webhooks.CreateEndpoint(h.t.Context(), tx, app.ID, url)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return id, credentials, webhookSecret
}

// hook is a partner's handler.
type hook struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	posts  []http.Header
	bodies []string
}

func newHook(t *testing.T, status int) *hook {
	t.Helper()
	k := &hook{status: status}
	k.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.posts, k.bodies = append(k.posts, r.Header.Clone()), append(k.bodies, string(body))
		w.WriteHeader(k.status)
		fmt.Fprint(w, "thank you")
	}))
	t.Cleanup(k.Close)
	return k
}

func (k *hook) answer(status int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.status = status
}

func (k *hook) seen() ([]http.Header, []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.posts), slices.Clone(k.bodies)
}

func (h *house) eventually(what string, happened func() bool) {
	h.t.Helper()
	deadline := time.After(30 * time.Second)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !happened() {
		select {
		case <-deadline:
			h.t.Fatalf("did not happen: %s", what)
		case <-tick.C:
		}
	}
}

func (a answer) want(t *testing.T, status int, code string) answer {
	t.Helper()
	if a.status != status || code != "" && a.body["code"] != code {
		t.Errorf("%d %s, want %d %s", a.status, a.raw, status, code)
	}
	return a
}

const root = "/api/platform/v1"

// This test uses the whole API in the order in which a partner does. At the end, every operation has succeeded once.
func TestAnApplicationLooksAfterItsWebhooks(t *testing.T) {
	t.Parallel()
	h := newHouse(t, plenty)
	receiver := newHook(t, http.StatusInternalServerError)
	_, me, secret := h.application("")
	h.deliver()

	h.call(me, "GET", root+"/endpoint", nil).want(t, 200, "")
	refused := h.call(me, "PUT", root+"/endpoint", object{"url": receiver.URL}).want(t, 422, "VALIDATION_ERROR")
	if !strings.Contains(refused.raw, "responded with 500") || !strings.Contains(refused.raw, `"invalid_url"`) {
		t.Errorf("a URL that does not answer the ping: %s", refused.raw)
	}
	receiver.answer(204)
	set := h.call(me, "PUT", root+"/endpoint", object{"url": receiver.URL}).want(t, 200, "")
	if set.body["url"] != receiver.URL {
		t.Errorf("endpoint %s", set.raw)
	}
	headers, bodies := receiver.seen()
	for i, header := range headers {
		if header.Get("X-Service-Event") != "webhook.ping" ||
			webhook.Verify(secret, header.Get("X-Service-Signature"), []byte(bodies[i]), clock.System{}.Now()) != nil {
			t.Errorf("ping %v %s", header, bodies[i])
		}
	}

	sent := h.call(me, "POST", root+"/endpoint/test", object{"type": "consultation.completed"}).want(t, 202, "")
	id := sent.body["id"].(string)
	var detail answer
	delivered := func() bool {
		detail = h.call(me, "GET", root+"/deliveries/"+id, nil).want(t, 200, "")
		return detail.body["state"] == "DELIVERED"
	}
	h.eventually("the test event is delivered", delivered)
	attempt := detail.body["attemptLog"].([]any)[0].(object)
	if fmt.Sprint(attempt["statusCode"]) != "204" || attempt["error"] != nil {
		t.Errorf("attempt %v", attempt)
	}
	headers, _ = receiver.seen()
	if last := headers[len(headers)-1]; last.Get("X-Service-Test") != "true" || last.Get("X-Service-Delivery") != id {
		t.Errorf("headers %v", last)
	}

	page := h.call(me, "GET", root+"/events", nil).want(t, 200, "")
	event := page.body["items"].([]any)[0].(object)
	if event["test"] != true || event["payload"].(object)["id"] != event["id"] || page.body["hasMore"] != false {
		t.Errorf("events %s", page.raw)
	}
	next := h.call(me, "GET", root+"/events?after="+url.QueryEscape(page.body["cursor"].(string)), nil).want(t, 200, "")
	if len(next.body["items"].([]any)) != 0 || next.body["cursor"] != page.body["cursor"] {
		t.Errorf("after the last event: %s", next.raw)
	}
	h.call(me, "GET", root+"/events/"+event["id"].(string), nil).want(t, 200, "")

	h.call(me, "POST", root+"/deliveries/"+id+"/redeliver", nil).want(t, 202, "")
	h.eventually("it came again", func() bool { return delivered() && fmt.Sprint(detail.body["attempts"]) == "2" })
	fresh := h.call(me, "POST", root+"/deliveries/"+id+"/redeliver?asNew=true", nil).want(t, 202, "")
	if fresh.body["id"] == id || fresh.body["eventId"] != event["id"] {
		t.Errorf("a new delivery: %s", fresh.raw)
	}
	again := object{"from": "2026-06-01T00:00:00Z", "to": "2026-06-02T00:00:00Z", "select": "ALL"}
	if a := h.call(me, "POST", root+"/redeliveries", again).want(t, 202, ""); fmt.Sprint(a.body["count"]) != "1" ||
		a.body["nextCursor"] != nil {
		t.Errorf("redelivery %s", a.raw)
	}
	first := h.call(me, "GET", root+"/deliveries?limit=1&from=2026-06-01T00:00:00Z", nil).want(t, 200, "")
	second := h.call(me, "GET",
		root+"/deliveries?limit=1&from=2026-06-01T00:00:00Z&cursor="+url.QueryEscape(first.body["nextCursor"].(string)),
		nil).want(t, 200, "")
	if second.body["nextCursor"] != nil ||
		first.body["items"].([]any)[0].(object)["id"] == second.body["items"].([]any)[0].(object)["id"] {
		t.Errorf("pages %s %s", first.raw, second.raw)
	}

	rotated := h.call(me, "POST", root+"/endpoint/rotate-secret", nil).want(t, 200, "")
	if s := rotated.body["secret"].(string); s == secret || !strings.HasPrefix(s, "whsec_") ||
		rotated.body["previousSecretUntil"] != "2026-06-02T08:30:00.000000Z" {
		t.Errorf("rotation %s", rotated.raw)
	}
	h.call(me, "POST", root+"/endpoint/enable", nil).want(t, 200, "")
	if a := h.call(me, "PUT", root+"/endpoint/events",
		object{"enabledEvents": []string{"wallet.topped_up", "client.disconnected"}}).
		want(t, 200, ""); fmt.Sprint(a.body["enabledEvents"]) != "[client.disconnected wallet.topped_up]" {
		t.Errorf("enabled events: %s", a.raw)
	}
	// also for a type that is turned off
	h.call(me, "POST", root+"/endpoint/test", object{"type": "wallet.topped_up"}).want(t, 202, "")
	if a := h.call(me, "PUT", root+"/endpoint", object{"url": nil}).want(t, 200, ""); a.body["url"] != nil {
		t.Errorf("no URL: %s", a.raw)
	}
	h.call(me, "GET", root+"/checklist", nil).want(t, 200, "")
	h.call(me, "PUT", root+"/endpoint", object{"url": receiver.URL}).want(t, 200, "")
	h.call(me, "POST", root+"/endpoint/examine", nil).want(t, 200, "")
	if a := h.call(me, "GET", root+"/endpoint/examination", nil).want(t, 200, ""); a.body["passed"] != false {
		t.Errorf("a receiver that takes everything: %s", a.raw)
	}
	if err := h.requests.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	asked := h.call(me, "GET", root+"/requests?limit=1", nil).want(t, 200, "")
	h.call(me, "GET", root+"/requests/"+asked.body["items"].([]any)[0].(object)["id"].(string), nil).want(t, 200, "")
	check := h.call(me, "POST", root+"/endpoint/check-signature", object{"signature": "t=1,v1=x", "body": "{}"}).
		want(t, 200, "")
	if check.body["finding"] != "HEADER" {
		t.Errorf("a signature that is none: %s", check.raw)
	}
	h.call(me, "GET", root+"/application", nil).want(t, 200, "")
	changed := h.call(me, "PUT", root+"/application", object{"name": "Renamed CRM",
		"redirectUris": []string{"https://crm.example/back"}, "contactEmail": "dev@crm.example"}).want(t, 200, "")
	if changed.body["name"] != "Renamed CRM" || changed.body["contactEmail"] != "dev@crm.example" {
		t.Errorf("changed to %s", changed.raw)
	}
	renewed := h.call(me, "POST", root+"/application/rotate-secret", object{"overlapSeconds": 3600}).want(t, 200, "")
	mine := strings.Split(me, ":")[0] + ":" + renewed.body["secret"].(string)
	h.call(me, "GET", root+"/application", nil).want(t, 200, "")
	if ended := h.call(mine, "POST", root+"/application/end-previous-secret", nil).
		want(t, 200, ""); ended.body["previousSecretUntil"] != nil {
		t.Errorf("the previous secret works until %v", ended.body["previousSecretUntil"])
	}
	h.call(me, "GET", root+"/application", nil).want(t, 401, "UNAUTHORIZED")
	for path, item := range h.tree["paths"].(object) {
		for _, op := range item.(object) {
			name := op.(object)["operationId"].(string)
			if !h.seen[name+" 200"] && !h.seen[name+" 202"] {
				t.Errorf("%s (%s) has not shown its success", name, path)
			}
		}
	}
}

// TestTheAuditKeepsWhatACredentialChanges checks that the audit log contains the application's own calls. They explain,
// for example, who changed the webhook URL.
func TestTheAuditKeepsWhatACredentialChanges(t *testing.T) {
	t.Parallel()
	h := newHouse(t, plenty)
	receiver := newHook(t, 204)
	app, me, _ := h.application("")
	delivery := "/deliveries/" + h.call(me, "POST", root+"/endpoint/test",
		object{"type": "consultation.completed"}).body["id"].(string)
	audited, unrecorded := map[string]bool{},
		map[string]string{"POST /endpoint/check-signature": "it tells what a signature is, and changes nothing"}
	for _, act := range []struct {
		action, method, path string
		body                 any
	}{
		{"webhook.set_url", "PUT", "/endpoint", object{"url": receiver.URL}},
		{"webhook.examine", "POST", "/endpoint/examine", nil},
		{"webhook.set_url", "PUT", "/endpoint", object{"url": nil}},
		{"webhook.set_events", "PUT", "/endpoint/events", object{"enabledEvents": []string{"wallet.topped_up"}}},
		{"webhook.enable", "POST", "/endpoint/enable", nil},
		{"webhook.test", "POST", "/endpoint/test", object{"type": "consultation.completed"}},
		{"webhook.redeliver", "POST", delivery + "/redeliver", nil},
		{"webhook.redeliver_range", "POST", "/redeliveries", object{"from": "2026-06-01T00:00:00Z",
			"to": "2026-06-02T00:00:00Z", "select": "ALL"}},
		{"webhook.rotate_secret", "POST", "/endpoint/rotate-secret", nil},
		{"application.update", "PUT", "/application", object{"name": "CRM",
			"redirectUris": []string{"https://crm.example/"}, "contactEmail": nil}},
		{"application.end_previous_secret", "POST", "/application/end-previous-secret", nil},
		{"application.rotate_secret", "POST", "/application/rotate-secret", object{"overlapSeconds": 0}},
	} {
		audited[act.method+" "+act.path] = true
		before := h.entries(app)
		if a := h.call(me, act.method, root+act.path, act.body); a.status >= 300 {
			t.Fatalf("%s %s: %d %s", act.method, act.path, a.status, a.raw)
		}
		after := h.entries(app)
		if len(after) != len(before)+1 || after[0].Action != act.action || after[0].Actor != app {
			t.Errorf("%s %s left %d entries, the last one %+v", act.method, act.path, len(after)-len(before), after[:1])
		}
	}
	for path, item := range h.tree["paths"].(object) {
		for method := range item.(object) {
			write := strings.ToUpper(method) + " " + strings.Replace(strings.TrimPrefix(path, root), "/deliveries/{id}",
				delivery, 1)
			if method != "get" && audited[write] == (unrecorded[write] != "") {
				t.Errorf("%s leaves an entry in the audit: %t, and has a reason to leave none: %q",
					write, audited[write], unrecorded[write])
			}
		}
	}
}

// entries returns the audit entries of an application, newest first.
func (h *house) entries(applicationID string) []audit.Entry {
	h.t.Helper()
	list, err := audit.List(h.t.Context(), h.db.Read(), applicationID, 0, 100)
	if err != nil {
		h.t.Fatal(err)
	}
	return list
}

func TestEveryPlatformOperationRefusesWhoIsNotTheApplication(t *testing.T) {
	t.Parallel()
	h := newHouse(t, plenty)
	id, me, _ := h.application("")
	suspended, theirs, _ := h.application("")
	if _, err := h.db.Pool().Exec(t.Context(), "UPDATE applications SET suspended_at = now() WHERE id = $1",
		suspended); err != nil {
		t.Fatal(err)
	}
	bodies := map[string]any{"setEndpoint": object{"url": nil}, "setEnabledEvents": object{"enabledEvents": []string{}},
		"sendTestEvent":    object{"type": "consultation.created"},
		"createRedelivery": object{"from": "2026-06-01T00:00:00Z", "to": "2026-06-02T00:00:00Z", "select": "ALL"}}
	operations := 0
	for path, item := range h.tree["paths"].(object) {
		for method, op := range item.(object) {
			operations++
			body := bodies[op.(object)["operationId"].(string)]
			target := strings.Replace(path, "{id}", "dlv_x", 1)
			for _, credentials := range []string{"", id + ":wrong", "app_nobody:x", ":", theirs, me + "x"} {
				a := h.call(credentials, strings.ToUpper(method), target, body).want(t, 401, "UNAUTHORIZED")
				if got := a.header.Get("WWW-Authenticate"); !strings.HasPrefix(got, "Basic ") {
					t.Errorf("challenge %q", got)
				}
			}
		}
	}
	if operations != 22 {
		t.Errorf("%d operations were tried", operations)
	}
	h.call("", "GET", root+"/nothing", nil).want(t, 401, "UNAUTHORIZED")
	h.call(me, "GET", root+"/nothing", nil).want(t, 404, "NOT_FOUND")
	if a := h.call(me, "DELETE", root+"/endpoint", nil).
		want(t, 405, "METHOD_NOT_ALLOWED"); a.header.Get("Allow") != "GET, HEAD, PUT" {
		t.Errorf("Allow: %q", a.header.Get("Allow"))
	}
}

func TestPlatformFaultsAreNamed(t *testing.T) {
	t.Parallel()
	h := newHouse(t, plenty)
	_, me, _ := h.application("")
	_, other, _ := h.application("")
	foreign := h.call(other, "POST", root+"/endpoint/test", object{"type": "consultation.created"}).want(t, 202, "")
	delivery, event := foreign.body["id"].(string), foreign.body["eventId"].(string)
	cursor := h.call(other, "GET", root+"/events", nil).body["cursor"].(string)
	for _, c := range []struct {
		method, path string
		body         any
		status       int
		issue        string // path and code
	}{
		{"GET", "/deliveries/" + delivery, nil, 404, ""},
		{"GET", "/events/" + event, nil, 404, ""},
		{"POST", "/deliveries/" + delivery + "/redeliver", nil, 404, ""},
		{"GET", "/deliveries/%27", nil, 404, ""},
		{"GET", "/events?after=" + cursor, nil, 400, "after invalid_value"},
		{"GET", "/events?after=x", nil, 400, "after invalid_value"},
		{"GET", "/events?after=%00", nil, 400, "after invalid_value"},
		{"GET", "/deliveries?cursor=x", nil, 400, "cursor invalid_value"},
		{"GET", "/deliveries?consultationId=%00", nil, 400, "consultationId invalid_value"},
		{"GET", "/deliveries?consultationId=a%c3", nil, 400, "consultationId invalid_value"},
		{"GET", "/deliveries?consultationId=%ed%a0%80", nil, 400, "consultationId invalid_value"},
		{"GET", "/deliveries?eventId=%00", nil, 400, "eventId invalid_value"},
		{"GET", "/deliveries?eventId=%ff", nil, 400, "eventId invalid_value"},
		{"GET", "/deliveries?state=%00", nil, 400, "state invalid_value"},
		{"GET", "/deliveries?to=2026-01-01T23:59:60Z", nil, 400, "to invalid_value"},
		{"GET", "/events?limit=0", nil, 400, "limit too_small"},
		{"GET", "/events?limit=101", nil, 400, "limit invalid_value"},
		{"GET", "/deliveries?state=LOST", nil, 400, "state invalid_value"},
		{"GET", "/deliveries?from=yesterday", nil, 400, "from invalid_value"},
		{"POST", "/deliveries/" + delivery + "/redeliver?asNew=1", nil, 400, "asNew invalid_type"},
		{"PUT", "/endpoint", object{}, 422, "url required"},
		{"PUT", "/endpoint", object{"url": "ftp://crm.example"}, 422, "url invalid_url"},
		{"PUT", "/endpoint", object{"url": "http://169.254.169.254/latest"}, 422, "url invalid_url"},
		{"PUT", "/endpoint", object{"url": "http://10.0.0.1/"}, 422, "url invalid_url"},
		{"PUT", "/endpoint", object{"url": nil, "secret": "x"}, 422, "secret unknown_field"},
		{"PUT", "/endpoint/events", object{}, 422, "enabledEvents required"},
		{"PUT", "/endpoint/events", object{"enabledEvents": nil}, 422, "enabledEvents invalid_type"},
		{"PUT", "/endpoint/events", object{"enabledEvents": "client.disconnected"}, 422, "enabledEvents invalid_type"},
		{"PUT", "/endpoint/events", object{"enabledEvents": []string{"consultation.created"}}, 422,
			"enabledEvents.0 invalid_value"},
		{"PUT", "/endpoint/events", object{"enabledEvents": []string{"wallet.topped_up", "wallet.topped_up"}}, 422,
			"enabledEvents invalid_value"},
		{"POST", "/endpoint/test", object{"type": "consultation.unknown"}, 422, "type invalid_value"},
		{"POST", "/redeliveries", object{"from": "2026-06-02T00:00:00Z", "to": "2026-06-01T00:00:00Z", "select": "ALL"},
			422, "to invalid_value"},
		{"POST", "/redeliveries", object{"from": "2026-06-01T00:00:00Z", "to": "2026-08-01T00:00:00Z", "select": "ALL"},
			422, "to invalid_value"},
		{"POST", "/redeliveries", object{"from": "2026-06-01t00:00:00z", "to": "2026-06-02T00:00:00Z", "select": "ALL"},
			422, "from invalid_value"},
		{"POST", "/redeliveries", object{"from": "2026-06-01T00:00:00Z", "to": "2026-06-01T23:59:60Z", "select": "ALL"},
			422, "to invalid_value"},
		{"POST", "/redeliveries", object{"from": "soon", "to": "2026-08-01T00:00:00Z", "select": "SOME"}, 422,
			"from invalid_value"},
	} {
		a := h.call(me, c.method, root+c.path, c.body).want(t, c.status, "")
		if c.issue == "" {
			continue
		}
		issues, _ := a.body["issues"].([]any)
		if !slices.ContainsFunc(issues,
			func(v any) bool { i := v.(object); return fmt.Sprint(i["path"], " ", i["code"]) == c.issue }) {
			t.Errorf("%s %s: %s, want %s", c.method, c.path, a.raw, c.issue)
		}
	}
}

// Whatever is wrong with a body, the log for partners and operators contains none of its content.
func TestNoRefusedBodyIsKept(t *testing.T) {
	t.Parallel()
	h := newHouse(t, plenty)
	id, me, secret := h.application("")
	_, own, _ := strings.Cut(me, ":")
	kept := []string{own, secret, "hunter22", "481516", "33612345678", "whsec"}
	values := fmt.Sprintf(`"client_secret":%q,"secret":%q,"password":"hunter22","code":481516,"phone":33612345678`,
		own, secret)
	object := "{" + values + "}"
	form := "client_secret=" + own + "&password=hunter22&code=481516&phone=33612345678"
	for i, c := range []struct{ media, body string }{
		{"application/json", object}, {"application/json", `{"url":` + object + `}`},
		{"application/json", `{"url":[` + object + `]}`}, {"application/json", object[:len(object)-1]},
		{"application/json", object + object}, {"application/json", "[" + object + "]"},
		{"application/json", `{"` + own + `":1,"+33612345678":{"481516":true}}`},
		{"application/json", `{"url":"ftp://hunter22:481516@` + own + `"}`},
		{"application/json", object + "\xff"}, {"application/json; charset=latin1", object},
		{"application/problem+json", object}, {"text/plain", object}, {"", object},
		{"application/x-www-form-urlencoded", form}, {"multipart/form-data; boundary=x", form},
	} {
		r, err := http.NewRequestWithContext(t.Context(), "PUT", h.base+root+"/endpoint", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth(id, own)
		r.Header.Set("Content-Type", c.media)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != 400 && answer.StatusCode != 422 {
			t.Errorf("body %d: %d", i, answer.StatusCode)
		}
	}
	if err := h.requests.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var lines int
	var said string
	if err := h.db.Pool().QueryRow(t.Context(), "SELECT count(*), string_agg(r::text, ' ') FROM api_requests r").
		Scan(&lines, &said); err != nil {
		t.Fatal(err)
	}
	for _, word := range kept {
		if at := strings.Index(said, word); at >= 0 {
			t.Errorf("the log has %q: …%s", word, said[max(0, at-120):at+len(word)])
		}
	}
	if lines != 15 {
		t.Errorf("%d lines", lines)
	}
}

func TestThePlatformCountsCallsAndGuesses(t *testing.T) {
	t.Parallel()
	h := newHouse(t, httpapi.Quotas{ApplicationPerMinute: 3, ClientPerMinute: 10, UnauthorizedPerMinute: 10,
		TokenFailurePerMinute: 2})
	_, me, _ := h.application("")
	_, other, _ := h.application("")
	for range 3 {
		h.call(me, "GET", root+"/endpoint", nil).want(t, 200, "")
	}
	a := h.call(me, "GET", root+"/endpoint", nil).want(t, 429, "RATE_LIMITED")
	if a.header.Get("Retry-After") != "20" || a.header.Get("X-RateLimit-Limit") != "3" {
		t.Errorf("headers %v", a.header)
	}
	h.call(other, "GET", root+"/endpoint", nil).want(t, 200, "")
	for range 2 {
		h.call(me+"x", "GET", root+"/endpoint", nil).want(t, 401, "UNAUTHORIZED")
	}
	h.call(me+"x", "GET", root+"/endpoint", nil).want(t, 429, "RATE_LIMITED")
	h.call(other, "GET", root+"/endpoint", nil).want(t, 200, "") // a caller with the right secret is not locked out
}

func TestBothContractsArePublishedWithTheRealAddress(t *testing.T) {
	t.Parallel()
	h := newHouse(t, plenty)
	for path, media := range map[string]string{
		"/openapi.yaml": "application/yaml", "/openapi.json": "application/json",
		"/openapi/platform.yaml": "application/yaml", "/openapi/platform.json": "application/json",
	} {
		resp, err := http.Get(h.base + path)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || resp.Header.Get("Content-Type") != media || len(raw) < 10_000 {
			t.Errorf("%s: %d %s, %d bytes, %v", path, resp.StatusCode, resp.Header.Get("Content-Type"), len(raw), err)
		}
		if platform := strings.Contains(string(raw), "/api/platform/v1/endpoint"); platform != strings.Contains(path,
			"platform") {
			t.Errorf("%s is the other contract", path)
		}
	}
}

// Each purpose of sending requests has its own rate limit, counted in the database. Another process starts with the
// remaining number.
func TestCallsThatMakeUsPostAreCountedForAllReplicas(t *testing.T) {
	t.Parallel()
	h := newHouse(t, plenty)
	k := newHook(t, 204)
	_, me, _ := h.application("")
	_, other, _ := h.application("")
	replica := newHouseOn(t, h.db, h.clock, h.box, plenty)
	test := object{"type": "consultation.created"}
	delivery := h.call(me, "POST", root+"/endpoint/test", test).want(t, 202, "").body["id"].(string)
	sameDay := object{"from": "2026-06-01T08:00:00Z", "to": "2026-06-01T09:00:00Z", "select": "FAILED"}
	for _, c := range []struct {
		purpose string
		spent   int
		calls   []func(*house) answer
	}{
		{"test", 1,
			[]func(*house) answer{func(h *house) answer { return h.call(me, "POST", root+"/endpoint/test", test) }}},
		{"endpoint", 0, []func(*house) answer{
			func(h *house) answer { return h.call(me, "PUT", root+"/endpoint", object{"url": k.URL}) },
			func(h *house) answer { return h.call(me, "POST", root+"/endpoint/enable", nil) },
		}},
		{"redeliver", 0, []func(*house) answer{
			func(h *house) answer { return h.call(me, "POST", root+"/deliveries/"+delivery+"/redeliver", nil) },
			func(h *house) answer { return h.call(me, "POST", root+"/redeliveries", sameDay) },
		}},
	} {
		for i := c.spent; i < 10; i++ {
			a := c.calls[i%len(c.calls)]([]*house{h, replica}[i%2])
			if a.status >= 300 || a.header.Get("X-RateLimit-Limit") != "10" ||
				a.header.Get("X-RateLimit-Remaining") != fmt.Sprint(9-i) {
				t.Fatalf("%s, call %d: %d %s %v", c.purpose, i, a.status, a.raw, a.header)
			}
		}
		for i, call := range c.calls {
			a := call([]*house{h, replica}[i%2]).want(t, 429, "RATE_LIMITED")
			if a.header.Get("Retry-After") != "6" || a.header.Get("X-RateLimit-Remaining") != "0" ||
				a.header.Get("X-RateLimit-Reset") == "" {
				t.Errorf("%s: headers %v", c.purpose, a.header)
			}
		}
	}
	if n := len(k.posts); n != 5 {
		t.Errorf("%d pings arrived, want 5", n)
	}
	h.call(me, "PUT", root+"/endpoint", object{"url": nil}).want(t, 200, "") // sends nothing
	h.call(me, "GET", root+"/endpoint", nil).want(t, 200, "")
	h.call(other, "POST", root+"/endpoint/test", test).want(t, 202, "")
	h.clock.Advance(6 * time.Second)
	replica.call(me, "POST", root+"/endpoint/test", test).want(t, 202, "")
}

// A deployment that is not a sandbox has no part of the Sandbox API.
func TestOnlyASandboxHasTheSandboxAPI(t *testing.T) {
	t.Parallel()
	h := newHouse(t, plenty)
	_, credentials, _ := h.application("")
	h.call(credentials, http.MethodPost, "/api/platform/v1/sandbox/clock/advance", map[string]int{"seconds": 1}).
		want(t, http.StatusNotFound, "NOT_FOUND")
	h.call(credentials, http.MethodPost, "/api/platform/v1/sandbox/consultations/con_1/run",
		map[string]string{"status": "COMPLETED"}).want(t, http.StatusNotFound, "NOT_FOUND")
	h.call(credentials, http.MethodGet, "/api/platform/v1/sandbox/lawyers", nil).want(t, http.StatusNotFound,
		"NOT_FOUND")
	h.call(credentials, http.MethodPut, "/api/platform/v1/sandbox/clients/cli_1/scenario",
		map[string]string{"scenario": "no_lawyer"}).want(t, http.StatusNotFound, "NOT_FOUND")
	h.call(credentials, http.MethodPost, "/api/platform/v1/sandbox/clients", map[string]string{"name": "Camille"}).
		want(t, http.StatusNotFound, "NOT_FOUND")
	h.call(credentials, http.MethodGet, "/api/platform/v1/sandbox/inbox", nil).want(t, http.StatusNotFound, "NOT_FOUND")
}

// setBack is a clock that is set back by a millisecond before each reading.
type setBack struct {
	mu sync.Mutex
	*clock.Manual
}

func (c *setBack) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Advance(-time.Millisecond)
	return c.Manual.Now()
}

// A clock set back during a request does not keep the request out of the log: its duration is 0.
func TestARequestIsLoggedWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 6, 1, 8, 30, 0, 0, time.UTC))
	h := newHouseOn(t, dbtest.NewWithClock(t, &setBack{Manual: clk}), clk, sealtest.Box(t), plenty)
	id, credentials, _ := h.application("")
	h.call(credentials, http.MethodGet, "/api/platform/v1/application", nil)
	if err := h.requests.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, _, err := h.requests.List(t.Context(), h.db.Read(), id, requestlog.Filter{Limit: 2})
	if err != nil || len(list) != 1 || list[0].Duration != 0 {
		t.Fatalf("list %+v, %v", list, err)
	}
}
