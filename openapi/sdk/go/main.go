// Command crm is a CRM with the client that oapi-codegen generates.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"partner-sdk/generated/partner"
)

// explain says what to tell the client's adviser, for every error of the operation.
func explain(r *partner.CreateConsultationResponse) string {
	switch {
	case r.JSON409 != nil:
		switch r.JSON409.Code {
		case partner.CreateConsultationConflictErrorCodeINSUFFICIENTFUNDS:
			return "top up at " + *r.JSON409.ActionUrl
		case partner.CreateConsultationConflictErrorCodePHONEREQUIRED:
			return "verify a phone number at " + *r.JSON409.ActionUrl
		case partner.CreateConsultationConflictErrorCodeIDEMPOTENCYCONFLICT:
			return "the key was used for something else"
		case partner.CreateConsultationConflictErrorCodeIDEMPOTENCYINPROGRESS:
			return "the first try is still under way"
		}
		return r.JSON409.Message
	case r.JSON422 != nil:
		var faults []string
		for _, issue := range r.JSON422.Issues {
			faults = append(faults, issue.Path+": "+string(issue.Code))
		}
		return strings.Join(faults, ", ")
	case r.JSON400 != nil:
		switch r.JSON400.Code {
		case partner.CreateConsultationBadRequestErrorCodeIDEMPOTENCYKEYREQUIRED:
			return "our fault: no key"
		case partner.CreateConsultationBadRequestErrorCodeINVALIDREQUEST:
			return "our fault: malformed"
		}
		return r.JSON400.Message
	case r.JSON401 != nil, r.JSON403 != nil:
		return "link again"
	}
	return "later"
}

// describe says a line for the timeline of a consultation.
func describe(event partner.WebhookEvent) (string, error) {
	value, err := event.ValueByDiscriminator()
	if err != nil {
		return "", err
	}
	switch e := value.(type) {
	case partner.ConsultationCreatedEvent:
		return fmt.Sprintf("created for %d cents", *e.Data.PriceCents), nil
	case partner.ConsultationCallEndedEvent:
		return fmt.Sprintf("talked for %d s", e.Data.DurationSec), nil
	case partner.ConsultationPendingCallbackEvent:
		return fmt.Sprintf("called back by %s", *e.Data.CallbackDueAt), nil
	case partner.ConsultationCancelledEvent:
		return fmt.Sprintf("cancelled: %s", *e.Data.EndReason), nil
	case partner.ConsultationRefundedEvent:
		return fmt.Sprintf("%d cents are back", *e.Data.RefundedCents), nil
	case partner.ConsultationExpiredEvent:
		return fmt.Sprintf("expired: %s", *e.Data.EndReason), nil
	case partner.WebhookPingEvent:
		return "the service tries our address", nil
	}
	kind, err := event.Discriminator()
	return name(partner.EventType(kind)), err
}

// name says what an event is about; every type has its case.
func name(kind partner.EventType) string {
	switch kind {
	case partner.EventTypeConsultationCreated:
		return "created"
	case partner.EventTypeConsultationPaymentAuthorized:
		return "money reserved"
	case partner.EventTypeConsultationMatching:
		return "looking for a lawyer"
	case partner.EventTypeConsultationAssigned:
		return "a lawyer has it"
	case partner.EventTypeConsultationCallStarted:
		return "in the call"
	case partner.EventTypeConsultationCallEnded:
		return "talked"
	case partner.EventTypeConsultationCompleted:
		return "done"
	case partner.EventTypeConsultationNoteAvailable:
		return "there is a note"
	case partner.EventTypeConsultationPendingCallback:
		return "called back later"
	case partner.EventTypeConsultationCancelled:
		return "cancelled"
	case partner.EventTypeConsultationRefunded:
		return "money is back"
	case partner.EventTypeConsultationExpired:
		return "expired"
	}
	return string(kind)
}

func main() {
	if err := play(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("DONE")
}

var answers = bufio.NewReader(os.Stdin)

// ask writes a line for whoever plays the client and returns the line that comes back.
func ask(line string) (string, error) {
	fmt.Println(line)
	answer, err := answers.ReadString('\n')
	return strings.TrimSuffix(answer, "\n"), err
}

func random() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

func expect(what string, is, wanted any) error {
	if is != wanted {
		return fmt.Errorf("%s is %v, not %v", what, is, wanted)
	}
	return nil
}

// until reads until the answer is yes, for a minute.
func until(what string, read func() (bool, error)) error {
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(250 * time.Millisecond) {
		if yes, err := read(); yes || err != nil {
			return err
		}
	}
	return fmt.Errorf("waited a minute for %s", what)
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func play(ctx context.Context) error {
	id, secret, redirect := os.Getenv("PARTNER_CLIENT_ID"), os.Getenv("PARTNER_CLIENT_SECRET"),
		os.Getenv("PARTNER_REDIRECT_URI")
	verifier, state := random(), random()
	challenge := sha256.Sum256([]byte(verifier))
	back, err := ask("OPEN " + os.Getenv("PARTNER_AUTHORIZE_URL") + "?" + url.Values{
		"response_type": {"code"}, "client_id": {id}, "redirect_uri": {redirect}, "state": {state},
		"scope": {"profile:read wallet:read wallet:topup consultations:read consultations:write " +
			"notes:read offline_access"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}.Encode())
	if err != nil {
		return err
	}
	landed, err := url.Parse(back)
	if err != nil {
		return err
	}
	code := landed.Query().Get("code")
	if err := expect("state", landed.Query().Get("state"), state); err != nil {
		return err
	}

	base := os.Getenv("PARTNER_BASE_URL")
	anonymous, err := partner.NewClientWithResponses(base)
	if err != nil {
		return err
	}
	key := random()
	tokens, err := anonymous.IssueTokenWithFormdataBodyWithResponse(ctx,
		&partner.IssueTokenParams{IdempotencyKey: &key}, partner.TokenRequest{
			GrantType: partner.AuthorizationCode, Code: &code, CodeVerifier: &verifier, RedirectUri: &redirect,
			ClientId: id, ClientSecret: secret,
		})
	if err != nil || tokens.JSON200 == nil {
		return fmt.Errorf("token: %w %s", err, tokens.Body)
	}
	api, err := partner.NewClientWithResponses(base,
		partner.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+tokens.JSON200.AccessToken)
			return nil
		}))
	if err != nil {
		return err
	}

	ref := "go-1"
	body := partner.CreateConsultationRequest{Competence: "HOUSING", Subject: "Deposit not returned",
		WithdrawalWaiverAcknowledged: true, ExternalRef: &ref}
	mine := &partner.CreateConsultationParams{IdempotencyKey: random()}
	refused, err := api.CreateConsultationWithResponse(ctx, mine, body)
	if err := first(err, expect("status", refused.StatusCode(), 409),
		expect("told to top up", strings.HasPrefix(explain(refused), "top up at http"), true)); err != nil {
		return err
	}

	page, err := api.CreateTopupSessionWithResponse(ctx, nil, partner.CreateTopupSessionRequest{AmountCents: 4000,
		ReturnUrl: redirect})
	if err != nil || page.JSON200 == nil {
		return fmt.Errorf("top-up: %w %s", err, page.Body)
	}
	if _, err := ask("OPEN " + page.JSON200.CheckoutUrl); err != nil {
		return err
	}
	if err := until("the money", func() (bool, error) {
		wallet, err := api.GetWalletWithResponse(ctx)
		return err == nil && wallet.JSON200 != nil && wallet.JSON200.AvailableCents == 4000, err
	}); err != nil {
		return err
	}

	made, err := api.CreateConsultationWithResponse(ctx, mine, body)
	if err != nil || made.JSON201 == nil {
		return fmt.Errorf("create: %w %s", err, made.Body)
	}
	again, err := api.CreateConsultationWithResponse(ctx, mine, body)
	if err := first(err, expect("status", again.StatusCode(), 201), expect("the answer of the same key",
		string(again.Body), string(made.Body))); err != nil {
		return err
	}
	other := "go-2"
	body.ExternalRef = &other
	second, err := api.CreateConsultationWithResponse(ctx,
		&partner.CreateConsultationParams{IdempotencyKey: random()}, body)
	if err != nil || second.JSON201 == nil {
		return fmt.Errorf("create: %w %s", err, second.Body)
	}
	two := 2
	list, err := api.ListConsultationsWithResponse(ctx, &partner.ListConsultationsParams{Limit: &two})
	if err != nil || list.JSON200 == nil {
		return fmt.Errorf("list: %w %s", err, list.Body)
	}
	if err := first(expect("length of the list", len(list.JSON200.Items), 2),
		expect("the newest", list.JSON200.Items[0].Id, second.JSON201.Id)); err != nil {
		return err
	}
	cancelled, err := api.CancelConsultationWithResponse(ctx, second.JSON201.Id)
	if err := first(err, expect("status", cancelled.StatusCode(), 200),
		expect("status", cancelled.JSON200.Status, partner.ConsultationStatusCANCELLED)); err != nil {
		return err
	}

	if err := until("the call", func() (bool, error) {
		c, err := api.GetConsultationWithResponse(ctx, made.JSON201.Id)
		return err == nil && c.JSON200 != nil && c.JSON200.Status == partner.ConsultationStatusCOMPLETED, err
	}); err != nil {
		return err
	}
	note, err := api.GetConsultationNoteWithResponse(ctx, made.JSON201.Id)
	if err := first(err, expect("status", note.StatusCode(), 200), expect("the note is of", note.JSON200.ConsultationId,
		made.JSON201.Id)); err != nil {
		return err
	}
	late, err := api.CancelConsultationWithResponse(ctx, made.JSON201.Id)
	if err := first(err, expect("status", late.StatusCode(), 409), expect("cancelled too late", late.JSON409.Code,
		partner.NotCancellableErrorCodeNOTCANCELLABLE)); err != nil {
		return err
	}
	nobody, err := api.GetConsultationWithResponse(ctx, "con_test_nobody")
	if err := first(err, expect("status", nobody.StatusCode(), 404), expect("what nobody has", nobody.JSON404.Code,
		partner.NotFoundErrorCodeNOTFOUND)); err != nil {
		return err
	}
	body.Competence = "NONE"
	invalid, err := api.CreateConsultationWithResponse(ctx,
		&partner.CreateConsultationParams{IdempotencyKey: random()}, body)
	if err := first(err, expect("what to do", explain(invalid), "competence: not_in_catalog")); err != nil {
		return err
	}

	log, err := ask("EVENTS")
	if err != nil {
		return err
	}
	var received []struct{ Body string }
	if err := json.Unmarshal([]byte(log), &received); err != nil {
		return err
	}
	for _, r := range received {
		var event partner.WebhookEvent
		if err := json.Unmarshal([]byte(r.Body), &event); err != nil {
			return err
		}
		line, err := describe(event)
		if err != nil {
			return err
		}
		fmt.Println("EVENT", line)
	}

	key = random()
	fresh, err := anonymous.IssueTokenWithFormdataBodyWithResponse(ctx, &partner.IssueTokenParams{IdempotencyKey: &key},
		partner.TokenRequest{
			GrantType: partner.RefreshToken, RefreshToken: tokens.JSON200.RefreshToken, ClientId: id,
			ClientSecret: secret,
		})
	if err != nil || fresh.JSON200 == nil {
		return fmt.Errorf("refresh: %w %s", err, fresh.Body)
	}
	revoked, err := anonymous.RevokeTokenWithFormdataBodyWithResponse(ctx,
		partner.RevokeRequest{Token: *fresh.JSON200.RefreshToken, ClientId: id, ClientSecret: &secret})
	if err := first(err, expect("status", revoked.StatusCode(), 200)); err != nil {
		return err
	}
	gone, err := api.GetWalletWithResponse(ctx)
	return first(err, expect("after the disconnection", gone.StatusCode(), 401))
}
