package internal

import (
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"partnerd/openapi"
)

var update = flag.Bool("update", false, "write the tables of README.md, and statements.md")

// written are the generated parts of README.md, by the mark before each.
var written = map[string]func(*testing.T) string{
	"<!-- packages: written by readme_test.go -->\n":   rooms,
	"<!-- operations: written by readme_test.go -->\n": operations,
}

// TestTheMapOfTheRoomsIsRight keeps two tables of README.md up to date: what each package is, and operation → handler →
// services. After a change: go test ./internal -run TheMap -update.
func TestTheMapOfTheRoomsIsRight(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	want := string(raw)
	for mark, write := range written {
		i := strings.Index(want, mark)
		length := strings.Index(want[max(i, 0):], "<!-- end -->")
		if i < 0 || length < 0 {
			t.Fatalf("README.md has no place for %s", mark)
		}
		want = want[:i+len(mark)] + write(t) + want[i+length:]
	}
	if *update {
		if err := os.WriteFile("README.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(raw) != want {
		t.Error("README.md is out of date; run this test with -update")
	}
}

// rooms lists the packages layer by layer, from the top, each with the first sentence of its documentation.
func rooms(t *testing.T) string {
	t.Helper()
	lines := make([][]string, len(storeys))
	for _, p := range packages(t) {
		pkg, inHere := strings.CutPrefix(p.ImportPath, module+"internal/")
		said := ""
		for _, file := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil,
				parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if f.Doc != nil {
				said = new(doc.Package).Synopsis(f.Doc.Text())
			}
		}
		if !inHere || len(p.GoFiles) == 0 {
			continue
		}
		if said == "" {
			t.Errorf("%s has no documentation", pkg)
		}
		height, _ := storeyOf(strings.TrimPrefix(p.ImportPath, module))
		said = strings.TrimPrefix(strings.TrimPrefix(said, "Package "), "Command ")
		_, said, _ = strings.Cut(said, " ")
		lines[height] = append(lines[height], fmt.Sprintf("| `%s` | %s |\n", pkg, said))
	}
	var b strings.Builder
	b.WriteString("| package | what it is |\n|---|---|\n")
	for _, storey := range slices.Backward(lines) {
		b.WriteString(strings.Join(storey, ""))
	}
	return b.String()
}

func operations(t *testing.T) string {
	t.Helper()
	handlers := calls(t)
	var lines []string
	for _, source := range [][]byte{openapi.Partner, openapi.Platform, openapi.Desk, openapi.Sandbox} {
		var doc struct {
			Paths map[string]map[string]struct {
				OperationID string `yaml:"operationId"`
			}
		}
		if err := yaml.Unmarshal(source, &doc); err != nil {
			t.Fatal(err)
		}
		for path, item := range doc.Paths {
			for method, op := range item {
				h := handlers[strings.ToLower(op.OperationID)]
				if h.place == "" {
					t.Errorf("no handler for %s", op.OperationID)
				}
				lines = append(lines, fmt.Sprintf("| %s %s | %s | %s |\n", strings.ToUpper(method), path, h.place,
					strings.Join(h.calls, ", ")))
			}
		}
	}
	slices.Sort(lines)
	return "| operation | handler | services |\n|---|---|---|\n" + strings.Join(lines, "")
}

type handler struct {
	place string
	calls []string
}

// instead matches the registration of a handler that is not named after its operation.
var instead = regexp.MustCompile(`"(\w+)":\s+{instead\(s\.(\w+)\)}`)

var serviceCall = regexp.MustCompile(`^[sp]\.deps\.([A-Z]\w+)\.(\w+)$`)

// calls returns the handlers by operation, with the service methods that each calls.
func calls(t *testing.T) map[string]handler {
	t.Helper()
	files, err := filepath.Glob("server/httpapi/*.go")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]handler{"authorize": {place: "server/web/clients/consent.go Authorize"}}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv == nil || strings.HasSuffix(file, "_test.go") {
				continue
			}
			h := handler{place: file + " " + fn.Name.Name}
			ast.Inspect(fn, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if m := serviceCall.FindStringSubmatch(path(s)); m != nil && m[1] != "DB" && m[1] != "Logger" {
						h.calls = append(h.calls, m[1]+"."+m[2])
					}
				}
				return true
			})
			if key := strings.ToLower(fn.Name.Name); len(h.calls) > 0 && out[key].place == "" {
				out[key] = h
			}
		}
	}
	server, err := os.ReadFile("server/httpapi/server.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range instead.FindAllStringSubmatch(string(server), -1) {
		out[strings.ToLower(m[1])] = out[strings.ToLower(m[2])]
	}
	return out
}

func path(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return path(e.X) + "." + e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}
