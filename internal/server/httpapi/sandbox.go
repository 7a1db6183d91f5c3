package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/gen/sandbox/models"
	"partnerd/gen/sandbox/server"
	"partnerd/internal/base/clock"
	"partnerd/internal/base/money"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/sandbox"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
)

// player implements the Sandbox API, with which a partner simulates what takes long. Authentication and rate limits are
// those of the Platform API.
type player struct{ *Server }

var _ server.StrictServerInterface = player{}

// registerSandbox adds the routes of the Sandbox API, behind the middlewares that identify the caller.
func (s *Server) registerSandbox(e *echo.Echo, known []echo.MiddlewareFunc) {
	middlewares := map[string][]echo.MiddlewareFunc{}
	for name, op := range s.sandbox.operations {
		middlewares[name] = s.keyed(op, known)
	}
	server.RegisterHandlersWithOptions(e, server.NewStrictHandler(player{s}, nil),
		server.RegisterHandlersOptions{OperationMiddlewares: middlewares})
}

// SetClientScenario handles PUT /api/platform/v1/sandbox/clients/{clientId}/scenario.
func (s player) SetClientScenario(ctx context.Context,
	r server.SetClientScenarioRequestObject,
) (server.SetClientScenarioResponseObject, error) {
	err := s.deps.DB.InTx(ctx, func(tx postgres.Tx) error {
		return s.deps.TestClients.Choose(ctx, tx, requestOf(ctx).Principal.ApplicationID, r.ClientID,
			string(r.Body.Scenario))
	})
	if err != nil {
		return nil, err
	}
	return server.SetClientScenario200JSONResponse{Body: *r.Body}, nil
}

// ListClients handles GET /api/platform/v1/sandbox/clients.
func (s player) ListClients(ctx context.Context,
	_ server.ListClientsRequestObject,
) (server.ListClientsResponseObject, error) {
	list, err := s.deps.TestClients.List(ctx, s.deps.DB.Read(), requestOf(ctx).Principal.ApplicationID)
	if err != nil {
		return nil, err
	}
	return server.ListClients200JSONResponse{Body: models.TestClientList{Items: views(list, testClientView)}}, nil
}

// CreateClient handles POST /api/platform/v1/sandbox/clients.
func (s player) CreateClient(ctx context.Context,
	r server.CreateClientRequestObject,
) (server.CreateClientResponseObject, error) {
	n := sandbox.NewTestClient{Name: r.Body.Name, PhoneVerified: r.Body.PhoneVerified != nil && *r.Body.PhoneVerified,
		TimeZone: text(r.Body.TimeZone)}
	if r.Body.BalanceCents != nil {
		n.Balance = money.Cents(*r.Body.BalanceCents)
	}
	return s.run(ctx, func(tx postgres.Tx) (int, any, error) {
		c, password, err := s.deps.TestClients.Create(ctx, tx, actorOf(ctx), requestOf(ctx).Principal.ApplicationID, n)
		v := testClientView(c)
		return http.StatusCreated, models.CreatedTestClient{ID: v.ID, Email: v.Email, Name: v.Name,
			PhoneVerified: v.PhoneVerified, Disabled: v.Disabled, Scenario: v.Scenario, CreatedAt: v.CreatedAt,
			Password: password}, err
	})
}

// actorOf returns the calling application as the audit log names it.
func actorOf(ctx context.Context) string {
	return "application:" + requestOf(ctx).Principal.ApplicationID
}

func testClientView(c sandbox.TestClient) models.TestClient {
	return models.TestClient{ID: c.ID, Email: c.Email, Name: c.Name, PhoneVerified: c.PhoneVerified,
		Disabled: c.Disabled, Scenario: models.Scenario(c.Scenario), CreatedAt: clock.Stamp(c.CreatedAt)}
}

// DeleteClient handles DELETE /api/platform/v1/sandbox/clients/{clientId}.
func (s player) DeleteClient(ctx context.Context,
	r server.DeleteClientRequestObject,
) (server.DeleteClientResponseObject, error) {
	if err := s.deps.TestClients.Delete(ctx, actorOf(ctx), requestOf(ctx).Principal.ApplicationID,
		r.ClientID); err != nil {
		return nil, err
	}
	return server.DeleteClient200JSONResponse{Body: models.DeletedTestClient{ID: r.ClientID}}, nil
}

// LinkClient handles POST /api/platform/v1/sandbox/clients/{clientId}/link.
func (s player) LinkClient(ctx context.Context,
	r server.LinkClientRequestObject,
) (server.LinkClientResponseObject, error) {
	t, err := s.deps.TestClients.Link(ctx, requestOf(ctx).Principal.ApplicationID, r.ClientID, r.Body.Scopes)
	if err != nil {
		return nil, err
	}
	v := models.LinkTokens{AccessToken: t.AccessToken, TokenType: models.LinkTokensTokenType(t.TokenType),
		ExpiresIn: t.ExpiresIn, Scope: t.Scope}
	if t.RefreshToken != "" {
		v.RefreshToken, v.RefreshTokenExpiresIn = &t.RefreshToken, &t.RefreshTokenExpiresIn
	}
	return server.LinkClient200JSONResponse{Body: v}, nil
}

// inboxPosition is the content of a cursor of the inbox.
type inboxPosition struct {
	ID string `json:"i"`
}

// ListMessages handles GET /api/platform/v1/sandbox/inbox.
func (s player) ListMessages(ctx context.Context,
	r server.ListMessagesRequestObject,
) (server.ListMessagesResponseObject, error) {
	app := requestOf(ctx).Principal.ApplicationID
	f := sandbox.MessageFilter{ClientID: text(r.Params.ClientID)}
	if r.Params.Kind != nil {
		f.Kind = string(*r.Params.Kind)
	}
	list := fmt.Sprintf("inbox:%s:%q:%q", app, f.ClientID, f.Kind)
	var before inboxPosition
	if err := s.cursors.decode(list, r.Params.Cursor, &before); err != nil {
		return nil, err
	}
	items, more, err := s.deps.Inbox.List(ctx, s.deps.DB.Read(), app, f, before.ID, *r.Params.Limit)
	if err != nil {
		return nil, err
	}
	page := models.MessagePage{Items: views(items, messageView)}
	if more {
		if page.NextCursor, err = s.cursors.encode(list, inboxPosition{items[len(items)-1].ID}); err != nil {
			return nil, err
		}
	}
	return server.ListMessages200JSONResponse{Body: page}, nil
}

func messageView(m sandbox.Message) models.Message {
	v := models.Message{ID: m.ID, ClientID: m.ClientID, Kind: models.MessageKind(m.Kind), To: m.To, Text: m.Text,
		SentAt: clock.Stamp(m.SentAt)}
	if m.Subject != "" {
		v.Subject = &m.Subject
	}
	return v
}

// AdvanceClock handles POST /api/platform/v1/sandbox/clock/advance.
func (s player) AdvanceClock(ctx context.Context,
	r server.AdvanceClockRequestObject,
) (server.AdvanceClockResponseObject, error) {
	if err := s.limitPurpose(ctx, ratelimit.Clock, ratelimit.AdvancesPerMinute); err != nil {
		return nil, err
	}
	passed, err := s.deps.Clock.Advance(ctx, requestOf(ctx).Principal.ApplicationID,
		time.Duration(r.Body.Seconds)*time.Second)
	if err != nil {
		return nil, err
	}
	done := int64(passed / time.Second)
	return server.AdvanceClock200JSONResponse{Body: models.AdvancedClock{AdvancedSeconds: done,
		RemainingSeconds: r.Body.Seconds - done}}, nil
}

// RunConsultation handles POST /api/platform/v1/sandbox/consultations/{id}/run.
func (s player) RunConsultation(ctx context.Context,
	r server.RunConsultationRequestObject,
) (server.RunConsultationResponseObject, error) {
	if err := s.limitPurpose(ctx, ratelimit.Clock, ratelimit.AdvancesPerMinute); err != nil {
		return nil, err
	}
	ran, err := s.deps.Clock.Run(ctx, requestOf(ctx).Principal.ApplicationID, r.ID, consultation.Status(r.Body.Status))
	if err != nil {
		return nil, err
	}
	return server.RunConsultation200JSONResponse{Body: models.RanConsultation{ID: r.ID,
		Status: models.RunnableStatus(ran.Status), Reached: ran.Reached,
		AdvancedSeconds: int64(ran.Passed / time.Second)}}, nil
}

// ListLawyers handles GET /api/platform/v1/sandbox/lawyers.
func (s player) ListLawyers(ctx context.Context,
	_ server.ListLawyersRequestObject,
) (server.ListLawyersResponseObject, error) {
	list, err := s.deps.Crews.List(ctx, s.deps.DB.Read(), requestOf(ctx).Principal.ApplicationID)
	if err != nil {
		return nil, err
	}
	return server.ListLawyers200JSONResponse{Body: models.LawyerList{Items: views(list, crewLawyerView)}}, nil
}

// CreateLawyer handles POST /api/platform/v1/sandbox/lawyers.
func (s player) CreateLawyer(ctx context.Context,
	r server.CreateLawyerRequestObject,
) (server.CreateLawyerResponseObject, error) {
	n := sandbox.NewCrewLawyer{Name: r.Body.Name, Competences: r.Body.Competences, Languages: r.Body.Languages,
		Away: r.Body.Available != nil && !*r.Body.Available}
	return s.run(ctx, func(tx postgres.Tx) (int, any, error) {
		l, err := s.deps.Crews.Create(ctx, tx, actorOf(ctx), requestOf(ctx).Principal.ApplicationID, n)
		return http.StatusCreated, crewLawyerView(l), err
	})
}

func crewLawyerView(l sandbox.CrewLawyer) models.Lawyer {
	return models.Lawyer{ID: l.ID, Name: l.Name, Competences: l.Competences, Languages: l.Languages,
		Available: l.Available, CreatedAt: clock.Stamp(l.CreatedAt)}
}

// SetLawyerAvailability handles PUT /api/platform/v1/sandbox/lawyers/{lawyerId}/availability.
func (s player) SetLawyerAvailability(ctx context.Context,
	r server.SetLawyerAvailabilityRequestObject,
) (server.SetLawyerAvailabilityResponseObject, error) {
	if err := s.deps.Crews.SetAvailable(ctx, actorOf(ctx), requestOf(ctx).Principal.ApplicationID, r.LawyerID,
		r.Body.Available); err != nil {
		return nil, err
	}
	return server.SetLawyerAvailability200JSONResponse{Body: *r.Body}, nil
}

// DeleteLawyer handles DELETE /api/platform/v1/sandbox/lawyers/{lawyerId}.
func (s player) DeleteLawyer(ctx context.Context,
	r server.DeleteLawyerRequestObject,
) (server.DeleteLawyerResponseObject, error) {
	if err := s.deps.Crews.Delete(ctx, actorOf(ctx), requestOf(ctx).Principal.ApplicationID, r.LawyerID); err != nil {
		return nil, err
	}
	return server.DeleteLawyer200JSONResponse{Body: models.DeletedLawyer{ID: r.LawyerID}}, nil
}
