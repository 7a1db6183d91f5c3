package app

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pquerna/otp/totp"

	"partnerd/internal/domain/lawyer"
	"partnerd/internal/domain/operator"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/postgres"
)

// hostile are texts that are valid in no field. Each is tried, escaped, in paths, queries, forms, headers and JSON. A
// header with one in every field of a page must be short enough to be read.
var hostile = []string{
	"", " ", "\x00", "a\x00b", "\xff\xfe", "\u202e\u200b\ufeff", "../../etc/passwd", "%2e%2e%2f", "%00",
	"' OR 1=1 --", "{{.}}", "<script>alert(1)</script>", "-1", "0", "1e999", "99999999999999999999999999", "NaN",
	"0001-01-01", "9999-99", "2026-13", "-0001-01", "null", "true", "[]", "😀", "client\x00@client.example",
	"client@client.example\xff", "+33639980001\x00", "/\\evil.example", "javascript:alert(1)",
	strings.Repeat("a", 300), strings.Repeat("😀", 70), strings.Repeat("%", 200), "\r\nSet-Cookie: a=b",
}

// hostileValues are JSON values, or nearly, that are not texts.
var hostileValues = []string{
	"null", "0", "-1", "1e999", "-0.0", "2000.5", "1e-99999", "9223372036854775808", "true", "[]", "{}", "[null]",
	`{"a":1}`, `["a"]`, `"\ud800"`, "\"\xff\"", "", "}", "NaN", strings.Repeat("9", 5_000),
	`"` + strings.Repeat("😀", 3_000) + `"`, strings.Repeat("[", 5_000) + strings.Repeat("]", 5_000),
}

// hostileJSON are bodies that are not a request, or only partly.
var hostileJSON = []string{
	"", "null", "[]", "0", `"text"`, "{", `{"a":}`, "{}", `{"url":null}`, `{"url":{}}`, `{"url":["https://a.example"]}`,
	`{"url":"\u0000"}`, `{"url":"\ud800"}`, `{"URL":"https://a.example"}`,
	`{"url":"https://a.example","url":"https://b.example"}`, `{"type":1e999}`, `{"deliveryIds":[null]}`,
	`{"from":"0000-00-00T00:00:00Z","to":"9999-12-31T23:59:60Z"}`,
	`{"from":"-1"}`, "\xff", "\ufeff{}", strings.Repeat("[", 20_000), strings.Repeat(`{"a":`, 5_000),
	`{"a":"` + strings.Repeat("a", 200_000) + `"}`, `{} {}`, `{"__proto__":{}}`,
}

var contentTypes = []string{"", "application/json", "text/plain", "application/x-www-form-urlencoded",
	"multipart/form-data; boundary=", "application/json; charset=utf-16"}

// intruder sends each request from a different address, so that no rate limit hides the rule under test.
type intruder struct {
	t       *testing.T
	handler http.Handler
	sent    int
	seen    map[int]int // responses by status
}

func (i *intruder) send(r *http.Request) *httptest.ResponseRecorder {
	i.sent++
	r.RemoteAddr = netip.AddrPortFrom(netip.AddrFrom4([4]byte{100, byte(64 + i.sent>>16),
		byte(i.sent >> 8), byte(i.sent)}), 1234).String()
	w := httptest.NewRecorder()
	ctx, leave := context.WithCancel(r.Context())
	defer leave()
	i.handler.ServeHTTP(&listener{w, leave}, r.WithContext(ctx))
	i.seen[w.Code]++
	what := fmt.Sprintf("%s %.200s", r.Method, r.URL)
	switch {
	case w.Code < 200 || w.Code >= 500:
		i.t.Errorf("%s: %d %.300s", what, w.Code, w.Body)
	case w.Code >= 400 && strings.HasPrefix(r.URL.Path, "/api/") && r.Method != http.MethodHead &&
		!strings.Contains(w.Header().Get("Content-Type"), "json") && r.URL.Path != "/api/oauth/authorize":
		i.t.Errorf("%s: an error of %q: %d %.300s", what, w.Header().Get("Content-Type"), w.Code, w.Body)
	}
	if w.Header().Get("Set-Cookie") == "a=b" || strings.Contains(w.Body.String(), "<script>alert(1)</script>") {
		i.t.Errorf("%s: what was sent comes back as it is", what)
	}
	return w
}

// listener leaves a stream once it has begun.
type listener struct {
	*httptest.ResponseRecorder
	leave func()
}

// Flush implements http.Flusher. Only a stream flushes before it is complete.
func (l *listener) Flush() { l.leave() }

// TestNoRouteFailsOnHostileInput tries every route with hostile values wherever it reads one (R156). The callers are
// anonymous visitors, signed-in clients, staff and partners. No response is a server error. For operations of the
// contracts see [partner.attackOperation].
func TestNoRouteFailsOnHostileInput(t *testing.T) {
	t.Parallel()
	b := openBank(t)
	described := readContracts(t)
	names := namesThatPagesRead(t)
	e, err := b.app.routes()
	if err != nil {
		t.Fatal(err)
	}
	i := &intruder{t: t, handler: b.handler, seen: map[int]int{}}
	partner := i.partner(b)
	var session string
	credentials := map[string]func(r *http.Request){
		"nobody": func(*http.Request) {},
		"client": func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "partnerd", Value: session}) },
	}
	for _, who := range []string{"lawyer", "operator", "half", "newcomer"} {
		credentials[who] = func(r *http.Request) {
			r.AddCookie(&http.Cookie{Name: staff.CookieName(false), Value: session})
		}
	}
	for _, route := range e.Routes() {
		if !strings.HasPrefix(route.Path, "/") || strings.Contains(route.Path, "*") || route.Method == http.MethodHead {
			continue
		}
		op, ok := described[route.Method+" "+route.Path]
		if delete(described, route.Method+" "+route.Path); ok && op.ID != "authorize" {
			partner.attackOperation(op)
			continue
		}
		for _, who := range callers(route.Path) {
			session = b.session(who) // some routes end the session, one the account
			i.attack(route.Method, route.Path, names, credentials[who])
			if ok {
				partner.identify = credentials[who]
				partner.attackOperation(op)
			}
		}
	}
	if len(described) > 0 {
		t.Errorf("the contracts describe what is not served: %v", slices.Sorted(maps.Keys(described)))
	}
	t.Logf("%d requests, answers by status: %v", i.sent, i.seen)
	for _, status := range []int{200, 303, 400, 401, 403, 404, 409, 422} {
		if i.seen[status] == 0 {
			t.Errorf("no answer was %d: the requests do not reach the rules", status)
		}
	}
}

// callers returns the roles whose requests are not rejected at the entry.
func callers(path string) []string {
	under := func(root string) bool { return path == root || strings.HasPrefix(path, root+"/") }
	switch {
	case under("/account"):
		return []string{"client"}
	case under("/staff/login/code"):
		return []string{"nobody", "half"}
	case under("/staff/login/factor"):
		return []string{"nobody", "newcomer"}
	case under("/staff"):
		return []string{"nobody", "operator"}
	case under("/desk"), under("/ops"), under("/api/desk"):
		return []string{"nobody", "lawyer", "operator"}
	}
	return []string{"nobody", "client"}
}

// session signs a new person in and returns the token. who is a client, a lawyer, an operator, a person whose second
// factor is missing (half), or one who has none yet (newcomer).
func (b *bank) session(who string) (token string) {
	b.t.Helper()
	ctx, a := b.t.Context(), b.app
	must := func(err error) {
		b.t.Helper()
		if err != nil {
			b.t.Fatal(err)
		}
	}
	if who == "client" || who == "nobody" {
		client, _ := b.client()
		must(a.DB.InTx(ctx,
			func(tx postgres.Tx) (err error) { token, err = a.Accounts.SignIn(ctx, tx, client); return err }))
		return token
	}
	n := b.clients.Add(1)
	by := operator.Act{Actor: "cli:demo", Reason: "A test"}
	email := fmt.Sprintf("worker-%d@partners.example", n)
	var link string
	var err error
	if who == "lawyer" {
		_, link, err = a.Operator.InviteLawyer(ctx, by, lawyer.NewLawyer{Email: email, Name: "A Lawyer",
			Phone: fmt.Sprintf("+331990%05d", n), Competences: []string{"TAX"}, Languages: []string{"FR"}}, "fr")
	} else {
		_, link, err = a.Operator.InviteOperator(ctx, by, staff.NewPerson{Email: email, Name: "An Operator",
			Language: "en", Roles: []staff.Role{staff.Admin}})
	}
	must(err)
	_, invitation, _ := strings.Cut(link, "token=")
	must(a.DB.InTx(ctx, func(tx postgres.Tx) error {
		half, err := a.Staff.AcceptInvitation(ctx, tx, invitation, codeVerifier, staff.Device{})
		if token = half; err != nil || who == "newcomer" {
			return err
		}
		f, _, err := a.Staff.SetUpFactor(ctx, tx, half)
		if err != nil {
			return err
		}
		code, err := totp.GenerateCode(strings.ReplaceAll(f.Secret, " ", ""), tx.Now)
		if err != nil {
			return err
		}
		if token, _, _, err = a.Staff.ConfirmFactor(ctx, tx, half, code, staff.Device{}); err != nil || who != "half" {
			return err
		}
		proof, err := a.Staff.CheckPassword(ctx, tx, email, codeVerifier)
		if err != nil {
			return err
		}
		token, err = a.Staff.Begin(ctx, tx, proof, staff.Device{})
		return err
	}))
	return token
}

var readName = regexp.MustCompile(`(?:QueryParam|FormValue|Get|Has)\("([a-z_]+)"\)|[fF]orm\["([a-z_]+)"\]`)

// namesThatPagesRead returns the names of all query parameters and form fields, and one that no page knows.
func namesThatPagesRead(t *testing.T) []string {
	files, err := filepath.Glob("../server/web/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"nobody"}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range readName.FindAllSubmatch(source, -1) {
			names = append(names, string(m[1])+string(m[2]))
		}
	}
	slices.Sort(names)
	if names = slices.Compact(names); len(names) < 15 {
		t.Fatalf("pages read only %v", names)
	}
	return names
}

var placeholder, csrfField = regexp.MustCompile(`:[a-z]+`), regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// attack sends undescribed requests to a route, with the names of fields that some page reads.
func (i *intruder) attack(method, path string, names []string, identify func(r *http.Request)) {
	fresh := func(target, body, contentType string) *http.Request {
		r := httptest.NewRequest(method, "/", strings.NewReader(body))
		u, err := url.Parse(target)
		if err != nil {
			i.t.Fatal(err)
		}
		r.URL, r.RequestURI = u, target
		if body != "" || contentType != "" {
			r.Header.Set("Content-Type", contentType)
		}
		identify(r)
		return r
	}
	plain := placeholder.ReplaceAllString(path, "x")
	if i.send(fresh(plain, "", "")).Code == http.StatusMethodNotAllowed {
		return
	}
	for _, v := range hostile {
		if plain != path {
			i.send(fresh(placeholder.ReplaceAllLiteralString(path, url.PathEscape(v)), "", ""))
		}
		once, twice := url.Values{}, url.Values{}
		for _, name := range names {
			once[name], twice[name] = []string{v}, []string{v, v}
		}
		i.send(fresh(plain+"?"+once.Encode(), "", ""))
		if method == http.MethodGet {
			i.send(fresh(plain+"?"+twice.Encode(), "", ""))
		}
	}
	i.send(fresh(plain+"?%zz&;=;&&", "", ""))
	if !slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, method) {
		return
	}
	for _, body := range hostileJSON {
		i.send(fresh(plain, body, "application/json"))
	}
	for _, contentType := range contentTypes {
		i.send(fresh(plain, "{}", contentType))
	}
	csrf := i.csrf(fresh(plain, "", ""))
	for _, v := range hostile {
		form := url.Values{}
		for _, name := range names {
			form.Set(name, v)
		}
		form.Set("csrf", csrf)
		i.send(fresh(plain, form.Encode(), "application/x-www-form-urlencoded"))
		form["password"], form["csrf"] = []string{v, v}, []string{v}
		i.send(fresh(plain, form.Encode(), "application/x-www-form-urlencoded"))
	}
}

// csrf returns the form token of the session in r.
func (i *intruder) csrf(r *http.Request) string {
	if k, err := r.Cookie(staff.CookieName(false)); err == nil {
		return staff.FormToken(k.Value)
	}
	page := httptest.NewRequest(http.MethodGet, "/account/security", nil)
	page.Header["Cookie"] = r.Header["Cookie"]
	if m := csrfField.FindStringSubmatch(i.send(page).Body.String()); m != nil {
		return m[1]
	}
	return ""
}
