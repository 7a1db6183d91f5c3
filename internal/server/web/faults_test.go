package web

import (
	"crypto/rand"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/staff"
	"partnerd/internal/server/web/developers"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/operators"
	"partnerd/internal/server/web/shell"
)

// Every rule of the domain has a text in both languages, with the same arguments.
func TestEveryRuleHasItsWords(t *testing.T) {
	t.Parallel()
	texts, verb := must(shell.LoadTexts()), regexp.MustCompile(`%[sd]`)
	codes := []string{problem.IssueRequired, problem.IssueInvalidType, problem.IssueTooShort, problem.IssueTooLong,
		problem.IssueTooSmall, problem.IssueNotInCatalog, problem.IssueInvalidURL, problem.IssueInvalidValue,
		problem.IssueUnknownField, problem.IssueWaiverRequired}
	seen := map[string]bool{}
	for _, r := range problem.Rules() {
		if seen[r.Key] {
			t.Errorf("the rule %s is declared twice", r.Key)
		}
		seen[r.Key] = true
		if !slices.Contains(codes, r.Code) {
			t.Errorf("the rule %s has the code %q, which the contract does not know", r.Key, r.Code)
		}
		for _, lang := range shell.Languages {
			said := texts["rule."+r.Key][lang]
			if said == "" || verb.ReplaceAllString(said, "") == "" {
				t.Errorf("the rule %s has no words in %q", r.Key, lang)
			}
			if got, want := verb.FindAllString(said, -1), verb.FindAllString(r.English, -1); !slices.Equal(got, want) {
				t.Errorf("the rule %s names %v in %q, and %v at the API", r.Key, got, lang, want)
			}
		}
	}
	for _, code := range codes {
		for _, lang := range shell.Languages {
			if texts["rule.code."+code][lang] == "" {
				t.Errorf("the code %s has no words in %q", code, lang)
			}
		}
	}
}

// badValues are values that no field of the type accepts.
func badValues(f forms.Field) []string {
	bad := []string{"a\x00b", "\xff"}
	switch f.Type {
	case "number":
		return append(bad, "", "-1", "999999999", "twelve", "99999999999999999999")
	case "email":
		return append(bad, "no address", "a@localhost", strings.Repeat("a", 300)+"@crm.example")
	case "url", "lines":
		return append(bad, "notaurl", "http://crm.example/cb", "https://user:secret@crm.example/#x",
			"https://*.crm.example/")
	case "select":
		return append(bad, "nonsense")
	case "checks":
		if len(f.Options) == 1 { // a box is ticked or not; other values are invalid
			return nil
		}
		return append(bad, "nonsense")
	case "date", "datetime-local":
		return append(bad, "", "2026-13-45", "yesterday")
	case "tel":
		return append(bad, "", "12", "letters")
	}
	return append(bad, "", strings.Repeat("x", 600), "a\u202eb")
}

// goodValues are accepted by the fields of these names.
var goodValues = url.Values{"name": {"Zoé"}, "redirects": {"https://crm.example/cb"}, "contact": {"dev@crm.example"},
	"hours": {"1"}, "url": {""}, "webhook": {""}, "email": {"somebody@crm.example"}, "euros": {"1"}, "minutes": {"1"},
	"zone": {"Europe/Paris"}, "phone": {"+33612345678"}, "amount": {"1.00"}, "rate": {"0"}, "clientrate": {"0"},
	"from": {"2026-05-01T00:00"}, "to": {"2026-05-02T00:00"}, "bar": {"Paris"}, "number": {"P1"},
	"until": {"2026-12-01"}, "header": {"x"}, "body": {"x"}}

var (
	faultTexts = regexp.MustCompile(`(?s)<p class="fault">(.*?)</p>|<div class="alert" role="alert">(.*?)</div>`)
	anyTag     = regexp.MustCompile(`<[^>]*>`)
)

// frenchFaults fails if an error above a form or at a field is not one of the French texts.
func frenchFaults(t *testing.T, what string, p page) {
	t.Helper()
	for _, m := range faultTexts.FindAllStringSubmatch(p.body, -1) {
		for _, line := range strings.Split(m[1]+m[2], "</p>") {
			said := strings.TrimSpace(html.UnescapeString(anyTag.ReplaceAllString(line, "")))
			if said != "" && !slices.ContainsFunc(french, func(r *regexp.Regexp) bool { return r.MatchString(said) }) {
				t.Errorf("%s says %q", what, said)
			}
		}
	}
}

// french are the French texts of all refusals.
var french = func() (list []*regexp.Regexp) {
	verb := regexp.MustCompile(`%[sd]`)
	for key, wordings := range must(shell.LoadTexts()) {
		if strings.HasPrefix(key, "rule.") || strings.Contains(key, ".fault.") {
			var pattern []string
			for _, part := range verb.Split(wordings["fr"], -1) {
				pattern = append(pattern, regexp.QuoteMeta(strings.ReplaceAll(part, "%%", "%")))
			}
			list = append(list, regexp.MustCompile(`(?s)(^|: )`+strings.Join(pattern, ".*")+"$"))
		}
	}
	return list
}()

// triesBadValues sends an invalid value in each field of a form, and valid values in the others. It expects a French
// message at the field.
func (f *fixture) triesBadValues(t *testing.T, w *worker, what, path string, fields []forms.Field, good url.Values) {
	t.Helper()
	for _, field := range fields {
		for _, bad := range badValues(field) {
			form := url.Values{}
			for name, values := range good {
				form[name] = values
			}
			form[field.Name] = []string{bad}
			form["entry"] = []string{f.db.Read().NewID("aud")}
			form["once"] = []string{rand.Text()}
			p := w.post(path, form)
			if p.StatusCode == 400 || p.StatusCode >= 500 {
				t.Errorf("%s: %s = %.40q is answered %d", what, field.Name, bad, p.StatusCode)
			}
			if p.StatusCode != 422 {
				if (!utf8.ValidString(bad) || strings.Contains(bad, "\x00")) && field.Type != "lines" {
					t.Errorf("%s takes %s = %q: %d", what, field.Name, bad, p.StatusCode)
				}
				continue
			}
			frenchFaults(t, what, p)
			for _, part := range []string{`id="` + field.Name + `-fault"`, `aria-invalid="true"`,
				field.Name + `-fault"`, `href="#` + field.Name + `"`, `id="` + field.Name + `"`} {
				if !strings.Contains(p.body, part) {
					t.Errorf("%s: %s = %.40q is refused without %s:\n%v", what, field.Name, bad, part,
						faultTexts.FindAllString(p.body, -1))
				}
			}
		}
	}
}

// A form of the portal says at the field what is wrong, in the language of the page: what was sent, and what is
// expected.
func TestThePortalSaysAtTheFieldWhatIsWrong(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	address := f.portalOf()
	w := f.member(portal.Owner)
	w.get("/developers?lang=fr")
	me := must(f.staff.ByEmail(t.Context(), f.db.Read(), w.email)).ID
	for _, a := range f.pages.developers.Acts() {
		if a.Fields == nil || a.Name == "signature" { // it reports its finding, whatever is pasted
			continue
		}
		path := address(a.Path, me)
		call := developers.Call{Of: f.app, Lang: "fr", Subject: strings.Split(path+"/////", "/")[5]}
		fields := must(a.Fields(t.Context(), f.db.Read(), call))
		good := url.Values{"csrf": {staff.FormToken(w.cookie(staff.CookieName(false)))}}
		for _, field := range fields {
			good[field.Name] = goodValues[field.Name]
			if len(field.Options) > 0 {
				good[field.Name] = []string{field.Options[0].Value}
			}
		}
		f.triesBadValues(t, w, a.Name, path,
			slices.DeleteFunc(fields, func(f forms.Field) bool { return f.Type == "shown" }), good)
	}
}

// The same holds for the forms of the operators' desk.
func TestOperatorsReadAtTheFieldWhatIsWrong(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	subjects, _ := f.opsDesk()
	w := f.operator(staff.Admin)
	w.get("/ops?lang=fr")
	for _, a := range f.pages.operators.Acts() {
		path := addressOf(a.Path, subjects, f.app.ID)
		section := strings.Split(a.Path, "/")[2]
		fields := []forms.Field{}
		if a.Fields != nil {
			fields = must(a.Fields(t.Context(), f.db.Read(), operators.Call{Subject: subjects[section], Lang: "fr"}))
		}
		good := url.Values{"csrf": {staff.FormToken(w.cookie(staff.CookieName(false)))}, "reason": {"Pour voir"}}
		for _, field := range fields {
			good[field.Name] = goodValues[field.Name]
			if len(field.Options) > 0 {
				good[field.Name] = []string{field.Options[0].Value}
			}
			if a.Name == "duty" && field.Name == "hours" {
				good["hours"] = []string{"mon-fri 09:00-12:30"}
			}
		}
		fields = append(slices.DeleteFunc(fields, func(f forms.Field) bool { return f.Type == "shown" }),
			forms.Field{Name: "reason", Type: "text"})
		f.triesBadValues(t, w, a.Name, path, fields, good)
	}
}
