package office

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"partnerd/cmd/democrm/crm"
	"partnerd/gen/partner/client"
	"partnerd/gen/partner/models"
)

// Error implements the interface error.
func (f *fault) Error() string { return f.Title + ": " + f.Text }

// result is the result of an operation of the generated client.
type result[T any] interface {
	GetJSON200() *T
	GetBody() []byte
	StatusCode() int
}

// want returns the error of an operation: that of the transport, or the response if its status was not 200.
func want[T any](err error, r result[T]) error {
	if err != nil {
		return err
	}
	if r.GetJSON200() == nil {
		return refusal(r.StatusCode(), r.GetBody())
	}
	return nil
}

// refusal reads the contract's error: a code to act on, a message for developers, and the URL where the client can fix
// it.
func refusal(status int, body []byte) error {
	var e models.APIError
	if err := json.Unmarshal(body, &e); err != nil || e.Code == "" {
		return fmt.Errorf("the service answered with %d", status)
	}
	f := &fault{Title: string(e.Code), Text: e.Message}
	if e.ActionURL != nil {
		f.Action = *e.ActionURL
	}
	for _, i := range e.Issues {
		f.Issues = append(f.Issues, strings.TrimPrefix(i.Path+": "+i.Message, ": "))
	}
	return f
}

// with calls f with the API of a linked client, and shows errors on the page at to.
func (o *Office) with(w http.ResponseWriter, r *http.Request, to string,
	f func(api *client.ClientWithResponses) (next string, err error),
) {
	d := o.at(w, r)
	api, err := o.api(d)
	if err == nil && api == nil {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	next := to
	if err == nil {
		next, err = f(api)
	}
	if err != nil {
		o.tell(w, r, d, o.unreachable(err), to)
		return
	}
	http.Redirect(w, r, next, http.StatusSeeOther)
}

func (o *Office) topUp(w http.ResponseWriter, r *http.Request) {
	o.with(w, r, "/", func(api *client.ClientWithResponses) (string, error) {
		cents, err := strconv.ParseInt(r.FormValue("cents"), 10, 64)
		if err != nil {
			return "", &fault{Title: "Invalid amount", Text: "Choose one of the amounts."}
		}
		key := rand.Text()
		// The return URL is a registered one. Whether the client has paid is read from the wallet, not inferred from
		// this visit.
		s, err := api.CreateTopupSessionWithResponse(r.Context(),
			&models.CreateTopupSessionParams{IdempotencyKey: &key}, models.CreateTopupSessionRequest{AmountCents: cents,
				ReturnURL: o.app.RedirectURI})
		if err = want(err, s); err != nil {
			return "", err
		}
		return s.JSON200.CheckoutURL, nil
	})
}

func (o *Office) start(w http.ResponseWriter, r *http.Request) {
	o.with(w, r, "/", func(api *client.ClientWithResponses) (string, error) {
		key, language := r.FormValue("key"), r.FormValue("language")
		reference := "CASE-" + key[:min(8, len(key))]
		c, err := api.CreateConsultationWithResponse(r.Context(), &models.CreateConsultationParams{IdempotencyKey: key},
			models.CreateConsultationRequest{
				Competence: r.FormValue("competence"), Language: &language, Subject: r.FormValue("subject"),
				ExternalRef: &reference,
				WithdrawalWaiverAcknowledged: models.CreateConsultationRequestWithdrawalWaiverAcknowledged(
					r.FormValue("waiver") == "on",
				),
			})
		if err != nil {
			return "", err
		}
		if c.JSON201 == nil {
			return "", refusal(c.StatusCode(), c.Body)
		}
		return "/consultations/" + c.JSON201.ID, nil
	})
}

func (o *Office) cancel(w http.ResponseWriter, r *http.Request) {
	page := "/consultations/" + r.PathValue("id")
	o.with(w, r, page, func(api *client.ClientWithResponses) (string, error) {
		c, err := api.CancelConsultationWithResponse(r.Context(), r.PathValue("id"))
		return page, want(err, c)
	})
}

// consultationView is the page of a consultation.
type consultationView struct {
	Fault        *fault
	Consultation *models.Consultation
	Events       []crm.Event // verified, in order
	Note         *models.NotePreview
	Goes         bool // still in progress: the page refreshes
	Cancellable  bool
}

var ended = []models.ConsultationStatus{models.ConsultationStatusCOMPLETED, models.ConsultationStatusCANCELLED,
	models.ConsultationStatusEXPIRED}

func (o *Office) consultation(w http.ResponseWriter, r *http.Request) {
	d := o.at(w, r)
	api, err := o.api(d)
	if err == nil && api == nil {
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	v := consultationView{}
	if err == nil {
		err = o.follow(r, api, &v)
	}
	o.change(d, func(d *desk) { v.Fault, d.fault = d.fault, nil })
	if err != nil {
		v.Fault = o.unreachable(err)
	}
	o.show(w, "consultation.html", v)
}

func (o *Office) follow(r *http.Request, api *client.ClientWithResponses, v *consultationView) error {
	c, err := api.GetConsultationWithResponse(r.Context(), r.PathValue("id"))
	if err = want(err, c); err != nil {
		return err
	}
	v.Consultation = c.JSON200
	v.Events = o.receiver.Events(c.JSON200.ID)
	v.Goes = !slices.Contains(ended, c.JSON200.Status) || len(v.Events) == 0 ||
		c.JSON200.Status == models.ConsultationStatusCOMPLETED && !c.JSON200.NoteAvailable
	v.Cancellable = slices.Contains([]models.ConsultationStatus{models.ConsultationStatusMATCHING,
		models.ConsultationStatusASSIGNED, models.ConsultationStatusPENDINGCALLBACK}, c.JSON200.Status)
	if !c.JSON200.NoteAvailable {
		return nil
	}
	n, err := api.GetConsultationNoteWithResponse(r.Context(), c.JSON200.ID)
	if err = want(err, n); err == nil {
		v.Note = n.JSON200
	}
	return err
}
