package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"partnerd/cmd/democrm/crm"
	"partnerd/gen/partner/models"
	"partnerd/internal/domain/account"
	"partnerd/internal/infra/postgres"
)

const testClients = "/api/platform/v1/sandbox/clients"

// play sends a partner's request to the Sandbox API.
func (w *world) play(t testing.TB, p *partner, method, path string, body any) *reply {
	t.Helper()
	return w.send(t, method, path, body, "Authorization", p.basic())
}

// testClient creates a test client through the API.
func (w *world) testClient(t testing.TB, p *partner, body object) *person {
	t.Helper()
	r := w.play(t, p, http.MethodPost, testClients, body)
	r.is(t, "make a client", http.StatusCreated, "")
	v := r.value()
	c := &person{Client: account.Client{ID: v["id"].(string), Email: v["email"].(string)},
		password: v["password"].(string), browser: w.browser()}
	w.secret(c.password)
	return c
}

// linkByAPI gets tokens of a client without a browser.
func (w *world) linkByAPI(t testing.TB, p *partner, c *person, scopes ...string) *session {
	t.Helper()
	r := w.play(t, p, http.MethodPost, testClients+"/"+c.ID+"/link", object{"scopes": scopes})
	r.is(t, "link", http.StatusOK, "")
	var token token
	r.into(t, &token)
	s := w.session(p, c, token)
	w.secret(s.token.AccessToken, s.token.RefreshToken)
	return s
}

// TestClientsAndLinksByAPI: partners create their own clients and link them without a browser. They have no access to
// those of others. Such a connection is like any other: it refreshes, and ends by reuse, by revocation and on the
// account page. The client is not asked again for what was agreed to.
func TestClientsAndLinksByAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withSimulatedLawyers)
	a, b := w.partner(t, "CRM A"), w.partner(t, "CRM B")
	ready := w.testClient(t, a, object{"name": "Camille", "phoneVerified": true, "balanceCents": 10_000,
		"timeZone": "Europe/Paris"})
	bare := w.testClient(t, a, object{"name": "Dominique"})
	s := w.linkByAPI(t, a, ready, crm.AllScopes...)
	s.hasWallet(t, "at the beginning", 10_000, 0)
	a.receiver.awaitAll(t, s.create(t).ID, started+" assigned call_started call_ended note_available completed")

	poor := w.linkByAPI(t, a, bare, "profile:read", "consultations:write")
	if r := poor.tryCreate(t, wish()); r.Status != http.StatusConflict || r.code() != "PHONE_REQUIRED" {
		t.Errorf("without a number: %s", r)
	}
	w.inTx(t, func(tx postgres.Tx) error { return w.Accounts.SetPhone(t.Context(), tx, bare.ID, phone, true) })
	if r := poor.tryCreate(t, wish()); r.Status != http.StatusConflict || r.code() != "INSUFFICIENT_FUNDS" {
		t.Errorf("without money: %s", r)
	}
	poor.get(t, "/api/v1/wallet").is(t, "a scope that was not given", http.StatusForbidden, "INSUFFICIENT_SCOPE")

	// The grants are real ones.
	next := w.getToken(t, a.refreshForm(s.token.RefreshToken))
	w.postToken(t, a.refreshForm(s.token.RefreshToken)).is(t, "reuse", http.StatusBadRequest, "invalid_grant")
	w.session(a, ready, next).get(t, "/api/v1/me").is(t, "after the reuse", http.StatusUnauthorized, "UNAUTHORIZED")
	s = w.linkByAPI(t, a, ready, crm.AllScopes...)
	links, err := w.OAuth.Connections(t.Context(), w.DB.Read(), ready.ID)
	if err != nil || len(links) != 1 || links[0].Application.ID != a.ClientID {
		t.Errorf("links: %+v, %v", links, err)
	}
	w.link(t, b, ready, "profile:read") // the client can sign in, and is asked by an application they do not know

	// Clients of other applications are out of reach.
	w.play(t, b, http.MethodPost, testClients+"/"+ready.ID+"/link", object{"scopes": []string{"profile:read"}}).is(t,
		"link another's", http.StatusNotFound, "NOT_FOUND")
	w.play(t, b, http.MethodDelete, testClients+"/"+ready.ID, nil).is(t, "delete another's", http.StatusNotFound,
		"NOT_FOUND")
	stranger := w.client(t, "stranger", true, 0)
	w.play(t, a, http.MethodPost, testClients+"/"+stranger.ID+"/link", object{"scopes": []string{"profile:read"}}).is(t,
		"link a client of the service", http.StatusNotFound, "NOT_FOUND")
	listed := func(p *partner) (ids []string) {
		for _, c := range w.play(t, p, http.MethodGet, testClients, nil).value()["items"].([]any) {
			ids = append(ids, c.(object)["id"].(string))
		}
		return ids
	}
	if got := listed(a); !slices.Equal(got, []string{ready.ID, bare.ID}) || len(listed(b)) != 0 {
		t.Errorf("listed %v and %v", got, listed(b))
	}

	w.play(t, a, http.MethodDelete, testClients+"/"+ready.ID, nil).is(t, "delete", http.StatusOK, "")
	s.get(t, "/api/v1/me").is(t, "after it is deleted", http.StatusUnauthorized, "UNAUTHORIZED")
	w.play(t, a, http.MethodDelete, testClients+"/"+ready.ID, nil).is(t, "delete again", http.StatusNotFound,
		"NOT_FOUND")
	if n := w.queryInt(t,
		`SELECT count(*) FROM audit_entries WHERE action = 'client.delete' AND subject = $1 AND actor = $2`,
		ready.ID, "application:"+a.ClientID); n != 1 {
		t.Errorf("%d entries of the audit say who deleted it", n)
	}
	if got := listed(a); !slices.Equal(got, []string{bare.ID}) {
		t.Errorf("listed then %v", got)
	}
}

func TestTestClientsHaveLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withoutWorkers)
	a := w.partner(t, "CRM A")
	c := w.testClient(t, a, object{"name": "Camille"})
	for body, field := range map[string]string{
		`{"name":" "}`: "name", `{"name":"x","timeZone":"Mars/Base"}`: "timeZone",
		`{"name":"x","balanceCents":-1}`: "balanceCents", `{"name":"x","balanceCents":200001}`: "balanceCents",
		`{}`: "name", `{"name":"x","phone":"1"}`: "phone",
	} {
		r := w.send(t, http.MethodPost, testClients, body, "Authorization", a.basic(),
			"Content-Type", "application/json")
		if issues := r.issues(); r.Status != http.StatusUnprocessableEntity || len(issues) != 1 ||
			!strings.HasPrefix(issues[0], field+" ") {
			t.Errorf("%s: %s", body, r)
		}
	}
	for _, scopes := range [][]string{{"everything"}, {}, {"profile:read wallet:read"}} {
		w.play(t, a, http.MethodPost, testClients+"/"+c.ID+"/link", object{"scopes": scopes}).is(t, "scopes",
			http.StatusUnprocessableEntity, "VALIDATION_ERROR")
	}
	w.exec(t, "UPDATE applications SET scopes = '{profile:read}' WHERE id = $1", a.ClientID)
	w.play(t, a, http.MethodPost, testClients+"/"+c.ID+"/link", object{"scopes": []string{"wallet:read"}}).is(t,
		"more than the application's", http.StatusUnprocessableEntity, "VALIDATION_ERROR")
	w.exec(t, `INSERT INTO clients (id, email, name, password_hash, created_at, updated_at) SELECT 'cli_' || n, n || '@x.example', 'x', '', now(), now() FROM generate_series(1, 99) n`)
	w.exec(t, `INSERT INTO sandbox_clients SELECT 'cli_' || n, $1, now() FROM generate_series(1, 99) n`, a.ClientID)
	w.play(t, a, http.MethodPost, testClients, object{"name": "x"}).is(t, "one too many", http.StatusConflict,
		"LIMIT_REACHED")
	w.play(t, a, http.MethodDelete, testClients+"/"+c.ID, nil).is(t, "delete one", http.StatusOK, "")
	w.play(t, a, http.MethodPost, testClients, object{"name": "x"}).is(t, "again", http.StatusCreated, "")
}

// TestTheInboxOfAnApplication: messages to a test client, with links and codes, are in its application's inbox only.
// The database holds them encrypted.
func TestTheInboxOfAnApplication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.partner(t, "CRM A"), w.partner(t, "CRM B")
	c, other, stranger := w.testClient(t, a, object{"name": "Camille"}),
		w.testClient(t, b, object{"name": "Dominique"}), w.client(t, "c1", false, 0)
	for _, who := range []*person{c, other, stranger} {
		w.inTx(t, func(tx postgres.Tx) error {
			if err := w.SelfService.RequestReset(t.Context(), tx, who.Email, "en"); err != nil {
				return err
			}
			return w.SelfService.SendCode(t.Context(), tx, who.ID, "+33639980003", "", "en")
		})
	}
	if n := w.queryInt(t, "SELECT sent FROM phone_code_counts WHERE number = ''"); n != 1 {
		t.Errorf("%d codes count for the day, of which one goes to a phone", n)
	}
	read := func(p *partner, query string) (items []object, cursor any) {
		r := w.play(t, p, http.MethodGet, "/api/platform/v1/sandbox/inbox"+query, nil)
		r.is(t, "inbox", http.StatusOK, "")
		for _, i := range r.value()["items"].([]any) {
			items = append(items, i.(object))
		}
		return items, r.value()["nextCursor"]
	}
	for _, p := range []*partner{a, b} {
		eventually(t, "two messages", func() bool { items, _ := read(p, ""); return len(items) == 2 })
	}
	texts, _ := read(a, "?kind=TEXT_MESSAGE&clientId="+c.ID)
	mails, _ := read(a, "?kind=EMAIL")
	if len(texts) != 1 || len(mails) != 1 || texts[0]["to"] != "+33639980003" || texts[0]["subject"] != nil ||
		mails[0]["clientId"] != c.ID || mails[0]["to"] != c.Email ||
		!strings.Contains(mails[0]["text"].(string), w.base+"/password/reset") || mails[0]["subject"] == "" {
		t.Fatalf("text messages %v, emails %v", texts, mails)
	}
	code := strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, texts[0]["text"].(string))
	w.inTx(t, func(tx postgres.Tx) error {
		result, err := w.SelfService.EnterCode(t.Context(), tx, c.ID, code[:6], "en")
		if result != account.CodeRight {
			t.Errorf("the code %s of %q is %s", code, texts[0]["text"], result)
		}
		return err
	})
	var me models.Profile
	w.linkByAPI(t, a, c, "profile:read").get(t, "/api/v1/me").into(t, &me)
	if !me.PhoneVerified {
		t.Error("the code did not verify the number")
	}
	first, cursor := read(a, "?limit=1")
	second, _ := read(a, "?limit=1&cursor="+cursor.(string))
	if len(first) != 1 || len(second) != 1 || first[0]["id"] == second[0]["id"] {
		t.Errorf("pages: %v, %v", first, second)
	}
	if items, _ := read(a, "?clientId="+other.ID); len(items) != 0 {
		t.Errorf("another's: %v", items)
	}
	w.play(t, b, http.MethodGet, "/api/platform/v1/sandbox/inbox?limit=1&cursor="+cursor.(string), nil).is(t,
		"another's cursor", http.StatusBadRequest, "INVALID_REQUEST")
	if n := w.queryInt(t, "SELECT count(*) FROM sandbox_messages WHERE position($1::bytea in sealed) > 0",
		[]byte(code[:6])); n != 0 {
		t.Error("a code can be read in the database")
	}
	if n := w.queryInt(t, "SELECT count(*) FROM sandbox_messages WHERE client_id = $1", stranger.ID); n != 0 {
		t.Error("messages to a client without an application are stored")
	}
	w.exec(t, "UPDATE sandbox_messages SET sent_at = sent_at - interval '7 days 1 minute' WHERE client_id = $1",
		other.ID)
	if n, err := w.Inbox.Purge(t.Context()); n != 2 || err != nil {
		t.Errorf("purged %d, %v", n, err)
	}
}

// TestOwnLawyersByAPI: a partner adds lawyers through the API and decides which of them are on duty. Lawyers of others
// stay out of reach.
func TestOwnLawyersByAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withSimulatedLawyers)
	const lawyers = "/api/platform/v1/sandbox/lawyers"
	a, b := w.partner(t, "CRM A"), w.partner(t, "CRM B")
	s, other := w.link(t, a, w.client(t, "c1", true, 10_000)), w.link(t, b, w.client(t, "c2", true, 10_000))
	made := w.play(t, a, http.MethodPost, lawyers, object{"name": "Dominique",
		"competences": []string{"HOUSING", "FAMILY"}, "languages": []string{"FR"}, "available": false})
	made.is(t, "make a lawyer", http.StatusCreated, "")
	id := made.value()["id"].(string)
	list := w.play(t, a, http.MethodGet, lawyers, nil).value()["items"].([]any)
	if len(list) != 1 || list[0].(object)["id"] != id || list[0].(object)["available"] != false {
		t.Errorf("listed %v", list)
	}
	if none := w.play(t, b, http.MethodGet, lawyers, nil).value()["items"].([]any); len(none) != 0 {
		t.Errorf("listed of another %v", none)
	}
	c := s.create(t)
	all := started + " assigned call_started call_ended note_available completed"
	b.receiver.awaitAll(t, other.create(t).ID, all)
	a.receiver.awaitAll(t, c.ID, started) // none of the partner's lawyers is on duty
	w.play(t, b, http.MethodPut, lawyers+"/"+id+"/availability", object{"available": true}).is(t, "another's",
		http.StatusNotFound, "NOT_FOUND")
	w.play(t, a, http.MethodPut, lawyers+"/"+id+"/availability", object{"available": true}).is(t, "back to work",
		http.StatusOK, "")
	a.receiver.awaitAll(t, c.ID, all)

	w.play(t, a, http.MethodPut, lawyers+"/"+id+"/availability", object{"available": false}).
		is(t, "away", http.StatusOK, "")
	c = s.create(t)
	w.play(t, b, http.MethodDelete, lawyers+"/"+id, nil).is(t, "delete another's", http.StatusNotFound, "NOT_FOUND")
	w.play(t, a, http.MethodDelete, lawyers+"/"+id, nil).is(t, "delete", http.StatusOK, "")
	w.play(t, a, http.MethodDelete, lawyers+"/"+id, nil).is(t, "delete again", http.StatusNotFound, "NOT_FOUND")
	a.receiver.awaitAll(t, c.ID, all) // served by all lawyers again, including what waited

	for body, issue := range map[string]string{
		`{"name":"x","competences":["MAGIC"],"languages":["FR"]}`:           "competences.0 not_in_catalog",
		`{"name":"x","competences":["TAX"],"languages":["FR","XX"]}`:        "languages.1 not_in_catalog",
		`{"name":" ","competences":["TAX"],"languages":["FR"]}`:             "name invalid_value",
		`{"name":"x","competences":[],"languages":["FR"]}`:                  "competences invalid_value",
		`{"name":"x","competences":["TAX","TAX"],"languages":["FR"]}`:       "competences invalid_value",
		`{"name":"x","competences":["TAX"]}`:                                "languages required",
		`{"name":"x","competences":["TAX"],"languages":["FR"],"phone":"1"}`: "phone unknown_field",
	} {
		r := w.send(t, http.MethodPost, lawyers, body, "Authorization", a.basic(), "Content-Type", "application/json")
		if issues := r.issues(); r.Status != http.StatusUnprocessableEntity || !slices.Equal(issues, []string{issue}) {
			t.Errorf("%s: %s", body, r)
		}
	}
}
