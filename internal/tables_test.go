package internal

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// foreign names the tables that a package reads, or writes ("package > table"), although another package owns them,
// with the reason. Any other access is forbidden; call the owner instead.
var foreign = map[string]string{
	"internal/infra/access clients":        "a use is counted for clients who are not erased, under their lock",
	"internal/infra/vault clients":         "a key is created for a client who is not erased, under their lock",
	"internal/domain/oauth clients":        "a token is checked in one statement",
	"internal/domain/oauth applications":   "a token is checked in one statement",
	"internal/domain/webhook applications": "deliveries of a suspended application are held",

	"internal/domain/lawyer competences": "pairs consist of listed codes",
	"internal/domain/lawyer languages":   "pairs consist of listed codes",

	"internal/domain/matching lawyers":         "the search selects, offers and marks in one statement",
	"internal/domain/matching > lawyers":       "the search selects, offers and marks in one statement",
	"internal/domain/matching lawyer_pairs":    "the search selects, offers and marks in one statement",
	"internal/domain/matching > lawyer_pairs":  "the search selects, offers and marks in one statement",
	"internal/domain/matching lawyer_presence": "presence is part of the search",
	"internal/domain/matching lawyer_hours":    "lawyers who may be woken are selected and marked in one statement",
	"internal/domain/matching consultations":   "a lawyer with a consultation is not offered another",

	"internal/domain/consultation offers": "a consultation waits if it has no open offer",
	"internal/domain/consultation languages": "if a pair has too little data, an estimate uses its " +
		"competence in all languages",
	"internal/domain/consultation lawyer_pairs": "work for a lawyer is found by their pairs",
	"internal/domain/consultation calls":        "an orphaned call is found by its lost consultation",
	"internal/domain/consultation holds":        "a lawyer's earnings come from settled holds",
	"internal/domain/sandbox topup_sessions":    "an application's payments are backdated when its clock advances",
	"internal/domain/note consultations":        "a note is encrypted with the key of the consultation's client",

	"internal/domain/books consultation_evidence": "the ledger check compares",
	"internal/domain/books consultations":         "the ledger check compares",
	"internal/domain/books evidence_chain":        "the ledger check compares",
	"internal/domain/books holds":                 "the ledger check compares",
	"internal/domain/books ledger_transactions":   "the ledger check compares",
	"internal/domain/books topup_refunds":         "the ledger check compares",
	"internal/domain/books topup_sessions":        "the ledger check compares",

	"internal/domain/report consultations": "reports combine the data of other packages",
	"internal/domain/report lawyer_pairs":  "reports combine the data of other packages",
	"internal/domain/report lawyer_shifts": "reports combine the data of other packages",
	"internal/domain/report offers":        "reports combine the data of other packages",

	"internal/domain/status consultations":      "a day is aggregated from the data of other packages",
	"internal/domain/status webhook_deliveries": "a day is aggregated from the data of other packages",
	"internal/domain/status webhook_attempts":   "a day is aggregated from the data of other packages",

	"internal/infra/deployment applications": "a database of an earlier release is recognised by its content",
	"internal/infra/deployment clients":      "a database of an earlier release is recognised by its content",
	"internal/infra/deployment lawyers":      "a database of an earlier release is recognised by its content",

	"internal/domain/sandbox offers":        "one query finds the next step of every simulated lawyer",
	"internal/domain/staff lawyers":         "one query checks a session and its lawyer's work, and locks both",
	"internal/domain/sandbox lawyers":       "one query finds the next step of every simulated lawyer",
	"internal/domain/sandbox consultations": "one query finds the next step of every simulated lawyer",
	"internal/domain/sandbox clients":       "one query lists test clients",
	"internal/domain/sandbox calls":         "one query finds the next step of every simulated lawyer",
}

// source is a file of a package.
type source struct {
	pkg, name string // "internal/domain/wallet", "store.go"
	*ast.File
	set  *token.FileSet
	test bool
}

func (s source) store() bool { return s.name == "store.go" || strings.HasSuffix(s.name, "_store.go") }

func (s source) at(n ast.Node) string {
	return fmt.Sprintf("%s/%s:%d", s.pkg, s.name, s.set.Position(n.Pos()).Line)
}

// sources parses every file of the domains and edges, except generated code, benchmarks and test support.
func sources(t *testing.T) (list []source) {
	t.Helper()
	for _, p := range packages(t) {
		pkg := strings.TrimPrefix(p.ImportPath, module)
		if !strings.HasPrefix(pkg, "internal/") ||
			slices.Contains([]string{"internal/dev/bench", "internal/dev/simulate", "internal/dev/dbtest",
				"internal/infra/postgres", "internal/infra/postgres/pipeline", "internal/infra/cluster"}, pkg) {
			continue
		}
		for i, files := range [][]string{p.GoFiles, p.TestGoFiles, p.XTestGoFiles} {
			for _, name := range files {
				set := token.NewFileSet()
				f, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.ParseComments)
				if err != nil {
					t.Fatal(err)
				}
				list = append(list, source{pkg, name, f, set, i > 0})
			}
		}
	}
	return list
}

// tables reads the names of the schema's tables.
func tables(t *testing.T) map[string]bool {
	t.Helper()
	schema, err := os.ReadFile("../migrations/schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^CREATE TABLE ([a-z_.]+) `).FindAllStringSubmatch(string(schema), -1) {
		if m[1] != "goose_db_version" {
			all[m[1]] = true
		}
	}
	return all
}

// owners finds the model of each table, and with it the package that owns the table.
func owners(t *testing.T, files []source) map[string]string {
	t.Helper()
	of, checked := map[string]string{}, map[string]bool{}
	for _, f := range files {
		for _, call := range callsOf(f.File, "Models") {
			for _, model := range call.Args[min(1, len(call.Args)):] {
				if lit, ok := model.(*ast.CompositeLit); ok {
					checked[f.pkg+" "+lit.Type.(*ast.Ident).Name] = true
				}
			}
		}
	}
	for _, f := range files {
		for _, d := range f.Decls {
			method, ok := d.(*ast.FuncDecl)
			if !ok || f.test || method.Recv == nil || method.Name.Name != "TableName" {
				continue
			}
			table := text(method.Body.List[0].(*ast.ReturnStmt).Results[0])
			model := method.Recv.List[0].Type.(*ast.Ident).Name
			if other, twice := of[table]; twice {
				t.Errorf("%s: table %s has another model in %s", f.at(d), table, other)
			}
			if !checked[f.pkg+" "+model] {
				t.Errorf("%s: no test gives %s to dbtest.Models", f.at(d), model)
			}
			of[table] = f.pkg
		}
	}
	return of
}

// TestEveryTableHasOneModel checks that each table has one model, so go doc lists its columns. The package that owns
// the table names it in its documentation.
func TestEveryTableHasOneModel(t *testing.T) {
	t.Parallel()
	files, all := sources(t), tables(t)
	of := owners(t, files)
	for table := range all {
		if of[table] == "" {
			t.Errorf("table %s has no model", table)
		}
	}
	owned := map[string][]string{}
	for table, pkg := range of {
		if !all[table] {
			t.Errorf("%s has a model of table %s, which does not exist", pkg, table)
		}
		owned[pkg] = append(owned[pkg], table)
	}
	said := map[string][]string{}
	for _, f := range files {
		if m := regexp.MustCompile(`(?m)^Tables: (.+)\.$`).FindStringSubmatch(f.Doc.Text()); m != nil && !f.test {
			said[f.pkg] = strings.Split(m[1], ", ")
		}
	}
	for pkg, list := range owned {
		if slices.Sort(list); !slices.Equal(list, said[pkg]) {
			t.Errorf("%s/doc.go says \"Tables: %s.\" instead of \"Tables: %s.\"",
				pkg, strings.Join(said[pkg], ", "), strings.Join(list, ", "))
		}
	}
	for pkg := range said {
		if owned[pkg] == nil {
			t.Errorf("%s/doc.go names tables, but has no model of them", pkg)
		}
	}
}

var (
	named   = regexp.MustCompile(`(?i)\b(FROM|JOIN|INTO|UPDATE|LATERAL)\s+(?:ONLY\s+)?([a-z_]+(?:\.[a-z_]+)?)\b`)
	changes = map[string]bool{"INTO": true, "UPDATE": true}
)

// TestPackagesNameTheirOwnTables finds SQL that reads or writes a table of another package.
func TestPackagesNameTheirOwnTables(t *testing.T) {
	t.Parallel()
	files := sources(t)
	of, used := owners(t, files), map[string]bool{}
	look := func(f source, n ast.Node, table string, writes bool) {
		owner, known := of[table]
		if !known || owner == f.pkg {
			return
		}
		arrow := f.pkg + " " + table
		if writes {
			arrow = f.pkg + " > " + table
		}
		if used[arrow] = true; foreign[arrow] == "" {
			t.Errorf("%s: %q: the table is that of %s", f.at(n), arrow, owner)
		}
	}
	for _, f := range files {
		if f.test {
			continue
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				for _, m := range named.FindAllStringSubmatch(text(lit), -1) {
					look(f, n, m[2], changes[strings.ToUpper(m[1])] || strings.Contains(strings.ToUpper(text(lit)),
						"DELETE FROM "+strings.ToUpper(m[2])))
				}
			}
			return true
		})
		for _, call := range callsOf(f.File, "Table") {
			table, _, _ := strings.Cut(text(call.Args[0]), " ")
			look(f, call, table, false)
		}
	}
	for arrow := range foreign {
		if !used[arrow] {
			t.Errorf("%q is allowed and does not occur", arrow)
		}
	}
}

// TestStoresAloneSpeakToTheDatabase finds uses of database handles outside the files that may use them.
func TestStoresAloneSpeakToTheDatabase(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		for _, handle := range []string{"Gorm", "SQL", "Exec", "QueryRow", "Rows", "Query"} {
			for _, call := range callsOf(f.File, handle) {
				if !f.store() && (handle == "Gorm" || len(call.Args) > 1) {
					t.Errorf("%s calls %s: only store files speak to the database", f.at(call), handle)
				}
			}
		}
		for _, call := range slices.Concat(callsOf(f.File, "Raw"), callsOf(f.File, "Exec")) {
			if len(callsOf(call.Fun, "Gorm")) > 0 {
				t.Errorf("%s: SQL is declared by postgres.SQL, with its reason", f.at(call))
			}
		}
		for _, call := range callsOf(f.File, "Pool") {
			if f.pkg != "internal/infra/queue" {
				t.Errorf("%s takes the pool of connections", f.at(call))
			}
		}
	}
}

const statements = "statements.md"

// TestStatementsThatStayText checks the list of SQL that GORM's builder does not generate. After a change: go test
// ./internal -run StatementsThatStayText -update.
func TestStatementsThatStayText(t *testing.T) {
	t.Parallel()
	files := sources(t)
	byReason, total := map[string][]string{}, 0
	makers := map[string]string{} // functions that compile statements, with their reason
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || f.test {
				continue
			}
			for _, call := range callsOf(fn, "SQL") {
				makers[f.pkg+" "+fn.Name.Name] = reasonOf(call)
			}
		}
	}
	used := map[string]bool{}
	for _, f := range files {
		for _, d := range f.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok || group.Tok != token.VAR || f.test {
				continue
			}
			for _, spec := range group.Specs {
				v := spec.(*ast.ValueSpec)
				for i, value := range v.Values {
					var reasons []string
					for _, call := range callsOf(value, "SQL") {
						reasons = append(reasons, reasonOf(call))
					}
					if call, ok := value.(*ast.CallExpr); ok {
						if fn, ok := call.Fun.(*ast.Ident); ok && makers[f.pkg+" "+fn.Name] != "" {
							reasons = append(reasons, makers[f.pkg+" "+fn.Name])
							used[f.pkg+" "+fn.Name] = true
						}
					}
					for _, reason := range reasons {
						byReason[reason] = append(byReason[reason],
							"| "+strings.TrimPrefix(f.pkg, "internal/")+" | `"+v.Names[i].Name+"` |")
						total++
					}
				}
			}
		}
	}
	for maker := range makers {
		if !used[maker] {
			t.Errorf("%s makes a statement when it runs: statements are variables of the package", maker)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# SQL that stays text\n\nWritten by a test (tables_test.go). Everything else is made by GORM's builder from the models. %d statements, by the\nreasons that `internal/infra/postgres/statement.go` explains.\n", total)
	for _, reason := range slices.Sorted(maps.Keys(byReason)) {
		list := byReason[reason]
		slices.Sort(list)
		fmt.Fprintf(&b, "\n## %s: %d\n\n| package | statement |\n|---|---|\n%s\n",
			reason, len(list), strings.Join(list, "\n"))
		t.Logf("%s: %d", reason, len(list))
	}
	t.Logf("statements that stay text: %d", total)
	if *update {
		if err := os.WriteFile(statements, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(statements)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("internal/%s is out of date: run this test with -update and read the difference", statements)
	}
}

// reasonOf returns the first argument of a call of postgres.SQL.
func reasonOf(call *ast.CallExpr) string {
	if len(call.Args) > 0 {
		if reason, ok := call.Args[0].(*ast.SelectorExpr); ok {
			return reason.Sel.Name
		}
	}
	return ""
}

// callsOf finds the calls of functions and methods with a given name.
func callsOf(in ast.Node, name string) (list []*ast.CallExpr) {
	ast.Inspect(in, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		fun := call.Fun
		if generic, ok := fun.(*ast.IndexExpr); ok {
			fun = generic.X
		}
		if s, ok := fun.(*ast.SelectorExpr); ok && s.Sel.Name == name {
			list = append(list, call)
		}
		return true
	})
	return list
}

// text returns the value of a string literal, or "" for anything else.
func text(n ast.Node) string {
	if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		if s, err := strconv.Unquote(lit.Value); err == nil {
			return s
		}
	}
	return ""
}

// TestServicesCloseTheirDependencies finds structs that expose their dependencies to everyone who has the struct.
func TestServicesCloseTheirDependencies(t *testing.T) {
	t.Parallel()
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		ast.Inspect(f.File, func(n ast.Node) bool {
			if s, ok := n.(*ast.StructType); ok {
				for _, field := range s.Fields.List {
					if name, ok := field.Type.(*ast.Ident); ok && len(field.Names) == 0 &&
						strings.HasSuffix(name.Name, "Deps") {
						t.Errorf("%s embeds %s: keep it in a field with a small letter", f.at(field), name.Name)
					}
				}
			}
			return true
		})
	}
}
