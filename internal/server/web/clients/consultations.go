package clients

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"golang.org/x/text/language"

	"partnerd/internal/base/money"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/privacy"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/forms"
	"partnerd/internal/server/web/shell"
)

const (
	consultationsPerPage = 20
	refreshSeconds       = "15"
)

type consultationView struct {
	consultation.Consultation
	Application string
	Topic       string // label of the competence
	Tongue      string // label of the language
	StatusText  string // text key
	Until       *time.Time
	Zone        *time.Location // of the client
	Minutes     int            // until then, rounded up
	Cancellable bool
	Open        bool
	Preview     string
	Withdrawal  *consultation.Withdrawal
	Proof       *consultation.Proof
}

// Hours and RestMinutes split the remaining minutes.
func (v consultationView) Hours() int { return v.Minutes / 60 }

// RestMinutes are the minutes beyond full hours.
func (v consultationView) RestMinutes() int { return v.Minutes % 60 }

type consultationsView struct {
	Items []consultationView
	Older string // URL of the next page
	Live  liveView
}

// liveView says whether the page updates automatically, and where the visitor can change that.
type liveView struct {
	Open   bool
	On     bool
	Switch string // URL of the page with the other choice
}

// live makes a page with an open consultation reload automatically, unless the visitor has stopped that.
func live(c echo.Context, open bool) liveView {
	q := c.Request().URL.Query()
	v := liveView{Open: open, On: open && q.Get("live") != "0"}
	if v.On {
		c.Response().Header().Set("Refresh", refreshSeconds)
		q.Set("live", "0")
	} else {
		q.Del("live")
	}
	q.Del("done")
	v.Switch = c.Request().URL.Path
	if len(q) > 0 {
		v.Switch += "?" + q.Encode()
	}
	return v
}

func (p *Pages) consultations(c echo.Context, client *account.Client) error {
	ctx, tx := c.Request().Context(), p.DB.Read()
	var before consultation.Position
	if after := c.QueryParam("after"); after != "" {
		last, err := p.ownConsultation(c, client, after)
		if err != nil {
			return err
		}
		before = consultation.Position{CreatedAt: last.CreatedAt, ID: last.ID}
	}
	items, more, err := p.deps.Consultations.ListForClient(ctx, tx, client.ID, before, consultationsPerPage)
	if err != nil {
		return err
	}
	var v consultationsView
	open := false
	for _, item := range items {
		view, err := p.viewConsultation(ctx, tx, p.Language(c), item)
		if err != nil {
			return err
		}
		v.Items = append(v.Items, view)
		open = open || view.Open
	}
	if more {
		v.Older = "/account/consultations?after=" + items[len(items)-1].ID
	}
	v.Live = live(c, open)
	return p.showAccount(c, http.StatusOK, client, "consultations", "consultations.title", v)
}

func (p *Pages) ownConsultation(c echo.Context, client *account.Client, id string) (consultation.Consultation, error) {
	if !shell.Identifier.MatchString(id) {
		return consultation.Consultation{}, shell.StatusError(http.StatusNotFound)
	}
	got, err := p.deps.Consultations.GetForClient(c.Request().Context(), p.DB.Read(), client.ID, id)
	if errors.Is(err, problem.ErrNotFound) {
		return got, shell.StatusError(http.StatusNotFound)
	}
	return got, err
}

func (p *Pages) viewConsultation(ctx context.Context, tx postgres.Tx, lang string,
	item consultation.Consultation,
) (consultationView, error) {
	v := consultationView{Consultation: item, StatusText: StatusKey(item.Status, item.EndReason),
		Open: !item.Status.Terminal(), Cancellable: item.Status.Cancellable()}
	app, err := p.deps.Applications.Get(ctx, tx, item.ApplicationID)
	if err != nil {
		return v, fmt.Errorf("read application: %w", err)
	}
	v.Application = app.Name
	competences, err := p.deps.Catalog.Competences(ctx, tx, language.Make(lang))
	if err != nil {
		return v, err
	}
	tongues, err := p.deps.Catalog.Languages(ctx, tx, language.Make(lang))
	if err != nil {
		return v, err
	}
	v.Topic, v.Tongue = forms.Label(competences, item.Competence), forms.Label(tongues, item.Language)
	if v.Zone, err = p.deps.Accounts.TimeZone(ctx, tx, item.ClientID); err != nil {
		return v, fmt.Errorf("read time zone: %w", err)
	}
	if v.Until = item.Deadline(); v.Until != nil {
		v.Minutes = max(0, int((v.Until.Sub(tx.Now)+time.Minute-1)/time.Minute))
	}
	return v, nil
}

type consultationPage struct {
	consultationView
	Live liveView
}

func (p *Pages) consultation(c echo.Context, client *account.Client) error {
	item, err := p.ownConsultation(c, client, c.Param("id"))
	if err != nil {
		return err
	}
	ctx, tx := c.Request().Context(), p.DB.Read()
	v, err := p.viewConsultation(ctx, tx, p.Language(c), item)
	if err != nil {
		return err
	}
	preview, err := p.deps.Consultations.Note(ctx, tx, item.ApplicationID, client.ID, item.ID)
	if err != nil && !errors.Is(err, consultation.ErrNoteNotAvailable) {
		return err
	}
	v.Preview = preview.Text
	if w, found, err := p.deps.Consultations.Withdrawn(ctx, tx, item.ID); err != nil {
		return err
	} else if found {
		v.Withdrawal = &w
	}
	if proof, err := p.deps.Consultations.ProofOf(ctx, tx, client.ID, item.ID); err == nil {
		v.Proof = &proof
	} else if !errors.Is(err, problem.ErrNotFound) {
		return err
	}
	return p.showAccount(c, http.StatusOK, client, "consultation", "consultation.title",
		consultationPage{v, live(c, v.Open)})
}

// proof is the file with which the client, or a court, can check the stored request for an immediate start.
func (p *Pages) proof(c echo.Context, client *account.Client) error {
	if !shell.Identifier.MatchString(c.Param("id")) {
		return shell.StatusError(http.StatusNotFound)
	}
	proof, err := p.deps.Consultations.ProofOf(c.Request().Context(), p.DB.Read(), client.ID, c.Param("id"))
	if errors.Is(err, problem.ErrNotFound) {
		return shell.StatusError(http.StatusNotFound)
	}
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Disposition", `attachment; filename="proof-`+proof.ConsultationID+`.json"`)
	return c.JSONPretty(http.StatusOK, privacy.PackOf(proof), "  ")
}

// ConsultationPath returns the path of the page of a consultation.
func ConsultationPath(id string) string { return "/account/consultations/" + id }

func (p *Pages) cancelForm(c echo.Context, client *account.Client) error {
	item, err := p.ownConsultation(c, client, c.Param("id"))
	if err != nil {
		return err
	}
	return p.showCancel(c, http.StatusOK, client, item, !item.Status.Cancellable())
}

func (p *Pages) showCancel(c echo.Context, status int, client *account.Client, item consultation.Consultation,
	late bool,
) error {
	v := confirmView{Heading: "cancel.title", Text: "cancel.text", Args: []any{item.Price.Format(p.Language(c))},
		Facts: p.factsOf(c, item), Action: ConsultationPath(item.ID) + "/cancel", Button: "cancel.submit", Danger: true,
		Back: ConsultationPath(item.ID)}
	if late {
		v.Refused = "cancel.late"
	}
	return p.confirm(c, status, client, v)
}

func (p *Pages) factsOf(c echo.Context, item consultation.Consultation) []forms.Fact {
	facts := []forms.Fact{forms.FactOf("consultation.reference", item.ID), forms.FactOf("consultation.created",
		shell.TimeIn(p.Language(c), shell.ServiceZone(), item.CreatedAt))}
	if item.Subject != "" {
		facts = append([]forms.Fact{forms.FactOf("consultation.subject", item.Subject)}, facts...)
	}
	return facts
}

func (p *Pages) cancel(c echo.Context, client *account.Client) error {
	item, err := p.ownConsultation(c, client, c.Param("id"))
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	err = p.DB.InTx(ctx, func(tx postgres.Tx) error {
		_, err := p.deps.Consultations.CancelForClient(ctx, tx, client.ID, item.ID)
		return err
	})
	if errors.Is(err, consultation.ErrNotCancellable) {
		return p.showCancel(c, http.StatusConflict, client, item, true)
	}
	if err != nil {
		return fmt.Errorf("cancel consultation: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, ConsultationPath(item.ID)+"?done=cancelled")
}

// withdrawForm is the first of the two steps of a withdrawal from the contract.
func (p *Pages) withdrawForm(c echo.Context, client *account.Client) error {
	item, err := p.ownConsultation(c, client, c.Param("id"))
	if err != nil {
		return err
	}
	return p.showWithdraw(c, http.StatusOK, client, item, item.Status.Terminal())
}

func (p *Pages) showWithdraw(c echo.Context, status int, client *account.Client, item consultation.Consultation,
	over bool,
) error {
	v := confirmView{Heading: "withdraw.title", Text: "withdraw.text", Args: []any{client.Name, client.Email},
		Facts: p.factsOf(c, item), Action: ConsultationPath(item.ID) + "/withdraw", Button: "withdraw.submit",
		Danger: true, Back: ConsultationPath(item.ID)}
	if over {
		v.Refused = "withdraw.over"
		if item.Status == consultation.Cancelled || item.Status == consultation.Expired {
			v.Refused = "withdraw.ended"
		}
	}
	return p.confirm(c, status, client, v)
}

// withdraw records the declaration and emails the receipt.
func (p *Pages) withdraw(c echo.Context, client *account.Client) error {
	item, err := p.ownConsultation(c, client, c.Param("id"))
	if err != nil {
		return err
	}
	ctx, lang := c.Request().Context(), client.Speaks(p.Language(c))
	app, err := p.deps.Applications.Get(ctx, p.DB.Read(), item.ApplicationID)
	if err != nil {
		return fmt.Errorf("read application: %w", err)
	}
	err = p.DB.InTx(ctx, func(tx postgres.Tx) error {
		w, fresh, err := p.deps.Consultations.DeclareWithdrawal(ctx, tx, client.ID, item.ID)
		if err != nil || !fresh {
			return err
		}
		return p.deps.SelfService.SendWithdrawalReceipt(ctx, tx, *client, lang, account.WithdrawalReceipt{
			Reference: w.ConsultationID, Application: app.Name, ApplicationID: app.ID,
			At: shell.FormatDate(lang, w.DeclaredAt), Price: price(w.Price, lang), Begun: w.Begun()})
	})
	if errors.Is(err, consultation.ErrPerformed) {
		return p.showWithdraw(c, http.StatusConflict, client, item, true)
	}
	if err != nil {
		return fmt.Errorf("withdraw: %w", err)
	}
	return c.Redirect(http.StatusSeeOther, ConsultationPath(item.ID)+"?done=withdrawn")
}

func price(c money.Cents, lang string) string { return c.Format(lang) }
