// Package office is the web interface of the demonstration CRM: it links a client, shows the wallet, starts
// consultations and follows them by verified webhooks. It knows only the published contract and the credentials of its
// application, and keeps everything in memory.
package office

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"partnerd/cmd/democrm/crm"
	"partnerd/gen/partner/client"
	"partnerd/gen/partner/models"
)

//go:embed pages
var files embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"eur":   eur,
	"short": func(cents int64) string { return strings.Replace(eur(cents), ".00 ", " ", 1) },
	"when":  func(t time.Time) string { return t.Local().Format("15:04:05") },
}).ParseFS(files, "pages/*.html"))

func eur(cents int64) string { return fmt.Sprintf("%.2f EUR", float64(cents)/100) }

const (
	cookie     = "democrm"
	linkTime   = 10 * time.Minute // to sign in and consent
	callTime   = 15 * time.Second
	maxForm    = 16 << 10
	maxDesks   = 1000 // concurrent users of the CRM
	everything = 50   // consultations on the page
)

// Office is the CRM. It is safe for concurrent use.
type Office struct {
	base     string // base URL of the service
	app      crm.Application
	meta     crm.Metadata
	receiver *crm.Receiver
	http     *http.Client
	log      *slog.Logger

	mu    sync.Mutex
	desks map[string]*desk // by cookie
}

// desk is what the CRM knows about one user.
type desk struct {
	state, verifier string // of a link in progress
	begun           time.Time
	tokens          oauth2.TokenSource // nil until linked
	fault           *fault             // shown once
}

// fault is an error message, with a remedy if there is one.
type fault struct {
	Title, Text, Action string
	Issues              []string
}

// New returns an office for an application whose redirect URI is base + /callback and whose webhooks go to /webhooks.
func New(ctx context.Context, service string, app crm.Application, log *slog.Logger) (*Office, error) {
	meta, err := crm.Discover(ctx, service)
	if err != nil {
		return nil, err
	}
	return &Office{base: service, app: app, meta: meta, receiver: crm.NewReceiver(app.WebhookSecret),
		http: &http.Client{Timeout: callTime}, log: log, desks: map[string]*desk{}}, nil
}

// Handler serves the pages and receives the webhooks.
func (o *Office) Handler() http.Handler {
	people := http.NewServeMux()
	people.HandleFunc("GET /{$}", o.home)
	people.HandleFunc("POST /connect", o.connect)
	people.HandleFunc("GET /callback", o.callback)
	people.HandleFunc("POST /disconnect", o.disconnect)
	people.HandleFunc("POST /topup", o.topUp)
	people.HandleFunc("POST /consultations", o.start)
	people.HandleFunc("GET /consultations/{id}", o.consultation)
	people.HandleFunc("POST /consultations/{id}/cancel", o.cancel)
	mux := http.NewServeMux()
	mux.Handle("POST /webhooks", o.receiver)
	mux.Handle("/", http.NewCrossOriginProtection().Handler(http.MaxBytesHandler(people, maxForm)))
	return mux
}

// at returns the desk of a request, and creates one for a new user.
func (o *Office) at(w http.ResponseWriter, r *http.Request) *desk {
	o.mu.Lock()
	defer o.mu.Unlock()
	if c, err := r.Cookie(cookie); err == nil && o.desks[c.Value] != nil {
		return o.desks[c.Value]
	}
	if len(o.desks) >= maxDesks {
		clear(o.desks) // a demonstration discards its state rather than grow
	}
	name, d := rand.Text(), &desk{}
	o.desks[name] = d
	http.SetCookie(w, &http.Cookie{Name: cookie, Value: name, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: strings.HasPrefix(o.app.RedirectURI, "https:")})
	return d
}

// change calls f with exclusive access to a desk.
func (o *Office) change(d *desk, f func(d *desk)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f(d)
}

func (o *Office) tell(w http.ResponseWriter, r *http.Request, d *desk, f *fault, to string) {
	o.change(d, func(d *desk) { d.fault = f })
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// api returns the generated client with a valid access token, or nil if the client is not, or no longer, linked.
func (o *Office) api(d *desk) (*client.ClientWithResponses, error) {
	o.mu.Lock()
	source := d.tokens
	o.mu.Unlock()
	if source == nil {
		return nil, nil
	}
	token, err := source.Token() // refreshes if necessary, one call at a time
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) && refused.ErrorCode == "invalid_grant" {
		o.change(d, func(d *desk) { d.tokens = nil })
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return crm.API(o.base, token.AccessToken, o.http)
}

func (o *Office) connect(w http.ResponseWriter, r *http.Request) {
	d := o.at(w, r)
	state, verifier := rand.Text(), oauth2.GenerateVerifier()
	o.change(d, func(d *desk) { d.state, d.verifier, d.begun = state, verifier, time.Now() })
	http.Redirect(w, r, o.config().AuthCodeURL(state, oauth2.S256ChallengeOption(verifier)), http.StatusSeeOther)
}

func (o *Office) config() *oauth2.Config { return o.app.Config(o.meta, crm.AllScopes...) }

func (o *Office) callback(w http.ResponseWriter, r *http.Request) {
	d, q := o.at(w, r), r.URL.Query()
	var state, verifier string
	o.change(d, func(d *desk) {
		if time.Since(d.begun) < linkTime {
			state, verifier = d.state, d.verifier
		}
		d.state, d.verifier = "", ""
	})
	switch {
	case q.Get("code") == "" && q.Get("error") == "": // back from the checkout
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	case state == "" || q.Get("state") != state || q.Get("iss") != o.meta.Issuer:
		o.tell(w, r, d, &fault{Title: "Not connected",
			Text: "This response does not match a request from this browser. Try again."}, "/")
		return
	case q.Get("error") != "":
		o.tell(w, r, d, &fault{Title: "Not connected", Text: q.Get("error_description")}, "/")
		return
	}
	ctx := context.WithValue(r.Context(), oauth2.HTTPClient, crm.TokenClient(http.DefaultTransport))
	token, err := o.config().Exchange(ctx, q.Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		o.log.Error("exchange", "error", err)
		o.tell(w, r, d, &fault{Title: "Not connected", Text: "The authorization code was rejected. Try again."}, "/")
		return
	}
	later := context.WithValue(context.Background(), oauth2.HTTPClient, crm.TokenClient(http.DefaultTransport))
	o.change(d, func(d *desk) { d.tokens = o.config().TokenSource(later, token) })
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (o *Office) disconnect(w http.ResponseWriter, r *http.Request) {
	d := o.at(w, r)
	o.mu.Lock()
	source := d.tokens
	d.tokens = nil
	o.mu.Unlock()
	if source != nil {
		if err := o.revoke(r.Context(), source); err != nil {
			o.log.Error("revoke", "error", err)
		}
	}
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// revoke ends the connection at the service, which makes its tokens invalid.
func (o *Office) revoke(ctx context.Context, source oauth2.TokenSource) error {
	token, err := source.Token()
	if err != nil {
		return err
	}
	form := url.Values{"client_id": {o.app.ClientID}, "client_secret": {o.app.ClientSecret},
		"token": {token.RefreshToken}}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, o.meta.RevocationEndpoint,
		strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := o.http.Do(q)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("answered with %s", resp.Status)
	}
	return nil
}

// homeView is the page of a client.
type homeView struct {
	Fault         *fault
	Linked        bool
	Service       string
	Profile       *models.Profile
	Wallet        *models.Wallet
	Competences   []models.Competence
	Price         int64
	Languages     []models.Language
	Competence    string
	Language      string
	Coverage      *models.Coverage
	Waiver        string
	Consultations []models.Consultation
	Key           string // Idempotency-Key of the creation: a form that is submitted twice creates once
}

func (o *Office) home(w http.ResponseWriter, r *http.Request) {
	d := o.at(w, r)
	v := homeView{Service: o.base, Waiver: o.base + "/legal/waiver", Competence: r.URL.Query().Get("competence"),
		Language: r.URL.Query().Get("language"), Key: rand.Text(), Price: crm.Price}
	api, err := o.api(d)
	if err == nil && api != nil {
		v.Linked = true
		err = o.fill(r.Context(), api, &v)
	}
	o.change(d, func(d *desk) { v.Fault, d.fault = d.fault, nil })
	if err != nil {
		v.Fault = o.unreachable(err)
	}
	o.show(w, "home.html", v)
}

func (o *Office) unreachable(err error) *fault {
	var said *fault
	if errors.As(err, &said) {
		return said
	}
	o.log.Error("the service", "error", err)
	return &fault{Title: "The service cannot be reached", Text: "Try again in a moment."}
}

func (o *Office) fill(ctx context.Context, api *client.ClientWithResponses, v *homeView) error {
	me, err := api.GetProfileWithResponse(ctx)
	if err = want(err, me); err != nil {
		return err
	}
	wallet, err := api.GetWalletWithResponse(ctx)
	if err = want(err, wallet); err != nil {
		return err
	}
	competences, err := api.ListCompetencesWithResponse(ctx, nil)
	if err = want(err, competences); err != nil {
		return err
	}
	languages, err := api.ListLanguagesWithResponse(ctx, nil)
	if err = want(err, languages); err != nil {
		return err
	}
	limit := everything
	list, err := api.ListConsultationsWithResponse(ctx, &models.ListConsultationsParams{Limit: &limit})
	if err = want(err, list); err != nil {
		return err
	}
	v.Profile, v.Wallet, v.Consultations = me.JSON200, wallet.JSON200, list.JSON200.Items
	v.Competences, v.Languages = competences.JSON200.Competences, languages.JSON200.Languages
	if v.Competence == "" || v.Language == "" {
		return nil
	}
	coverage, err := api.GetCoverageWithResponse(ctx, &models.GetCoverageParams{Competence: v.Competence,
		Language: v.Language})
	if err = want(err, coverage); err == nil {
		v.Coverage = coverage.JSON200
	}
	return err
}

func (o *Office) show(w http.ResponseWriter, page string, v any) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'")
	if err := pages.ExecuteTemplate(w, page, v); err != nil {
		o.log.Error("page", "page", page, "error", err)
	}
}
