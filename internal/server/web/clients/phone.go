package clients

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/id"
	"partnerd/internal/domain/account"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

// Attempts per minute at phone numbers and codes.
const (
	codesPerAddress  = 10
	codesPerNumber   = 3
	triesPerAccount  = 20
	PhoneFormAddress = "/account/phone"
)

type phoneView struct {
	Verified string // masked; empty if there is none
	Pending  string // masked number to which a code was sent
	Number   forms.Input
	Present  []forms.Input // current password; required if there is a verified number
	Code     forms.Input
	Zone     string // where the client lives
	Zones    []string
}

// zones are offered besides the current one: those of France and its neighbours, and some from every part of the world.
var zones = []string{"Europe/Paris", "America/Guadeloupe", "America/Martinique", "America/Cayenne", "America/Miquelon",
	"Indian/Reunion", "Indian/Mayotte", "Pacific/Noumea", "Pacific/Tahiti", "Pacific/Wallis", "Europe/Brussels",
	"Europe/Zurich", "Europe/London", "Europe/Lisbon", "Europe/Madrid", "Europe/Berlin", "Europe/Rome", "Europe/Athens",
	"Africa/Casablanca", "Africa/Algiers", "Africa/Tunis", "Africa/Dakar", "Africa/Abidjan", "America/New_York",
	"America/Toronto", "America/Chicago", "America/Los_Angeles", "America/Sao_Paulo", "Asia/Beirut", "Asia/Dubai",
	"Asia/Kolkata", "Asia/Bangkok", "Asia/Shanghai", "Asia/Tokyo", "Australia/Sydney", "Pacific/Auckland"}

// setZone changes where the client lives. Waiting callbacks then follow the local hours there.
func (p *Pages) setZone(c echo.Context, client *account.Client) error {
	ctx := c.Request().Context()
	err := p.DB.InTx(ctx, func(tx postgres.Tx) error {
		if err := p.deps.Accounts.SetTimeZone(ctx, tx, client.ID, c.Request().PostForm.Get("zone")); err != nil {
			return err
		}
		return p.deps.Consultations.ClientMoved(ctx, tx, client.ID)
	})
	if errors.Is(err, account.ErrInvalid) {
		return shell.StatusError(http.StatusBadRequest)
	}
	if err != nil {
		return fmt.Errorf("set time zone: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, PhoneFormAddress+"?done=zone")
}

func (p *Pages) phone(c echo.Context, client *account.Client) error {
	return p.showPhone(c, http.StatusOK, client, "", phoneFaults{})
}

// phoneFaults are text keys, empty for none.
type phoneFaults struct{ number, present, code string }

func (p *Pages) showPhone(c echo.Context, status int, client *account.Client, number string, faults phoneFaults) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
	v := phoneView{
		Number: forms.Input{ID: "phone", Label: "phone.number", Type: "tel", Autocomplete: "tel",
			Hint:  "phone.number.hint",
			Value: number, Fault: faults.number, Focus: faults.number != ""},
		Code: forms.Input{ID: "code", Label: "phone.code", Type: "text", InputMode: "numeric",
			Autocomplete: "one-time-code", Hint: "phone.code.hint", Fault: faults.code, Focus: faults.code != ""},
	}
	zone, err := p.deps.Accounts.TimeZone(ctx, tx, client.ID)
	if err != nil {
		return err
	}
	v.Zone, v.Zones = zone.String(), zones
	if !slices.Contains(zones, v.Zone) {
		v.Zones = append([]string{v.Zone}, zones...)
	}
	if sent := p.KeptForm(c, client.ID).Get("zone"); slices.Contains(v.Zones, sent) {
		v.Zone = sent
	}
	if v.Verified, err = p.deps.SelfService.MaskedPhone(ctx, tx, client.ID); err != nil {
		return err
	}
	if v.Verified != "" {
		v.Present = []forms.Input{forms.PresentPasswordField(faults.present)}
	}
	if v.Pending, _, err = p.deps.SelfService.PendingPhone(ctx, tx, client.ID); err != nil {
		return err
	}
	if v.Pending == "" && faults.code != "" {
		v.Number.Fault, v.Number.Focus = faults.code, true
	}
	title := "phone.title"
	if faults != (phoneFaults{}) {
		title = "phone.title.error"
	}
	return p.showAccount(c, status, client, "phone", title, v)
}

// sendCode texts a code to the number.
func (p *Pages) sendCode(c echo.Context, client *account.Client) error {
	ctx, number := c.Request().Context(), c.Request().PostForm.Get("phone")
	verified, err := p.deps.SelfService.MaskedPhone(ctx, p.DB.Read(), client.ID)
	if err != nil {
		return err
	}
	var faults phoneFaults
	e164, err := account.E164(number)
	if err != nil {
		faults.number = "phone.invalid"
	}
	if verified != "" && c.Request().PostForm.Get("present") == "" {
		faults.present = "rule.required"
	}
	if faults != (phoneFaults{}) {
		return p.showPhone(c, http.StatusUnprocessableEntity, client, number, faults)
	}
	texts := shell.Try{Bucket: "code to " + id.DigestOf(e164).String(), PerMinute: codesPerNumber}
	if wait := p.Attempt(ctx, shell.From(c, "code", codesPerAddress), texts); wait > 0 {
		return shell.TooMany(c, wait)
	}
	wait, err := p.withPresent(c, client, func(tx postgres.Tx) error {
		return p.deps.SelfService.SendCode(ctx, tx, client.ID, number, c.Request().PostForm.Get("present"),
			p.Language(c))
	})
	if err != nil || wait > 0 { // nothing was sent, so the attempt does not count against the number
		p.TakeBack(ctx, []shell.Try{texts})
	}
	switch {
	case wait > 0:
		return shell.TooMany(c, wait)
	case errors.Is(err, account.ErrBadCredentials):
		return p.showPhone(c, http.StatusUnprocessableEntity, client, number,
			phoneFaults{present: "security.password.wrong"})
	case errors.Is(err, account.ErrTooMany):
		return p.showPhone(c, http.StatusTooManyRequests, client, number, phoneFaults{number: "phone.toomany"})
	case errors.Is(err, account.ErrCountry):
		return p.showPhone(c, http.StatusUnprocessableEntity, client, number, phoneFaults{number: "phone.country"})
	case errors.Is(err, account.ErrNoMobile):
		return p.showPhone(c, http.StatusUnprocessableEntity, client, number, phoneFaults{number: "phone.nomobile"})
	case errors.Is(err, account.ErrInvalid):
		return p.showPhone(c, http.StatusUnprocessableEntity, client, number, phoneFaults{number: "phone.invalid"})
	case err != nil:
		return fmt.Errorf("send code: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, PhoneFormAddress+"?done=sent")
}

func (p *Pages) enterCode(c echo.Context, client *account.Client) error {
	if wait := p.Attempt(c.Request().Context(), shell.Try{Bucket: "code of " + client.ID,
		PerMinute: triesPerAccount}); wait > 0 {
		return shell.TooMany(c, wait)
	}
	ctx := c.Request().Context()
	var result account.CodeResult
	err := p.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		result, err = p.deps.SelfService.EnterCode(ctx, tx, client.ID, c.Request().PostForm.Get("code"), p.Language(c))
		return err
	})
	if err != nil {
		return fmt.Errorf("enter code: %w", err)
	}
	switch result {
	case account.CodeRight:
		return c.Redirect(http.StatusSeeOther, PhoneFormAddress+"?done=phone")
	case account.CodeWrong:
		return p.showPhone(c, http.StatusUnprocessableEntity, client, "", phoneFaults{code: "phone.code.wrong"})
	default:
		return p.showPhone(c, http.StatusUnprocessableEntity, client, "", phoneFaults{code: "phone.code.over"})
	}
}
