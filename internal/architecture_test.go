// Package internal holds nothing but the test of the architecture.
package internal

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "partnerd/"

// level orders our packages: a package imports only packages of a lower level, and those named in allowed.
var level = map[string]int{
	"migrations": 0, "openapi": 0, "openapi/webhooks": 0, "internal/clock": 0,
	"gen/partner/models": 1, "gen/partner/server": 1, "gen/partner/client": 1,
	"gen/platform/models": 1, "gen/platform/server": 1,
	"gen/desk/models": 1, "gen/desk/server": 1,
	"gen/sandbox/models": 1, "gen/sandbox/server": 1,

	"internal/problem": 1, "internal/money": 1, "internal/id": 1, "internal/seal": 1, "internal/password": 1,
	"internal/mail": 4, "internal/sms": 4, "internal/text": 0, "internal/telemetry": 1, "internal/telemetry/telemetrytest": 2, "internal/poll": 1, "internal/passkey": 4,
	"internal/picture":       1,
	"internal/seal/sealtest": 2, "internal/postgres": 2, "internal/cluster": 2, "internal/queue": 3, "internal/dbtest": 3, "internal/dbtest/stop": 4,

	"internal/account": 5, "internal/application": 5, "internal/catalog": 5, "internal/wallet": 5, "internal/webhook": 5, "internal/idempotency": 5,
	"internal/ratelimit": 5, "internal/ratelimit/valkeytest": 1, "internal/edge": 5, "internal/manual": 5, "internal/access": 5, "internal/requestlog": 5, "internal/lawyer": 5, "internal/staff": 5, "internal/note": 5, "internal/telephony": 5, "internal/audit": 4, "internal/deployment": 4,
	"internal/reseal":  3, // rooms list what they seal
	"internal/vault":   4, // several domains seal with a client's key
	"internal/portal":  6,
	"internal/payment": 6, "internal/oauth": 6, "internal/matching": 6, "internal/telephony/twilio": 6, "internal/telephony/twilio/twiliotest": 1,
	"internal/telephony/twilio/twiliotest/standin": 2,
	"internal/consultation":                        7,
	"internal/books":                               8, // compares what wallet, payment and consultation keep
	"internal/privacy":                             8,
	"internal/report":                              8,
	"internal/conformance":                         8,
	"internal/status":                              8,
	"internal/operator":                            8,
	"internal/desk":                                8,
	"internal/restore":                             9, // a part of each domain, and erasures
	"internal/httpapi":                             9, "internal/web": 9, "internal/sandbox": 8,
	"internal/app":          10,
	"cmd/democrm/crm":       2,
	"cmd/democrm/office":    3,
	"cmd/partnerd":          11,
	"cmd/partnerctl":        11,
	"cmd/democrm":           11,
	"internal/bench":        11,
	"internal/simulate":     9, // it plays people, as the edges serve them
	"cmd/bench":             12,
	"cmd/simulate":          12,
	"internal/e2e":          13,
	"internal/supply":       13,
	"internal/e2e/opencopy": 13,
	"internal/e2e/process":  13,
	"internal/e2e/faults":   8, // compares what was seen with the table of states
	"internal":              13,
}

// allowed are imports inside one level, and those of tests ("package test other") inside or above it, with the reason.
// Everything else is forbidden.
var allowed = map[string]string{
	"gen/partner/server gen/partner/models":   "generated together",
	"gen/partner/client gen/partner/models":   "generated together",
	"gen/platform/server gen/platform/models": "generated together",
	"gen/desk/server gen/desk/models":         "generated together",
	"gen/sandbox/server gen/sandbox/models":   "generated together",

	"internal/webhook internal/wallet": "a test event shows the price",

	"internal/payment test internal/books":      "its tests end with an examination of the books",
	"internal/consultation test internal/books": "its tests end with an examination of the books",
	"internal/privacy test internal/books":      "its tests end with an examination of the books",
	"internal/sandbox test internal/books":      "its tests end with an examination of the books",

	"internal/cluster test internal/postgres":                  "an old folder has tables, which change hands",
	"internal/postgres test internal/dbtest":                   "test databases are made with it",
	"internal/reseal test internal/dbtest":                     "what is sealed is in a database",
	"internal/telemetry test internal/telemetry/telemetrytest": "it looks at what was recorded",
	"internal/queue test internal/dbtest":                      "the queue needs a database",
}

// fence keeps a dependency in the few places that may know it.
var fence = []struct{ dependency, places, reason string }{
	{"gorm.io/", "internal/postgres internal/dbtest store.go", "the domain does not know how rows are kept"},
	{"github.com/labstack/echo", "internal/httpapi internal/web internal/app gen/partner/server gen/platform/server gen/desk/server gen/sandbox/server", "the domain does not know HTTP"},
	{module + "gen/", "internal/httpapi cmd/democrm cmd/democrm/crm cmd/democrm/office gen/partner/server gen/partner/client gen/platform/server gen/desk/server gen/sandbox/server", "wire types end at the edge"},
	{"github.com/lestrrat-go/jwx", "internal/oauth", "moving to its next version must cost an hour"},
	{"github.com/go-oauth2", "internal/oauth", "the policy is ours, the library is a part"},
	{"github.com/tink-crypto", "internal/seal", "one way to encrypt"},
	{"filippo.io/age", "internal/note internal/e2e/opencopy", "a file that a lawyer opens with tools of his own"},
	{"github.com/go-webauthn", "internal/passkey", "one way to speak WebAuthn"},
	{"github.com/pquerna/otp", "internal/staff", "one domain knows codes of devices"},
	{"github.com/twilio/", "internal/telephony/twilio", "a provider is a part that can be changed"},
	{module + "internal/telephony/", "internal/app internal/telephony/twilio/twiliotest/standin", "a provider is chosen by name in one place"},
	{"github.com/valkey-io/", "internal/ratelimit", "one room knows where processes count together"},
	{"github.com/stripe/", "internal/payment", "a provider is a part that can be changed"},
	{"go.opentelemetry.io/", "internal/telemetry internal/telemetry/telemetrytest internal/postgres", "one room knows what leaves; postgres hands it to the library that traces statements"},
	{"github.com/exaring/otelpgx", "internal/postgres", "one door to the database"},
	{"github.com/riverqueue", "internal/queue internal/postgres", "the engine of the queue is a part"},
	{"github.com/jackc/pgx", "internal/postgres internal/cluster internal/dbtest internal/queue internal/bench internal/simulate", "one door to the database"},
}

type listed struct {
	ImportPath, Dir                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

func packages(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles", module+"...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []listed
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("read go list: %v", err)
		}
		all = append(all, p)
	}
}

// TestImportsFollowTheArchitecture proves the direction of imports, file by file, and that no exception outlives its use.
func TestImportsFollowTheArchitecture(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, p := range packages(t) {
		from := strings.TrimPrefix(p.ImportPath, module)
		own, known := level[from]
		if !known {
			t.Errorf("%s has no place in the architecture: give it a level", from)
			continue
		}
		used[from] = true
		for i, file := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			test := i >= len(p.GoFiles)
			for _, dep := range imports(t, filepath.Join(p.Dir, file)) {
				checkFence(t, used, from, file, dep, test)
				to, ours := strings.CutPrefix(dep, module)
				if !ours || test && to == from {
					continue
				}
				arrow := from + " " + to
				if test {
					arrow = from + " test " + to
				}
				if l, ok := level[to]; ok && (l < own || allowed[arrow] != "") {
					used[arrow] = l >= own || used[arrow]
					continue
				}
				t.Errorf("%s/%s imports %s: imports go down, cmd → app → edges → domains → foundation (%q is not allowed)", from, file, to, arrow)
			}
		}
	}
	for from := range level {
		if !used[from] {
			t.Errorf("%s has a level and does not exist", from)
		}
	}
	for arrow := range allowed {
		if !used[arrow] {
			t.Errorf("%q is allowed and does not occur", arrow)
		}
	}
	for _, f := range fence {
		for _, place := range strings.Fields(f.places) {
			if !used[f.dependency+" "+place] {
				t.Errorf("%s may import %s and does not", place, f.dependency)
			}
		}
	}
}

// checkFence lets tests import what the program keeps in few places: they look at what nobody else may see.
func checkFence(t *testing.T, used map[string]bool, from, file, dependency string, test bool) {
	t.Helper()
	for _, f := range fence {
		if test || !strings.HasPrefix(dependency, f.dependency) {
			continue
		}
		place, places := from, strings.Fields(f.places)
		if !slices.Contains(places, from) && (file == "store.go" || strings.HasSuffix(file, "_store.go")) {
			place = "store.go"
		}
		if used[f.dependency+" "+place] = true; !slices.Contains(places, place) {
			t.Errorf("%s/%s imports %s: %s (allowed in %s)", from, file, dependency, f.reason, f.places)
		}
	}
}

// TestTheClockTheEnvironmentAndTheLoggerComeFromOnePlace finds what reads the clock or the environment, or takes the
// global logger, outside of the places for it. A service is given its clock, its settings and its logger.
func TestTheClockTheEnvironmentAndTheLoggerComeFromOnePlace(t *testing.T) {
	t.Parallel()
	places := map[string][]string{
		"time.Now":     {"internal/clock", "cmd/partnerd", "cmd/partnerctl", "cmd/democrm", "cmd/democrm/crm", "cmd/democrm/office", "cmd/bench", "internal/bench", "internal/dbtest", "internal/e2e/faults"},
		"time.Since":   {"internal/clock", "cmd/partnerd", "cmd/partnerctl", "cmd/democrm", "cmd/democrm/crm", "cmd/democrm/office", "cmd/bench", "internal/bench", "internal/dbtest", "internal/e2e/faults"},
		"os.Getenv":    {"internal/app", "cmd/partnerd", "cmd/partnerctl", "internal/dbtest"},
		"os.LookupEnv": {"internal/app", "cmd/partnerd", "cmd/partnerctl", "internal/dbtest"},
		"slog.Default": nil,
	}
	for _, level := range []string{"Debug", "Info", "Warn", "Error"} {
		places["slog."+level], places["slog."+level+"Context"] = nil, nil
	}
	for _, p := range packages(t) {
		from := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasPrefix(from, "gen/") {
			continue
		}
		for _, file := range p.GoFiles {
			for _, call := range selectors(t, filepath.Join(p.Dir, file)) {
				if where, ok := places[call]; ok && !slices.Contains(where, from) {
					t.Errorf("%s/%s uses %s, which belongs in %v", from, file, call, where)
				}
			}
		}
	}
}

// throughThePortal are what package httpapi asks the services of an application for by itself; everything else it asks of package
// portal, which leaves an audit entry and tells the application's people.
var throughThePortal = map[string]string{
	"Applications.Authenticate": "it tells who calls",
	"Webhooks.Endpoint":         "it reads",
	"Webhooks.Events":           "it reads",
	"Webhooks.Event":            "it reads",
	"Webhooks.Deliveries":       "it reads",
	"Webhooks.Delivery":         "it reads",
	"Webhooks.Attempts":         "it reads",
	"Webhooks.CheckSignature":   "it reads the secret to compare",
}

// TestAnApplicationChangesThroughThePortal finds what the APIs would change of an application past its audit and its people's mail.
func TestAnApplicationChangesThroughThePortal(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, p := range packages(t) {
		if p.ImportPath != module+"internal/httpapi" {
			continue
		}
		for _, file := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			named := map[*ast.SelectorExpr]string{} // what is asked of a service, by the service
			ast.Inspect(f, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if service, ok := s.X.(*ast.SelectorExpr); ok {
					named[service] = service.Sel.Name + "." + s.Sel.Name
				}
				if s.Sel.Name != "Webhooks" && s.Sel.Name != "Applications" {
					return true
				}
				call := named[s]
				if used[call] = true; throughThePortal[call] == "" {
					t.Errorf("internal/httpapi/%s uses %s (%q): go through package portal, or say why not", file, s.Sel.Name, call)
				}
				return true
			})
		}
	}
	for call := range throughThePortal {
		if !used[call] {
			t.Errorf("%s is allowed and does not occur", call)
		}
	}
}

func imports(t *testing.T, path string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, i := range f.Imports {
		out = append(out, strings.Trim(i.Path.Value, `"`))
	}
	return out
}

func selectors(t *testing.T, path string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Obj == nil {
				out = append(out, x.Name+"."+s.Sel.Name)
			}
		}
		return true
	})
	return out
}
