package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/oauth2"

	"partnerd/cmd/democrm/crm"
	"partnerd/gen/partner/models"
)

func (d *demo) start(ctx context.Context,
	key, competence, language string,
) (*models.Consultation, http.Header, []byte, error) {
	consent, reference := false, "CASE-2041"
	r, err := d.api.CreateConsultationWithResponse(ctx, &models.CreateConsultationParams{IdempotencyKey: key},
		models.CreateConsultationRequest{
			Competence: competence, Language: &language, Subject: "Deposit not returned", RecordingConsent: &consent,
			ExternalRef:                  &reference,
			WithdrawalWaiverAcknowledged: true,
		})
	if err != nil {
		return nil, nil, nil, err
	}
	if r.JSON201 == nil {
		return nil, nil, nil, unexpected(r.Status(), r.Body)
	}
	return r.JSON201, r.HTTPResponse.Header, r.Body, nil
}

func (d *demo) create(ctx context.Context) (string, error) {
	key := rand.Text()
	c, _, body, err := d.start(ctx, key, "HOUSING", "FR")
	if err != nil {
		return "", err
	}
	d.consultation = c.ID
	w, err := d.wallet(ctx)
	if err != nil {
		return "", err
	}
	_, header, again, err := d.start(ctx, key, "HOUSING", "FR")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("201 %s, status %s; held %d, available %d\nthe same request again: the same response, "+
			"Idempotent-Replayed: %s", c.ID, c.Status, w.HeldCents, w.AvailableCents,
			header.Get("Idempotent-Replayed")),
		first(
			expect(c.Status == models.ConsultationStatusMATCHING, "status is %s", c.Status),
			expect(w.HeldCents == crm.Price && w.AvailableCents == topUp-crm.Price, "the wallet is %+v", w),
			expect(bytes.Equal(body, again) && header.Get("Idempotent-Replayed") == "true",
				"the replayed response differs"))
}

func (d *demo) receive(ctx context.Context) (string, error) {
	want := []string{"created", "payment_authorized", "matching", "assigned", "call_started", "call_ended",
		"note_available", "completed"}
	if _, err := d.receiver.Wait(ctx, d.consultation, "consultation.completed"); err != nil {
		return "", err
	}
	events := d.receiver.Events(d.consultation)
	var lines, got []string
	for _, e := range events {
		got = append(got, strings.TrimPrefix(e.Type, "consultation."))
		line := fmt.Sprintf("%d  %-33s %s", e.Sequence, e.Type, e.Data.Status)
		if e.Data.DurationSec != nil {
			line += fmt.Sprintf("  %d s", *e.Data.DurationSec)
		}
		lines = append(lines, line)
	}
	lines = append(lines, "every signature verified")
	last := events[len(events)-1]
	return strings.Join(lines, "\n"), first(
		expect(slices.Equal(got, want), "events are %v, not %v", got, want),
		expect(len(d.receiver.Refused()) == 0, "refused webhooks: %v", d.receiver.Refused()),
		expect(last.Data.ExternalRef != nil && *last.Data.ExternalRef == "CASE-2041", "externalRef is missing"))
}

func (d *demo) read(ctx context.Context) (string, error) {
	c, err := d.api.GetConsultationWithResponse(ctx, d.consultation)
	if err != nil {
		return "", err
	}
	if c.JSON200 == nil {
		return "", unexpected(c.Status(), c.Body)
	}
	n, err := d.api.GetConsultationNoteWithResponse(ctx, d.consultation)
	if err != nil {
		return "", err
	}
	if n.JSON200 == nil {
		return "", unexpected(n.Status(), n.Body)
	}
	return fmt.Sprintf("%s, %d s on the phone\npreview: %s", c.JSON200.Status, *c.JSON200.DurationSec,
			n.JSON200.Preview),
		expect(c.JSON200.Status == models.ConsultationStatusCOMPLETED && c.JSON200.NoteAvailable &&
			n.JSON200.Preview != "", "the record is %+v", *c.JSON200)
}

func (d *demo) history(ctx context.Context) (string, error) {
	var lines, types []string
	limit := 1 // one per page, to exercise the cursor
	params := &models.ListWalletTransactionsParams{Limit: &limit}
	for {
		r, err := d.api.ListWalletTransactionsWithResponse(ctx, params)
		if err != nil {
			return "", err
		}
		if r.JSON200 == nil {
			return "", unexpected(r.Status(), r.Body)
		}
		for _, t := range r.JSON200.Items {
			types = append(types, string(t.Type))
			lines = append(lines, fmt.Sprintf("%-8s %6d   balance %5d   available %5d",
				t.Type, t.AmountCents, t.BalanceAfterCents, t.AvailableAfterCents))
		}
		if r.JSON200.NextCursor == nil {
			break
		}
		params.Cursor = r.JSON200.NextCursor
	}
	return strings.Join(lines, "\n"), expect(slices.Equal(types, []string{"CAPTURE", "HOLD", "TOPUP"}),
		"the transactions are %v", types)
}

func (d *demo) cancel(ctx context.Context) (string, error) {
	c, _, _, err := d.start(ctx, rand.Text(), "IP", "PT")
	if err != nil {
		return "", err
	}
	r, err := d.api.CancelConsultationWithResponse(ctx, c.ID)
	if err != nil {
		return "", err
	}
	if r.JSON200 == nil {
		return "", unexpected(r.Status(), r.Body)
	}
	e, err := d.receiver.Wait(ctx, c.ID, "consultation.refunded")
	if err != nil {
		return "", err
	}
	w, err := d.wallet(ctx)
	return fmt.Sprintf("%s is %s; event %d %s\nwallet: balance %d, available %d, held %d",
			c.ID, r.JSON200.Status, e.Sequence, e.Type, w.BalanceCents, w.AvailableCents, w.HeldCents),
		first(err, expect(r.JSON200.Status == models.ConsultationStatusCANCELLED, "status is %s", r.JSON200.Status),
			expect(w.HeldCents == 0 && w.AvailableCents == topUp-crm.Price, "the wallet is %+v", w))
}

// disconnect acts as the client, on the account page; the partner notices at the next request.
func (d *demo) disconnect(ctx context.Context) (string, error) {
	b := crm.NewBrowser("")
	p, err := b.Open(ctx, d.base+"/account/apps")
	if err != nil {
		return "", err
	}
	form, err := p.Form("password")
	if err != nil {
		return "", err
	}
	if p, err = b.Send(ctx, p, form, map[string]string{"email": d.email, "password": password}, ""); err != nil {
		return "", err
	}
	disconnect := slices.IndexFunc(p.Forms, func(f crm.Form) bool { return strings.HasSuffix(f.Action, "/disconnect") })
	if disconnect < 0 {
		return "", fmt.Errorf("no connected application on %s: %.300s", p.URL, p.Text)
	}
	if _, err = b.Send(ctx, p, p.Forms[disconnect], nil, ""); err != nil {
		return "", err
	}
	r, err := d.api.GetProfileWithResponse(ctx)
	if err != nil {
		return "", err
	}
	_, refreshErr := d.oauth.TokenSource(ctx, &oauth2.Token{RefreshToken: d.token.RefreshToken}).Token()
	return fmt.Sprintf("disconnected on the account page; next request with the old token: %s\nrefresh: %v",
			r.Status(), oneLine(refreshErr)),
		first(expect(r.StatusCode() == http.StatusUnauthorized, "the old token still works"),
			expect(refreshErr != nil, "the refresh token still works"))
}

func oneLine(err error) string {
	if err == nil {
		return ""
	}
	return strings.Join(strings.Fields(err.Error()), " ")
}

// unexpected describes an unexpected response.
func unexpected(status string, body []byte) error {
	return fmt.Errorf("%w: %s %s", errUnexpected, status, body)
}

// first returns the first non-nil error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
