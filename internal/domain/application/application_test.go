package application

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/problem"
	"partnerd/internal/dev/dbtest"
	"partnerd/internal/infra/postgres"
)

var demo = NewApplication{
	Name: " Demo CRM ", RedirectURIs: []string{"http://localhost:3000/callback", "https://crm.example/cb?tenant=a%20b"},
	Scopes: []Scope{OfflineAccess, ProfileRead, ProfileRead}, RecordingEnabled: true, RatePerMinute: 60,
	ClientRatePerMinute: 6,
}

func create(t *testing.T, db *postgres.DB, n NewApplication) (Application, string) {
	t.Helper()
	a, secret, err := New().Create(t.Context(), db.Read(), n)
	if err != nil {
		t.Fatal(err)
	}
	return a, secret
}

func TestCreatedApplicationIsReadBackExactly(t *testing.T) {
	t.Parallel()
	db, s := dbtest.New(t), New()
	a, secret := create(t, db, demo)
	got, err := s.Get(t.Context(), db.Read(), a.ID)
	if err != nil || !reflect.DeepEqual(got, a) {
		t.Errorf("got %+v, want %+v (%v)", got, a, err)
	}
	if a.Name != "Demo CRM" || !slices.Equal(a.Scopes, []Scope{ProfileRead, OfflineAccess}) ||
		!slices.Equal(a.RedirectURIs, demo.RedirectURIs) || a.Suspended {
		t.Errorf("application: %+v", a)
	}
	if !strings.HasPrefix(a.ID, "app_test_") || !strings.HasPrefix(secret, "sk_test_") {
		t.Errorf("credentials are not marked as a sandbox's: %s", a.ID)
	}
	plain, _ := create(t, db, NewApplication{Name: "Plain", RedirectURIs: []string{"https://crm.example/cb"},
		Live: true})
	if got, err = s.Get(t.Context(), db.Read(), plain.ID); err != nil || !slices.Equal(got.Scopes, AllScopes) ||
		got.RatePerMinute != 0 || got.ClientRatePerMinute != 0 || got.RecordingEnabled {
		t.Errorf("defaults: %+v %v", got, err)
	}
	for _, id := range []string{"app_test_unknown", "", "\x00", "\xff"} {
		if _, err := s.Get(t.Context(), db.Read(), id); !errors.Is(err, problem.ErrNotFound) {
			t.Errorf("get %q: %v", id, err)
		}
	}
}

func TestOnlyTheRightSecretAuthenticates(t *testing.T) {
	t.Parallel()
	db, s := dbtest.New(t), New()
	a, secret := create(t, db, demo)
	_, other := create(t, db, demo)
	if got, err := s.Authenticate(t.Context(), db.Read(), a.ID, secret); err != nil || got.ID != a.ID {
		t.Errorf("right: %+v %v", got, err)
	}
	for _, bad := range [][2]string{{a.ID, ""}, {a.ID, secret + "x"}, {a.ID, other}, {a.ID, strings.ToUpper(secret)},
		{"app_test_unknown", secret}, {"", ""}, {"\x00", secret}} {
		if _, err := s.Authenticate(t.Context(), db.Read(), bad[0], bad[1]); !errors.Is(err, ErrBadCredentials) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := s.SetSuspended(t.Context(), db.Read(), a.ID, true); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Authenticate(t.Context(), db.Read(), a.ID, secret); err != nil || !got.Suspended {
		t.Errorf("suspended: %+v %v", got, err)
	}
	for name, err := range map[string]error{
		"suspend": s.SetSuspended(t.Context(), db.Read(), "app_test_unknown", true),
		"rotate":  third(s.RotateSecret(t.Context(), db.Read(), "app_test_unknown", Rotation{Overlap: SecretOverlap})),
	} {
		if !errors.Is(err, problem.ErrNotFound) {
			t.Errorf("%s of an unknown application: %v", name, err)
		}
	}
}

func third(_ string, _ time.Time, err error) error { return err }

func TestPreviousSecretIsHonouredForADay(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	db, s := dbtest.NewWithClock(t, clk), New()
	a, oldest := create(t, db, demo)
	rotate := func() string {
		secret, _, err := s.RotateSecret(t.Context(), db.Read(), a.ID,
			Rotation{Overlap: SecretOverlap, EndPrevious: true})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	works := func(secret string) bool {
		_, err := s.Authenticate(t.Context(), db.Read(), a.ID, secret)
		if err != nil && !errors.Is(err, ErrBadCredentials) {
			t.Fatal(err)
		}
		return err == nil
	}
	old := rotate()
	fresh := rotate()
	if works(oldest) || !works(old) || !works(fresh) {
		t.Error("not exactly the last two secrets work")
	}
	clk.Advance(SecretOverlap - time.Microsecond)
	if !works(old) {
		t.Error("the previous secret ended early")
	}
	clk.Advance(time.Microsecond)
	if works(old) || !works(fresh) {
		t.Error("the previous secret did not end")
	}
}

// The rotation chooses the overlap. Without an overlap, a leaked secret ends immediately.
func TestTheOverlapOfSecretsIsChosen(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	db, s := dbtest.NewWithClock(t, clk), New()
	a, old := create(t, db, demo)
	for _, overlap := range []time.Duration{time.Minute, MaxSecretOverlap, 0} {
		fresh, _, err := s.RotateSecret(t.Context(), db.Read(), a.ID, Rotation{Overlap: overlap})
		if err != nil {
			t.Fatal(err)
		}
		if overlap > 0 {
			clk.Advance(overlap - time.Microsecond)
			if _, err := s.Authenticate(t.Context(), db.Read(), a.ID, old); err != nil {
				t.Errorf("%s: the previous secret ended early: %v", overlap, err)
			}
			clk.Advance(time.Microsecond)
		}
		if _, err := s.Authenticate(t.Context(), db.Read(), a.ID, old); !errors.Is(err, ErrBadCredentials) {
			t.Errorf("%s: the previous secret did not end: %v", overlap, err)
		}
		old = fresh
	}
	for _, overlap := range []time.Duration{-time.Second, MaxSecretOverlap + time.Second} {
		if _, _, err := s.RotateSecret(t.Context(), db.Read(), a.ID,
			Rotation{Overlap: overlap}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", overlap, err)
		}
	}
	if _, err := s.Authenticate(t.Context(), db.Read(), a.ID, old); err != nil {
		t.Errorf("a refused rotation changed the secret: %v", err)
	}
}

func TestUpdateChangesWhatItNamesAndNothingElse(t *testing.T) {
	t.Parallel()
	db, s := dbtest.New(t), New()
	n := demo
	n.ContactEmail = "integration@crm.example"
	created, secret := create(t, db, n)
	pointer := func(i int) *int { return &i }
	name, none, off := " New name ", "", false
	want := created
	for what, c := range map[string]struct {
		change Change
		apply  func()
	}{
		"nothing": {Change{}, func() {}},
		"name":    {Change{Name: &name}, func() { want.Name = "New name" }},
		"redirects": {Change{RedirectURIs: []string{"https://crm.example/new"}},
			func() { want.RedirectURIs = []string{"https://crm.example/new"} }},
		"scopes": {Change{Scopes: []Scope{WalletRead, ProfileRead}},
			func() { want.Scopes = []Scope{ProfileRead, WalletRead} }},
		"contact":     {Change{ContactEmail: &none}, func() { want.ContactEmail = "" }},
		"recording":   {Change{RecordingEnabled: &off}, func() { want.RecordingEnabled = false }},
		"rate":        {Change{RatePerMinute: pointer(0)}, func() { want.RatePerMinute = 0 }},
		"client rate": {Change{ClientRatePerMinute: pointer(9)}, func() { want.ClientRatePerMinute = 9 }},
	} {
		was := want
		before, after, err := s.Update(t.Context(), db.Read(), created.ID, c.change, false)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		c.apply()
		was.UpdatedAt, want.UpdatedAt = before.UpdatedAt, after.UpdatedAt
		if !reflect.DeepEqual(before, was) || !reflect.DeepEqual(after, want) {
			t.Errorf("%s: %+v became %+v, want %+v", what, before, after, want)
		}
	}
	if _, err := s.Authenticate(t.Context(), db.Read(), created.ID, secret); err != nil {
		t.Errorf("a change cost the secret: %v", err)
	}
	for what, c := range map[string]Change{
		"no name": {Name: &none}, "fragment": {RedirectURIs: []string{"https://crm.example/#x"}},
		"no redirect": {RedirectURIs: []string{}}, "http elsewhere": {RedirectURIs: []string{"http://crm.example/"}},
		"unknown scope": {Scopes: []Scope{"admin"}}, "negative": {RatePerMinute: pointer(-1)},
		"huge":                {ClientRatePerMinute: pointer(MaxRate + 1)},
		"address with a name": {ContactEmail: &[]string{"Demo <a@b.example>"}[0]},
		"no address":          {ContactEmail: &[]string{"a"}[0]},
	} {
		if _, _, err := s.Update(t.Context(), db.Read(), created.ID, c, false); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, _, err := s.Update(t.Context(), db.Read(), created.ID, Change{RedirectURIs: []string{"http://localhost:1/"}},
		true); !errors.Is(err, ErrInvalid) {
		t.Errorf("http in live: %v", err)
	}
	if _, _, err := s.Update(t.Context(), db.Read(), "app_test_unknown",
		Change{}, false); !errors.Is(err, problem.ErrNotFound) {
		t.Errorf("unknown application: %v", err)
	}
	if got, err := s.Get(t.Context(), db.Read(), created.ID); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("refused changes changed %+v to %+v %v", want, got, err)
	}
	all, err := s.List(t.Context(), db.Read())
	if err != nil || len(all) != 1 || !reflect.DeepEqual(all[0], want) {
		t.Errorf("list: %+v %v", all, err)
	}
}

func TestScopesAreParsedStrictly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]Scope{
		"profile:read":                       {ProfileRead},
		"offline_access notes:read":          {NotesRead, OfflineAccess},
		"wallet:read wallet:read":            {WalletRead},
		FormatScopes(AllScopes):              AllScopes,
		"":                                   nil,
		" ":                                  nil,
		" profile:read":                      nil,
		"profile:read ":                      nil,
		"profile:read  wallet:read":          nil,
		"profile:read\twallet:read":          nil,
		"profile:read,wallet:read":           nil,
		"Profile:Read":                       nil,
		"profile:read profile:write":         nil,
		"profile:read\x00":                   nil,
		strings.Repeat("profile:read ", 1e4): nil,
	} {
		got, err := ParseScopes(text)
		if !slices.Equal(got, want) || (err == nil) != (want != nil) {
			t.Errorf("%.40q: %v %v", text, got, err)
		}
	}
}

func TestRedirectURIsAreChecked(t *testing.T) {
	t.Parallel()
	const anywhere, sandbox, nowhere = 2, 1, 0
	for uri, want := range map[string]int{
		"https://crm.example":                  anywhere,
		"https://crm.example:8443/cb?tenant=1": anywhere,
		"https://crm.example/cb/%C3%A9":        anywhere,
		"https://localhost/cb":                 anywhere,
		"http://localhost/cb":                  sandbox,
		"http://localhost:3000":                sandbox,
		"http://127.0.0.1:3000/cb":             sandbox,
		"http://[::1]:3000/cb":                 sandbox,
		"http://127.0.0.2/cb":                  nowhere,
		"http://crm.example/cb":                nowhere,
		"http://localhost.example/cb":          nowhere,
		"http://192.168.0.1/cb":                nowhere,
		"":                                     nowhere,
		"/cb":                                  nowhere,
		"//crm.example/cb":                     nowhere,
		"crm.example/cb":                       nowhere,
		"https:///cb":                          nowhere,
		"https://:443/cb":                      nowhere,
		"https:crm.example/cb":                 nowhere,
		"https://crm.example/cb#":              nowhere,
		"https://crm.example/cb#part":          nowhere,
		"https://user@crm.example/cb":          nowhere,
		"https://user:pass@crm.example/cb":     nowhere,
		"https://*.crm.example/cb":             nowhere,
		"https://crm.example/c b":              nowhere,
		"https://crm.example/cb\n":             nowhere,
		"https://crm.example\\@evil.example":   nowhere,
		"https://crm.example/é":                nowhere,
		"https://crm.example/cb?code=1":        nowhere,
		"https://crm.example/cb?a=1&state=1":   nowhere,
		"https://crm.example/cb?a=%zz":         nowhere,
		"https://crm.example:port/cb":          nowhere,
		"com.example.crm:/cb":                  nowhere,
		"javascript:alert(1)":                  nowhere,
		"data:text/html,x":                     nowhere,
		"ftp://crm.example/cb":                 nowhere,
		"https://crm.example/" + strings.Repeat("a", maxURILength): nowhere,
	} {
		for _, live := range []bool{false, true} {
			n := demo
			n.RedirectURIs, n.Live = []string{uri}, live
			_, err := checked(n, "", "")
			if allowed := want == anywhere || want == sandbox && !live; allowed != (err == nil) ||
				err != nil && !errors.Is(err, ErrInvalid) {
				t.Errorf("%.60q live=%v: %v", uri, live, err)
			}
		}
	}
}

func TestImpossibleApplicationsAreRefused(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*NewApplication){
		"no name":     func(n *NewApplication) { n.Name = " " },
		"long name":   func(n *NewApplication) { n.Name = strings.Repeat("é", maxNameLength+1) },
		"NUL in name": func(n *NewApplication) { n.Name = "a\x00" },
		"web address": func(n *NewApplication) { n.Name = "Pay at evil.com" },
		"at sign":     func(n *NewApplication) { n.Name = "a@b" },
		"line break":  func(n *NewApplication) { n.Name = "a\nb" },
		"port beyond 65535": func(n *NewApplication) {
			n.RedirectURIs = []string{"https://crm.example:99999/callback"}
		},
		"port 0":          func(n *NewApplication) { n.RedirectURIs = []string{"https://crm.example:0/callback"} },
		"empty port":      func(n *NewApplication) { n.RedirectURIs = []string{"https://crm.example:/callback"} },
		"no redirect URI": func(n *NewApplication) { n.RedirectURIs = nil },
		"one URI twice": func(n *NewApplication) {
			n.RedirectURIs = []string{"https://a.example", "https://a.example"}
		},
		"too many URIs":     func(n *NewApplication) { n.RedirectURIs = make([]string, maxRedirectURIs+1) },
		"unknown scope":     func(n *NewApplication) { n.Scopes = []Scope{ProfileRead, "admin"} },
		"negative rate":     func(n *NewApplication) { n.RatePerMinute = -1 },
		"negative per head": func(n *NewApplication) { n.ClientRatePerMinute = -1 },
	} {
		n := demo
		spoil(&n)
		if _, err := checked(n, "", ""); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	old := demo
	old.Name = "Old.example"
	if _, err := checked(old, old.Name, ""); err != nil {
		t.Errorf("a stored name keeps the other settings from changing: %v", err)
	}
}

// A rotation while the previous secret works would end a secret that may be in production, so it must be requested
// explicitly.
func TestARotationDoesNotEndAPreviousSecretSilently(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	db, s := dbtest.NewWithClock(t, clk), New()
	a, old := create(t, db, demo)
	current, _, err := s.RotateSecret(t.Context(), db.Read(), a.ID, Rotation{Overlap: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	works := func(secrets ...string) bool {
		for _, secret := range secrets {
			if _, err := s.Authenticate(t.Context(), db.Read(), a.ID, secret); err != nil {
				return false
			}
		}
		return true
	}
	_, _, err = s.RotateSecret(t.Context(), db.Read(), a.ID, Rotation{Overlap: time.Hour})
	if !errors.Is(err, problem.ErrPreviousSecret) || !strings.Contains(err.Error(), "2026-03-01T13:00:00Z") ||
		!works(old, current) {
		t.Errorf("a second rotation: %v; both work: %t", err, works(old, current))
	}
	third, _, err := s.RotateSecret(t.Context(), db.Read(), a.ID, Rotation{Overlap: time.Hour, EndPrevious: true})
	if err != nil || works(old) || !works(current, third) {
		t.Errorf("a rotation that may end the previous secret: %v", err)
	}
	clk.Advance(time.Hour)
	if _, _, err := s.RotateSecret(t.Context(), db.Read(), a.ID, Rotation{}); err != nil {
		t.Errorf("after the overlap: %v", err)
	}
}

// Only one of several concurrent rotations succeeds, so the secret in use is never the one that ends.
func TestParallelRotationsAreOne(t *testing.T) {
	t.Parallel()
	db, s := dbtest.New(t), New()
	a, old := create(t, db, demo)
	var done atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			err := db.InTx(t.Context(), func(tx postgres.Tx) error {
				_, _, err := s.RotateSecret(t.Context(), tx, a.ID, Rotation{Overlap: time.Hour})
				return err
			})
			switch {
			case err == nil:
				done.Add(1)
			case !errors.Is(err, problem.ErrPreviousSecret):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if _, err := s.Authenticate(t.Context(), db.Read(), a.ID, old); err != nil || done.Load() != 1 {
		t.Errorf("%d rotations, the secret in use: %v", done.Load(), err)
	}
}

// A leaked current secret is replaced immediately, while the previous one, still deployed, works until its time.
func TestTheCurrentSecretIsReplacedWhileThePreviousOneStays(t *testing.T) {
	t.Parallel()
	clk := clock.NewManual(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	db, s := dbtest.NewWithClock(t, clk), New()
	a, old := create(t, db, demo)
	rotate := func(r Rotation) (string, error) {
		secret, until, err := s.RotateSecret(t.Context(), db.Read(), a.ID, r)
		if err == nil && !until.Equal(a.CreatedAt.Add(time.Hour)) {
			t.Errorf("%+v: the previous secret is said to work until %v", r, until)
		}
		return secret, err
	}
	works := func(secret string) bool {
		_, err := s.Authenticate(t.Context(), db.Read(), a.ID, secret)
		return err == nil
	}
	if _, err := rotate(Rotation{KeepPrevious: true}); !errors.Is(err, problem.ErrNoPreviousSecret) || !works(old) {
		t.Errorf("without a previous secret: %v; the current one works: %t", err, works(old))
	}
	leaked, err := rotate(Rotation{Overlap: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []Rotation{{KeepPrevious: true, Overlap: time.Hour}, {KeepPrevious: true, EndPrevious: true}} {
		if _, err := rotate(r); !errors.Is(err, ErrInvalid) || problem.IssuesOf(err)[0].Path != "keepPrevious" {
			t.Errorf("%+v: %v", r, err)
		}
	}
	clk.Advance(time.Minute)
	fresh, err := rotate(Rotation{KeepPrevious: true})
	if err != nil || !works(old) || works(leaked) || !works(fresh) {
		t.Errorf("%v; old works: %t, leaked: %t, new: %t", err, works(old), works(leaked), works(fresh))
	}
	clk.Advance(59 * time.Minute)
	if works(old) || !works(fresh) {
		t.Errorf("after the overlap: old works: %t, new: %t", works(old), works(fresh))
	}
	if _, err := rotate(Rotation{KeepPrevious: true}); !errors.Is(err, problem.ErrNoPreviousSecret) || !works(fresh) {
		t.Errorf("after the overlap: %v; the current one works: %t", err, works(fresh))
	}
}

// Whatever the order of rotations, a secret to keep is kept: the current one is replaced immediately only beside
// another.
func TestReplacingAtOnceNeverEndsTheOnlySecret(t *testing.T) {
	t.Parallel()
	db, s := dbtest.New(t), New()
	for range 10 {
		a, old := create(t, db, demo)
		var all sync.WaitGroup
		for i := range 6 {
			r := Rotation{KeepPrevious: true}
			if i == 3 {
				r = Rotation{Overlap: time.Hour}
			}
			all.Go(func() {
				err := db.InTx(t.Context(), func(tx postgres.Tx) error {
					_, _, err := s.RotateSecret(t.Context(), tx, a.ID, r)
					return err
				})
				if err != nil && !errors.Is(err, problem.ErrNoPreviousSecret) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if _, err := s.Authenticate(t.Context(), db.Read(), a.ID, old); err != nil {
			t.Fatalf("the secret that every program has: %v", err)
		}
	}
}

// On the consent page a client would mistake such an application for the service itself.
func TestTheServicesOwnNameIsNoApplications(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"Allô Droit": false, "allo droit": false, "ALLÔ-DROIT": false, "Allô Droit CRM": true,
	} {
		n := NewApplication{Name: name, RedirectURIs: []string{"https://crm.example/back"}}
		if _, err := checked(n, "", "Allô Droit"); (err == nil) != want {
			t.Errorf("%q: %v", name, err)
		}
		if _, err := checked(n, name, "Allô Droit"); err != nil {
			t.Errorf("%q, which the application has already: %v", name, err)
		}
	}
}
