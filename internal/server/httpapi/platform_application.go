package httpapi

import (
	"context"
	"net/http"
	"time"

	"partnerd/gen/platform/models"
	"partnerd/gen/platform/server"
	"partnerd/internal/base/clock"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/portal"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
)

// GetApplication handles GET /api/platform/v1/application.
func (p platform) GetApplication(ctx context.Context,
	_ server.GetApplicationRequestObject,
) (server.GetApplicationResponseObject, error) {
	m, err := p.deps.Portal.Membership(ctx, p.deps.DB.Read(), itself(ctx))
	if err != nil {
		return nil, err
	}
	return server.GetApplication200JSONResponse{Body: p.applicationView(ctx, m.Application)}, nil
}

// UpdateApplication handles PUT /api/platform/v1/application.
func (p platform) UpdateApplication(ctx context.Context,
	r server.UpdateApplicationRequestObject,
) (server.UpdateApplicationResponseObject, error) {
	contact := text(r.Body.ContactEmail)
	a, err := p.deps.Portal.Update(ctx, itself(ctx), portal.Change{Name: &r.Body.Name,
		RedirectURIs: r.Body.RedirectUris, ContactEmail: &contact})
	if err != nil {
		return nil, problem.Invalid(err)
	}
	return server.UpdateApplication200JSONResponse{Body: p.applicationView(ctx, a)}, nil
}

// RotateClientSecret handles POST /api/platform/v1/application/rotate-secret.
func (p platform) RotateClientSecret(ctx context.Context,
	r server.RotateClientSecretRequestObject,
) (server.RotateClientSecretResponseObject, error) {
	how := application.Rotation{Overlap: time.Duration(r.Body.OverlapSeconds) * time.Second,
		EndPrevious: r.Body.EndPrevious != nil && *r.Body.EndPrevious, KeepPrevious: r.Body.KeepPrevious != nil &&
			*r.Body.KeepPrevious}
	return p.run(ctx, func(tx postgres.Tx) (int, any, error) {
		secret, until, err := p.deps.Portal.RotateSecret(ctx, tx, itself(ctx), how)
		return http.StatusOK, models.RotatedSecret{Secret: secret, PreviousSecretUntil: clock.Stamp(until)},
			problem.Invalid(err)
	})
}

// EndPreviousSecret handles POST /api/platform/v1/application/end-previous-secret.
func (p platform) EndPreviousSecret(ctx context.Context,
	_ server.EndPreviousSecretRequestObject,
) (server.EndPreviousSecretResponseObject, error) {
	if err := p.deps.Portal.EndPreviousSecret(ctx, itself(ctx)); err != nil {
		return nil, err
	}
	m, err := p.deps.Portal.Membership(ctx, p.deps.DB.Read(), itself(ctx))
	if err != nil {
		return nil, err
	}
	return server.EndPreviousSecret200JSONResponse{Body: p.applicationView(ctx, m.Application)}, nil
}

// CheckSignature handles POST /api/platform/v1/endpoint/check-signature.
func (p platform) CheckSignature(ctx context.Context,
	r server.CheckSignatureRequestObject,
) (server.CheckSignatureResponseObject, error) {
	got, err := p.deps.Webhooks.CheckSignature(ctx, p.deps.DB.Read(), requestOf(ctx).Principal.ApplicationID,
		r.Body.Signature, []byte(r.Body.Body))
	if err != nil {
		return nil, err
	}
	v := models.SignatureCheck{Finding: models.SignatureCheckFinding(got.Finding)}
	if seconds := int(got.Age / time.Second); got.Finding != webhook.HeaderMalformed {
		v.AgeSeconds = &seconds
	}
	if got.DiffersAt >= 0 {
		v.DiffersAt = &got.DiffersAt
	}
	return server.CheckSignature200JSONResponse{Body: v}, nil
}

func itself(ctx context.Context) portal.Caller {
	r := requestOf(ctx)
	return portal.Itself(r.Principal.ApplicationID, r.Address)
}

func (p platform) applicationView(ctx context.Context, a application.Application) models.Application {
	u := p.deps.Portal.Usage(ctx, a)
	v := models.Application{ClientID: a.ID, Name: a.Name, RedirectUris: a.RedirectURIs,
		ContactEmail: optional(a.ContactEmail), PreviousSecretUntil: (*clock.Stamp)(a.PreviousSecretUntil),
		Quotas: models.ApplicationQuotas{PartnerPerMinute: u.Partner.Limit, PartnerRemaining: u.Partner.Remaining,
			ClientPerMinute: u.Client, PlatformPerMinute: u.Platform.Limit, PlatformRemaining: u.Platform.Remaining},
		CreatedAt: clock.Stamp(a.CreatedAt), UpdatedAt: clock.Stamp(a.UpdatedAt)}
	for _, s := range a.Scopes {
		v.Scopes = append(v.Scopes, string(s))
	}
	if !p.deps.DB.Clock().Now().Before(previousUntil(a)) {
		v.PreviousSecretUntil = nil
	}
	return v
}

func previousUntil(a application.Application) (t time.Time) {
	if a.PreviousSecretUntil != nil {
		t = *a.PreviousSecretUntil
	}
	return t
}
