package httpapi

import (
	"context"
	"crypto/subtle"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"partnerd/gen/desk/models"
	"partnerd/gen/desk/server"
	"partnerd/internal/base/clock"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/desk"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/mail"
)

// lawyerDesk implements the Desk API, which a lawyer uses in a browser session.
type lawyerDesk struct{ *Server }

var _ server.StrictServerInterface = lawyerDesk{}

const formTokenHeader = "X-CSRF-Token"

var (
	errNoSession = oauth.ErrUnauthorized.Because("No one is signed in. Sign in first.")
	errOrigin    = desk.ErrForbidden.Because("The request comes from a page on another origin.")
	errFormToken = desk.ErrForbidden.Because("The header %s is missing or does not match this session.",
		formTokenHeader)
)

const sessionChallenge = `Session realm="partnerd"`

// isDesk reports whether a path belongs to the Desk API.
func isDesk(path string) bool {
	return path == "/api/desk/v1" || strings.HasPrefix(path, "/api/desk/v1/")
}

// registerDesk adds the routes of the Desk API. Errors are checked in the same order as in the Partner API.
func (s *Server) registerDesk(e *echo.Echo) {
	known := []echo.MiddlewareFunc{s.authenticateLawyer, s.limitLawyer, limitHeader}
	middlewares := map[string][]echo.MiddlewareFunc{}
	for name, op := range s.desk.operations {
		middlewares[name] = slices.Concat(bodyFirst(op), known,
			[]echo.MiddlewareFunc{s.admitLawyer(desk.Act(name)), s.checkFormToken(op), checkParameters(op),
				s.checkBody(op)})
	}
	server.RegisterHandlersWithOptions(e, server.NewStrictHandler(lawyerDesk{s}, nil),
		server.RegisterHandlersOptions{OperationMiddlewares: middlewares})
	for _, path := range append(s.desk.routes(isDesk), "/api/desk/v1", "/api/desk/v1/*") {
		e.RouteNotFound(path, unknown(s.desk), known...)
	}
}

// authenticateLawyer identifies the lawyer of the session. Rejected sessions are counted by address, together with
// rejected access tokens.
func (s *Server) authenticateLawyer(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx, now := c.Request().Context(), s.deps.DB.Clock().Now()
		r := requestOf(ctx)
		bucket, quota := "401 "+r.network(), s.deps.Quotas.UnauthorizedPerMinute
		if k, err := c.Cookie(staff.CookieName(strings.HasPrefix(s.deps.BaseURL, "https:"))); err == nil {
			r.sessionToken = k.Value
		}
		var err error
		r.Session, err = s.deps.Staff.Session(ctx, s.deps.DB.Read(), r.sessionToken)
		switch {
		case errors.Is(err, staff.ErrNoSession):
			if r.rate = s.deps.Limiter.Allow(ctx, bucket, quota, now); !r.rate.Allowed {
				return errRate.After(r.rate.RetryAfter)
			}
			return errNoSession
		case err != nil:
			r.rate = s.deps.Limiter.Peek(ctx, bucket, quota, now) // the caller is unknown
			return err
		case r.Session.Person.Kind != staff.Lawyer:
			r.rate = s.deps.Limiter.Peek(ctx, bucket, quota, now)
			return desk.ErrForbidden
		}
		return next(c)
	}
}

// admitLawyer rejects actions that are not open to a suspended lawyer. Admitted requests record where they came from,
// because actions at the desk can send emails that name it. No other API sends such emails.
func (s *Server) admitLawyer(act desk.Act) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			ctx := c.Request().Context()
			err := s.deps.Desk.Admit(ctx, requestOf(ctx).Session, act)
			if errors.Is(err, desk.ErrOut) {
				return errNoSession
			}
			if err != nil {
				return err
			}
			r := requestOf(ctx)
			r.rests = desk.Acting{Session: r.Session, Act: act}.Premise
			c.SetRequest(c.Request().WithContext(mail.Caused(ctx, mail.Origin{UserAgent: r.UserAgent,
				Address: r.Address})))
			return next(c)
		}
	}
}

// limitLawyer counts the request for the lawyer.
func (s *Server) limitLawyer(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		ctx := c.Request().Context()
		r := requestOf(ctx)
		r.rate = s.deps.Limiter.Allow(ctx, "desk "+r.Session.Person.ID, s.deps.Quotas.ClientPerMinute,
			s.deps.DB.Clock().Now())
		if !r.rate.Allowed {
			return errRate.After(r.rate.RetryAfter)
		}
		return next(c)
	}
}

// checkFormToken rejects a change that does not come from a page of the desk.
func (s *Server) checkFormToken(op *operation) echo.MiddlewareFunc {
	needed := op.parameter("header", formTokenHeader) != nil
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if needed && !s.origins.Ours(c.Request()) {
				return errOrigin
			}
			want := staff.FormToken(requestOf(c.Request().Context()).sessionToken)
			if needed && subtle.ConstantTimeCompare([]byte(c.Request().Header.Get(formTokenHeader)),
				[]byte(want)) != 1 {
				return errFormToken
			}
			return next(c)
		}
	}
}

func sessionOf(ctx context.Context) staff.Session { return requestOf(ctx).Session }

// after responds to an action with the resulting state of the desk.
func (s lawyerDesk) after(ctx context.Context, session staff.Session, err error) (models.DeskState, error) {
	if err != nil {
		return models.DeskState{}, err
	}
	st, err := s.deps.Desk.State(ctx, s.deps.DB.Read(), session)
	return stateView(st), err
}

func stateView(st desk.State) models.DeskState {
	v := models.DeskState{Now: clock.Stamp(st.Now), Version: st.Version, Name: st.Name,
		Connection: models.DeskStateConnection(st.Connection), Presence: models.DeskStatePresence(st.Presence),
		Pausing: st.Pausing, InHand: st.InHand, Notes: make([]models.Case, len(st.Notes))}
	if st.Offer != nil {
		v.Offer = &models.Offer{ID: st.Offer.ID, CreatedAt: clock.Stamp(st.Offer.CreatedAt),
			ExpiresAt: clock.Stamp(st.Offer.ExpiresAt), Consultation: caseView(*st.Offered)}
	}
	if st.Hand != nil {
		hand := caseView(*st.Hand)
		v.Consultation = &hand
	}
	if st.Missed != nil {
		v.MissedCall = &models.MissedCall{At: clock.Stamp(st.Missed.StartedAt),
			Reason: models.MissedCallReason(st.Missed.Reason)}
	}
	if st.Left.Why != "" {
		v.LeftDuty = &models.LeftDuty{Reason: models.LeftDutyReason(st.Left.Why), At: clock.Stamp(st.Left.At)}
	}
	if st.Suspended {
		v.Suspended = &st.Suspended
	}
	if st.Waiting > 0 {
		v.Waiting = &st.Waiting
	}
	for i, n := range st.Notes {
		v.Notes[i] = caseView(n)
	}
	return v
}

func caseView(c consultation.Case) models.Case {
	v := models.Case{ID: c.ID, Status: models.CaseStatus(c.Status), Competence: c.Competence, Language: c.Language,
		Subject: c.Subject, Description: optional(c.Description), ClientName: c.ClientName,
		CreatedAt: clock.Stamp(c.CreatedAt), CallbackDueAt: (*clock.Stamp)(c.CallbackDueAt),
		AssignedAt: (*clock.Stamp)(c.AssignedAt), DialBy: (*clock.Stamp)(desk.DialBy(c.Consultation)),
		Attempts: c.Attempts(), CallStartedAt: (*clock.Stamp)(c.CallStartedAt), CallEndsAt: (*clock.Stamp)(c.CallCapAt),
		LineLostAt: (*clock.Stamp)(c.LineLostAt), LineGivenUpAt: (*clock.Stamp)(desk.LineGivenUpAt(c.Consultation)),
		CallEndedAt: (*clock.Stamp)(c.CallEndedAt), DurationSec: c.DurationSec}
	if c.Status == consultation.Assigned {
		v.NextAttemptAt, v.ChooseBy = (*clock.Stamp)(c.NextDialAt), (*clock.Stamp)(c.ChooseBy)
	}
	if c.Call != nil {
		state := models.CaseCall(c.Call.State)
		v.Call = &state
	}
	if c.Status == consultation.CallEnded {
		due := clock.Stamp(c.NoteDueAt())
		v.NoteDueAt = &due
	}
	return v
}

// GetState handles GET /api/desk/v1/state.
func (s lawyerDesk) GetState(ctx context.Context,
	_ server.GetStateRequestObject,
) (server.GetStateResponseObject, error) {
	st, err := s.deps.Desk.State(ctx, s.deps.DB.Read(), sessionOf(ctx))
	return server.GetState200JSONResponse{Body: stateView(st)}, err
}

// StreamEvents handles GET /api/desk/v1/events.
func (s lawyerDesk) StreamEvents(ctx context.Context,
	r server.StreamEventsRequestObject,
) (server.StreamEventsResponseObject, error) {
	q := requestOf(ctx)
	return eventStream(func(w http.ResponseWriter) error {
		out := &events{w: http.NewResponseController(w), to: w}
		err := s.deps.Desk.Follow(ctx, q.sessionToken, q.Session, text(r.Params.LastEventID), out,
			func() { q.stream = true; out.begin() })
		if errors.Is(err, desk.ErrSignedOut) {
			return out.write("event: signed-out\ndata:\n\n")
		}
		if q.stream {
			return errors.Join(err, out.end())
		}
		return err
	}), nil
}
