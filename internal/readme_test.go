package internal

import (
	"flag"
	"fmt"
	"go/ast"
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

const begin, end = "<!-- operations: written by readme_test.go -->\n", "<!-- end -->"

// TestTheMapOfTheRoomsIsRight keeps the table operation → handler → services in README.md what the code says. After a
// change: go test ./internal -run TheMap -update.
func TestTheMapOfTheRoomsIsRight(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	i, j := strings.Index(text, begin), strings.Index(text, end)
	if i < 0 || j < i {
		t.Fatal("README.md has no place for the table")
	}
	want := text[:i+len(begin)] + operations(t) + text[j:]
	if *update {
		if err := os.WriteFile("README.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if text != want {
		t.Error("the table of operations is out of date; run this test with -update")
	}
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
				lines = append(lines, fmt.Sprintf("| %s %s | %s | %s |\n", strings.ToUpper(method), path, h.place, strings.Join(h.calls, ", ")))
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

// instead is where a handler that is not named after its operation is registered.
var instead = regexp.MustCompile(`"(\w+)":\s+{instead\(s\.(\w+)\)}`)

var serviceCall = regexp.MustCompile(`^[sp]\.deps\.([A-Z]\w+)\.(\w+)$`)

// calls finds the handlers by their operation, with the service methods that each calls.
func calls(t *testing.T) map[string]handler {
	t.Helper()
	files, err := filepath.Glob("httpapi/*.go")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]handler{"authorize": {place: "web/consent.go Authorize"}}
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
	server, err := os.ReadFile("httpapi/server.go")
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
