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

type privacyView struct{ Obstacle string } // key

func (p *Pages) privacy(c echo.Context, client *account.Client) error {
	key, err := obstacleKey(p.deps.Privacy.Obstacle(c.Request().Context(), p.deps.DB.Read(), client.ID))
	if err != nil {
		return err
	}
	return p.showAccount(c, http.StatusOK, client, "privacy", "privacy.title", privacyView{key})
}

// obstacleKey is the text for why an account cannot be erased now, empty when it can.
func obstacleKey(err error) (string, error) {
	switch {
	case errors.Is(err, privacy.ErrOpenConsultations):
		return "erase.open", nil
	case errors.Is(err, privacy.ErrMoney):
		return "erase.money", nil
	case errors.Is(err, privacy.ErrPayment):
		return "erase.payment", nil
	}
	return "", err
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
	key, err := obstacleKey(p.deps.Privacy.Obstacle(c.Request().Context(), p.deps.DB.Read(), client.ID))
	if err != nil {
		return err
	}
	return p.showErase(c, http.StatusOK, client, key)
}

func (p *Pages) showErase(c echo.Context, status int, client *account.Client, obstacle string) error {
	return p.confirm(c, status, client, confirmView{Heading: "erase.title", Text: "erase.text", Args: []any{client.Email}, Action: "/account/privacy/erase",
		Button: "erase.submit", Danger: true, Back: "/account/privacy", Refused: obstacle})
}

// erase destroys the account and ends the session with it.
func (p *Pages) erase(c echo.Context, client *account.Client) error {
	ctx := c.Request().Context()
	err := p.deps.DB.InTx(ctx, func(tx postgres.Tx) error { return p.deps.Privacy.Erase(ctx, tx, client.ID, p.language(c)) })
	key, err := obstacleKey(err)
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	if key != "" {
		return p.showErase(c, http.StatusConflict, client, key)
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
