package web

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"partnerd/internal/server/web/forms"
)

// unsaid lists errors of the services that no action of operators or partners shows, with the reason.
var unsaid = map[string]string{
	"account.ErrBadCredentials": "a sign-in", "account.ErrBadLink": "a link from an email",
	"account.ErrCountry": "of the client's pages", "account.ErrDisabled": "a sign-in",
	"account.ErrEmailTaken": "of the client's pages, and of commands",
	"account.ErrInvalid":    "of the client's pages, and of commands", "account.ErrNoMobile": "of the client's pages",
	"account.ErrNoSession": "a sign-in", "account.ErrSameEmail": "of the client's pages",
	"account.ErrTooMany": "of the client's pages",

	"application.ErrBadCredentials": "an API", "application.ErrInvalid": "has issues",

	"consultation.ErrForbidden":        "of the lawyers' desk; acts of operators have errors of their own",
	"consultation.ErrNoteNotAvailable": "an API",
	"consultation.ErrNotYours":         "of the lawyers' desk",
	"consultation.ErrOpen":             "an erasure, which is refused before",
	"consultation.ErrPerformed":        "of the client's pages", "consultation.ErrPhoneLost": "of the lawyers' desk",
	"consultation.ErrTooEarly": "of the lawyers' desk",

	"lawyer.ErrInvalid": "has issues", "lawyer.ErrLeaseLost": "of the lawyers' desk",
	"lawyer.ErrNoPhone": "of the lawyers' desk; telling by text message ignores it",
	"lawyer.ErrState":   "of the lawyers' desk", "lawyer.ErrUnchecked": "of the lawyers' desk",
	"lawyer.ErrUnknownCode": "has issues",

	"operator.ErrNoProposal": "a page that is not there", "operator.ErrNoReason": "the form refuses it before",
	"operator.ErrSandbox": "a command",

	"payment.ErrBadNotice": "of the provider", "payment.ErrBadSignature": "of the provider",
	"payment.ErrForeignNotice": "of the provider",
	"payment.ErrRefused":       "of the provider, to a job",
	"payment.ErrRefundAmount":  "all that is unused is returned",
	"payment.ErrSessionClosed": "of the checkout", "payment.ErrUnknownProvider": "of the provider",
	"payment.ErrUnknownTopUp": "all that is unused is returned",

	"portal.ErrBadLink": "a link from an email", "portal.ErrForbidden": "a page that says so",
	"portal.ErrInvalid": "has issues",
	"portal.ErrLive":    "the form is not shown in live",
	"portal.ErrTooMany": "has issues",

	"sandbox.ErrDecided": "of the checkout",

	"staff.ErrBadCredentials": "a sign-in", "staff.ErrBadLink": "a link from an email", "staff.ErrCode": "a sign-in",
	"staff.ErrInvalid": "has issues", "staff.ErrNoSession": "a sign-in",
	"staff.ErrNotFound": "a page that is not there",

	"wallet.ErrAmount": "the operator's amount is refused before", "wallet.ErrFees": "a fault of the program",
	"wallet.ErrHoldEnded": "a fault of the program", "wallet.ErrNotRefundable": "consultation has its own",

	"webhook.ErrSignatureExpired": "of a receiver", "webhook.ErrSignatureMalformed": "of a receiver",
	"webhook.ErrSignatureMismatch": "of a receiver",
}

// Each error that a service returns to an action has a text, or a reason to need none. An error without a text would be
// shown as a failure of the service. A declared problem has its code, unless it means "not found".
func TestEveryErrorOfAnActHasItsWords(t *testing.T) {
	t.Parallel()
	words := map[string]bool{}
	ast.Inspect(parsed(t, "forms/faults.go"), func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && v.Names[0].Name == "Said" {
			ast.Inspect(v, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && strings.HasPrefix(s.Sel.Name, "Err") {
					words[fmt.Sprintf("%s.%s", s.X, s.Sel.Name)] = true
				}
				return true
			})
		}
		return true
	})
	if len(words) != len(forms.Said) {
		t.Fatalf("%d errors with words were found of %d", len(words), len(forms.Said))
	}
	declared, there := 0, map[string]bool{}
	for _, service := range []string{"account", "application", "consultation", "lawyer", "operator", "payment",
		"portal", "sandbox", "staff", "wallet", "webhook"} {
		for name, code := range errorsOf(t, service) {
			there[name] = true
			switch {
			case code:
				declared++
			case words[name] == (unsaid[name] != ""):
				t.Errorf("%s has words: %t, and a reason to need none: %q", name, words[name], unsaid[name])
			}
		}
	}
	for name := range unsaid {
		if !there[name] {
			t.Errorf("%s is no error", name)
		}
	}
	if declared == 0 {
		t.Error("no declared problem was found")
	}
}

// errorsOf returns the exported errors of a package, and whether [forms.FaultsOf] finds the text by their code.
func errorsOf(t *testing.T, service string) map[string]bool {
	files, err := filepath.Glob(filepath.Join("../../domain", service, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", service, len(files), err)
	}
	list := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, d := range parsed(t, file).Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok || group.Tok != token.VAR {
				continue
			}
			for _, spec := range group.Specs {
				v := spec.(*ast.ValueSpec)
				for i, name := range v.Names {
					if strings.HasPrefix(name.Name, "Err") && i < len(v.Values) {
						list[service+"."+name.Name] = hasCode(v.Values[i])
					}
				}
			}
		}
	}
	return list
}

// hasCode reports whether an error is declared as a problem of a kind other than NotFound.
func hasCode(of ast.Expr) bool {
	call, ok := of.(*ast.CallExpr)
	if !ok {
		return false
	}
	by, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || by.Sel.Name != "Declare" {
		return false
	}
	kind, ok := call.Args[0].(*ast.SelectorExpr)
	return ok && kind.Sel.Name != "NotFound"
}

func parsed(t *testing.T, file string) *ast.File {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
