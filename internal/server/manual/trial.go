package manual

// Try is the page on which a reader of a sandbox's documentation links a client. Then the reference can send its
// operations.
const Try = Root + "/try"

// trial is the form that sends an operation from the page. It is filled in with the first example in the contract.
type trial struct {
	Credentials string // "bearer", "basic", "none"
	Fields      []trialField
	HasBody     bool
	Body        string // JSON
}

type trialField struct {
	Name, In string // In is path, query or header
	Value    string
	Required bool
}

// trialOf returns nil for operations that a page cannot send: those opened in a browser, and the token endpoints, which
// [Try] calls.
func (s *spec) trialOf(r request, parameters []node) *trial {
	if r.Browser || len(r.Form) > 0 {
		return nil
	}
	t := trial{Credentials: "none", HasBody: r.hasBody(), Body: r.Body.json("")}
	switch {
	case r.Basic:
		t.Credentials = "basic"
	case r.Bearer:
		t.Credentials = "bearer"
	}
	for _, p := range parameters {
		p = p.resolve()
		f := trialField{Name: p.text("name"), In: p.text("in"), Required: p.text("required") == "true"}
		if f.Required && f.In != "path" {
			f.Value = p.text("example")
		}
		t.Fields = append(t.Fields, f)
	}
	return &t
}
