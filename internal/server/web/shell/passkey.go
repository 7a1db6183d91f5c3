package shell

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"partnerd/internal/infra/passkey"
	"partnerd/internal/server/web/forms"
)

// PasskeyView is a page whose button asks the browser for a passkey. It needs a script, because passkeys only work with
// one.
type PasskeyView struct {
	Heading, Lead, Button string // text keys
	Action                string
	Do                    string // method of navigator.credentials: "get" or "create"
	Token, Options        string
	Next                  string
	Fields                []forms.Input
	Error                 string // text key
	Back                  forms.Link
}

// RenderPasskey renders the page for the person in of, or for a visitor.
func (p *Shell) RenderPasskey(c echo.Context, status int, of View, v PasskeyView) error {
	if of.Bar == nil {
		allowScripts(c)
	}
	if LeadsToApplication(v.Next) {
		AllowFormsToLeave(c)
	}
	of.Title, of.Narrow, of.Scripts, of.Data = v.Heading, true, append(of.Scripts, p.Scripts["passkey"].Path), v
	if v.Error != "" {
		of.Title += ".error"
	}
	return p.Render(c, status, "passkey", of)
}

// PasskeyFault holds the errors with which the page to add a passkey is shown again.
type PasskeyFault struct {
	Status     int
	page, name string // text keys of the errors in the response and in the name
}

// PasskeyFault returns the errors in what a person sent to add a passkey.
func (p *Shell) PasskeyFault(ctx context.Context, err error) (f PasskeyFault, refused bool) {
	switch {
	case errors.Is(err, passkey.ErrName):
		return PasskeyFault{Status: http.StatusUnprocessableEntity, name: "passkey.name.missing"}, true
	case errors.Is(err, passkey.ErrTooMany):
		return PasskeyFault{Status: http.StatusConflict, page: "passkey.enough"}, true
	case errors.Is(err, passkey.ErrRefused):
		p.Logger.InfoContext(ctx, "passkey refused", "reason", err)
		return PasskeyFault{Status: http.StatusUnprocessableEntity, page: "passkey.refused"}, true
	}
	return PasskeyFault{}, false
}

// NewPasskey is the page on which a person adds a passkey to those listed on the page at home. begun is the error of
// creating the challenge.
func NewPasskey(home string, challenge passkey.Challenge, begun error,
	fault PasskeyFault,
) (v PasskeyView, status int, err error) {
	if errors.Is(begun, passkey.ErrTooMany) {
		fault = PasskeyFault{Status: http.StatusConflict, page: "passkey.enough"}
	} else if begun != nil {
		return v, 0, begun
	}
	name := forms.Input{ID: "name", Label: "passkey.name", Type: "text", Autocomplete: "off", Hint: "passkey.name.hint",
		Fault: fault.name, Focus: fault.name != ""}
	return PasskeyView{Heading: "passkey.new.title", Lead: "passkey.new.lead", Button: "passkey.new.submit",
		Do: "create", Action: home + "/passkeys", Fields: []forms.Input{name}, Error: fault.page,
		Back: forms.LinkTo(home, "passkey.new.back"), Token: challenge.Token,
		Options: string(challenge.Options)}, fault.Status, nil
}
