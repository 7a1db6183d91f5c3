package operator

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Every method of the service is an action that records who did it and why, or is listed here.
func TestEveryActIsRecorded(t *testing.T) {
	t.Parallel()
	others := map[string]string{
		"KnownClient": "reads", "Client": "reads", "LawyerDuty": "reads", "LinkHistory": "reads", "Operators": "reads",
		"Case": "reads", "Person": "reads", "OpenFor": "reads", "Proposals": "reads", "ProposalsFor": "reads",
		"ProposalsOf": "reads", "Proposal": "reads", "AdjustWallet": "wallet.Correct records it",
		"ReinvitePerson": "reinvite records it", "RecoverPerson": "reinvite records it",
		"RefundTopUps": "payment.Refund records it",
	}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	acts := 0
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || !f.Name.IsExported() || receiver(f) != "Service" {
				continue
			}
			if others[f.Name.Name] != "" {
				delete(others, f.Name.Name)
				continue
			}
			acts++
			records := false
			ast.Inspect(f.Body, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if s, ok := call.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Record" {
					by, ok := s.X.(*ast.Ident)
					records = records || ok && by.Name == "by"
				}
				return true
			})
			if !records {
				t.Errorf("%s leaves no entry in the audit", f.Name.Name)
			}
		}
	}
	if acts == 0 || len(others) > 0 {
		t.Errorf("%d acts; there is no %v", acts, others)
	}
}

func receiver(f *ast.FuncDecl) string {
	if pointer, ok := f.Recv.List[0].Type.(*ast.StarExpr); ok {
		if name, ok := pointer.X.(*ast.Ident); ok {
			return name.Name
		}
	}
	return ""
}
