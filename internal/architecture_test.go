// Package internal holds only tests of the whole repository: its architecture, its documents and its tables.
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

// storeys are the layers of the code, bottom first. A package may import from its own layer and those below it. Within
// a layer, Go itself forbids cycles. [inside] orders the one layer that needs more.
var storeys = [][]string{
	{"migrations", "openapi"},
	{"internal/base"},
	{"gen"},
	{"cmd/democrm"}, // knows what every partner knows: the published contract
	{"internal/infra"},
	{"internal/domain"},
	{"internal/server"},
	{"internal/server/web"},
	{"internal/app/config"}, // services are given values, not the configuration
	{"internal/app/doctor"},
	{"internal/app"},
	{"cmd/partnerd", "cmd/partnerctl"},
	{"internal/dev", "cmd/bench", "cmd/simulate"},
	{"internal"},
}

// inside orders the domains and the pages. A package imports only those of the lines above its own.
var inside = map[string][]string{"internal/domain": {
	"account application catalog lawyer note staff telephony wallet",
	"webhook",
	"matching oauth payment portal telephony/twilio telephony/twilio/twiliotest telephony/twilio/twiliotest/standin",
	"consultation",
	"books conformance desk operator privacy report status",
	"restore",
	"sandbox",
}, "internal/server/web": {
	"forms",
	"shell",
	"signin",
	"clients developers lawyers operators public",
	".", // combines the others
}}

// allowed are imports beside or against that order, with the reason. Tests may import internal/dev/dbtest anywhere.
var allowed = map[string]string{
	"internal/domain/telephony/twilio/twiliotest/standin internal/domain/telephony/twilio/twiliotest": "the stand-in for tests, as a program",

	"internal/domain/payment test internal/domain/books":      "its tests end with a ledger check",
	"internal/domain/consultation test internal/domain/books": "its tests end with a ledger check",
	"internal/domain/privacy test internal/domain/books":      "its tests end with a ledger check",
}

// storeyOf returns the index of a package's layer in [storeys] and its folder there, or -1.
func storeyOf(pkg string) (height int, folder string) {
	height = -1
	for i, folders := range storeys {
		for _, f := range folders {
			if (pkg == f || strings.HasPrefix(pkg, f+"/")) && len(f) > len(folder) {
				height, folder = i, f
			}
		}
	}
	return height, folder
}

// lineOf returns the line of a package in [inside], or -1.
func lineOf(folder, pkg string) int {
	name, err := filepath.Rel(folder, pkg)
	return slices.IndexFunc(inside[folder], func(line string) bool {
		return err == nil && slices.Contains(strings.Fields(line), name)
	})
}

// mayImport reports whether one of our packages may import another.
func mayImport(from, to string) bool {
	own, folder := storeyOf(from)
	other, below := storeyOf(to)
	if own != other || folder != below || inside[folder] == nil {
		return other <= own
	}
	return lineOf(folder, to) < lineOf(folder, from)
}

// fence restricts a dependency to the few places that may know it.
var fence = []struct{ dependency, places, reason string }{
	{"gorm.io/", "internal/infra/postgres internal/infra/postgres/pipeline internal/dev/dbtest store.go",
		"the domain does not know how rows are stored"},
	{"github.com/labstack/echo", "internal/server/httpapi internal/server/web/ internal/app gen/partner/server " +
		"gen/platform/server gen/desk/server gen/sandbox/server", "the domain does not know HTTP"},
	{module + "gen/", "internal/server/httpapi cmd/democrm cmd/democrm/crm cmd/democrm/office gen/partner/server " +
		"gen/partner/client gen/platform/server gen/desk/server gen/sandbox/server", "wire types end at the edge"},
	{"github.com/lestrrat-go/jwx", "internal/domain/oauth", "an upgrade to its next version must take an hour"},
	{"github.com/go-oauth2", "internal/domain/oauth", "the policy is ours, the library is replaceable"},
	{"github.com/tink-crypto", "internal/base/seal", "one way to encrypt"},
	{"filippo.io/age", "internal/domain/note internal/dev/e2e/opencopy",
		"lawyers open the file with their own tools"},
	{"github.com/go-webauthn", "internal/infra/passkey", "one way to speak WebAuthn"},
	{"github.com/pquerna/otp", "internal/domain/staff", "one domain knows authenticator codes"},
	{"github.com/twilio/", "internal/domain/telephony/twilio", "a provider must be replaceable"},
	{module + "internal/domain/telephony/", "internal/app internal/domain/telephony/twilio/twiliotest/standin",
		"a provider is chosen by name in one place"},
	{"github.com/valkey-io/", "internal/infra/ratelimit", "one package knows where processes share counts"},
	{"github.com/stripe/", "internal/domain/payment", "a provider must be replaceable"},
	{"go.opentelemetry.io/", "internal/base/telemetry internal/base/telemetry/telemetrytest internal/infra/postgres",
		"one package knows what is exported; postgres passes it to the library that traces statements"},
	{"github.com/exaring/otelpgx", "internal/infra/postgres", "one way to the database"},
	{"github.com/riverqueue", "internal/infra/queue internal/infra/postgres", "the queue's engine is replaceable"},
	{"github.com/jackc/pgx",
		"internal/infra/postgres internal/infra/postgres/pipeline internal/infra/cluster internal/dev/dbtest " +
			"internal/infra/queue internal/dev/bench internal/dev/simulate", "one way to the database"},
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

// TestImportsFollowTheArchitecture checks the direction of imports, file by file, and that every exception is still in
// use.
func TestImportsFollowTheArchitecture(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, p := range packages(t) {
		from := strings.TrimPrefix(p.ImportPath, module)
		height, folder := storeyOf(from)
		if height < 0 || inside[folder] != nil && lineOf(folder, from) < 0 {
			t.Errorf("%s has no place in the architecture", from)
			continue
		}
		used[folder], used[from] = true, true
		for i, file := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			test := i >= len(p.GoFiles)
			for _, dep := range imports(t, filepath.Join(p.Dir, file)) {
				checkFence(t, used, from, file, dep, test)
				to, ours := strings.CutPrefix(dep, module)
				if !ours || test && (to == from || to == "internal/dev/dbtest") || mayImport(from, to) {
					continue
				}
				arrow := from + " " + to
				if test {
					arrow = from + " test " + to
				}
				if used[arrow] = true; allowed[arrow] == "" {
					t.Errorf("%s/%s imports %s: imports go down, see storeys and inside (%q is not allowed)",
						from, file, to, arrow)
				}
			}
		}
	}
	for _, folder := range slices.Concat(storeys...) {
		if !used[folder] {
			t.Errorf("%s is a layer and does not exist", folder)
		}
	}
	for folder, lines := range inside {
		for _, pkg := range strings.Fields(strings.Join(lines, " ")) {
			if !used[filepath.Join(folder, pkg)] {
				t.Errorf("%s/%s has a place and does not exist", folder, pkg)
			}
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

// checkFence lets tests import what the program restricts to few places, because they check what no other code may see.
func checkFence(t *testing.T, used map[string]bool, from, file, dependency string, test bool) {
	t.Helper()
	for _, f := range fence {
		if test || !strings.HasPrefix(dependency, f.dependency) {
			continue
		}
		place, places := from, strings.Fields(f.places)
		if i := slices.IndexFunc(places, func(p string) bool {
			return strings.HasSuffix(p, "/") && strings.HasPrefix(from+"/", p)
		}); i >= 0 {
			place = places[i] // a folder
		}
		if !slices.Contains(places, from) && (file == "store.go" || strings.HasSuffix(file, "_store.go")) {
			place = "store.go"
		}
		if used[f.dependency+" "+place] = true; !slices.Contains(places, place) {
			t.Errorf("%s/%s imports %s: %s (allowed in %s)", from, file, dependency, f.reason, f.places)
		}
	}
}

// TestTheClockTheEnvironmentAndTheLoggerComeFromOnePlace finds code outside the designated places that reads the clock
// or the environment, or uses the global logger. A service is given its clock, its settings and its logger.
func TestTheClockTheEnvironmentAndTheLoggerComeFromOnePlace(t *testing.T) {
	t.Parallel()
	places := map[string][]string{
		"time.Now": {"internal/base/clock", "cmd/partnerd", "cmd/partnerctl", "cmd/democrm", "cmd/democrm/crm",
			"cmd/democrm/office", "cmd/bench", "internal/dev/bench", "internal/dev/dbtest", "internal/dev/e2e/faults"},
		"time.Since": {"internal/base/clock", "cmd/partnerd", "cmd/partnerctl", "cmd/democrm", "cmd/democrm/crm",
			"cmd/democrm/office", "cmd/bench", "internal/dev/bench", "internal/dev/dbtest", "internal/dev/e2e/faults"},
		"os.Getenv": {"internal/app", "internal/app/config", "cmd/partnerd", "cmd/partnerctl",
			"internal/dev/dbtest"},
		"os.LookupEnv": {"internal/app", "internal/app/config", "cmd/partnerd", "cmd/partnerctl",
			"internal/dev/dbtest"},
		"slog.Default": nil,
		// Only tests may do this. The password hash stored by a command also shows that the program does not.
		"password.Cheap": {"internal/dev/dbtest"},
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
