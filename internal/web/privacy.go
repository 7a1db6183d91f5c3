package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/account"
	"partnerd/internal/consultation"
	"partnerd/internal/postgres"
	"partnerd/internal/privacy"
)

// privacyView tells why an account cannot be erased now.
type privacyView struct {
	Obstacle string // key; empty when it can be
	Reasons  []any  // what the text of Obstacle names
}

func (p *Pages) privacy(c echo.Context, client *account.Client) error {
	v, err := p.obstacle(c, p.deps.Privacy.Obstacle(c.Request().Context(), p.deps.DB.Read(), client.ID))
	if err != nil {
		return err
	}
	return p.showAccount(c, http.StatusOK, client, "privacy", "privacy.title", v)
}

// obstacle says what stands in the way of an erasure, or returns err when it is something else.
func (p *Pages) obstacle(c echo.Context, err error) (privacyView, error) {
	var open account.TakeBackError
	switch {
	case errors.As(err, &open):
		return privacyView{"erase.takeback", []any{formatDate(p.language(c), open.Until)}}, nil
	case errors.Is(err, privacy.ErrOpenConsultations):
		return privacyView{Obstacle: "erase.open"}, nil
	case errors.Is(err, privacy.ErrMoney):
		return privacyView{Obstacle: "erase.money"}, nil
	case errors.Is(err, privacy.ErrPayment):
		return privacyView{Obstacle: "erase.payment"}, nil
	}
	return privacyView{}, err
}

// export hands the client everything of theirs as one file.
func (p *Pages) export(c echo.Context, client *account.Client) error {
	ctx := c.Request().Context()
	var e privacy.Export
	err := p.deps.DB.InTx(ctx, func(tx postgres.Tx) (err error) {
		e, err = p.deps.Privacy.Export(ctx, tx, client.ID)
		return err
	})
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	raw, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return fmt.Errorf("write export: %w", err)
	}
	c.Response().Header().Set("Content-Disposition", `attachment; filename="partnerd-`+time.Time(e.ExportedAt).Format("2006-01-02")+`.json"`)
	return c.Blob(http.StatusOK, "application/json; charset=utf-8", raw)
}

func (p *Pages) eraseForm(c echo.Context, client *account.Client) error {
	v, err := p.obstacle(c, p.deps.Privacy.Obstacle(c.Request().Context(), p.deps.DB.Read(), client.ID))
	if err != nil {
		return err
	}
	return p.showErase(c, http.StatusOK, client, v, "")
}

func (p *Pages) showErase(c echo.Context, status int, client *account.Client, v privacyView, presentFault string) error {
	return p.confirm(c, status, client, confirmView{Heading: "erase.title", Text: "erase.text", Args: []any{client.Email}, Action: "/account/privacy/erase",
		Button: "erase.submit", Danger: true, Back: "/account/privacy", Fields: []field{presentPasswordField(presentFault)},
		Refused: v.Obstacle, Reasons: v.Reasons})
}

// erase destroys the account and ends the session with it.
func (p *Pages) erase(c echo.Context, client *account.Client) error {
	ctx := c.Request().Context()
	wait, err := p.withPresent(c, client, func(tx postgres.Tx) error {
		return p.deps.Privacy.Erase(ctx, tx, client.ID, c.Request().PostForm.Get("present"), p.language(c))
	})
	if wait > 0 {
		return tooMany(c, wait)
	}
	if errors.Is(err, account.ErrBadCredentials) {
		return p.showErase(c, http.StatusUnprocessableEntity, client, privacyView{}, "security.password.wrong")
	}
	v, err := p.obstacle(c, err)
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	if v.Obstacle != "" {
		return p.showErase(c, http.StatusConflict, client, v, "")
	}
	for _, name := range []string{sessionCookie, knownCookie} {
		p.setCookie(c, name, "")
	}
	return p.mailSent(c, "erase.done", client.Email)
}

// accessibility is the statement that the law asks for.
func (p *Pages) accessibility(c echo.Context) error {
	return p.renderPublic(c, "accessibility", view{Title: "accessibility.title"})
}

type waiverView struct{ Version, Text string }

// waiver shows a version of the text that a client acknowledges before a consultation.
func (p *Pages) waiver(c echo.Context) error {
	version := c.Param("version")
	text, ok := "", false
	if waiverVersion.MatchString(version) {
		text, ok = consultation.WaiverText(version, p.language(c))
	}
	if !ok {
		return statusError(http.StatusNotFound)
	}
	return p.renderPublic(c, "waiver", view{Title: "waiver.title", Data: waiverView{version, text}})
}

// newestWaiver leads to the text that clients acknowledge now.
func (p *Pages) newestWaiver(c echo.Context) error {
	address := "/legal/waiver/" + consultation.WaiverVersion
	if q := c.Request().URL.RawQuery; q != "" {
		address += "?" + q
	}
	return c.Redirect(http.StatusFound, address)
}
