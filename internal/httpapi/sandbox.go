package httpapi

import (
	"context"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/gen/sandbox/models"
	"partnerd/gen/sandbox/server"
)

// player implements the Sandbox API: how a partner plays what takes long. It authenticates and counts as the Platform API does.
type player struct{ *Server }

var _ server.StrictServerInterface = player{}

const (
	advancesPerMinute = 120
	purposeClock      = "clock"
)

// registerSandbox adds the routes of the Sandbox API, behind what finds out who calls.
func (s *Server) registerSandbox(e *echo.Echo, known []echo.MiddlewareFunc) {
	middlewares := map[string][]echo.MiddlewareFunc{}
	for name, op := range s.sandbox.operations {
		middlewares[name] = append(slices.Clone(known), checkParameters(op), s.checkBody(op))
	}
	server.RegisterHandlersWithOptions(e, server.NewStrictHandler(player{s}, nil), server.RegisterHandlersOptions{OperationMiddlewares: middlewares})
}

// AdvanceClock answers POST /api/platform/v1/sandbox/clock/advance.
func (s player) AdvanceClock(ctx context.Context, r server.AdvanceClockRequestObject) (server.AdvanceClockResponseObject, error) {
	if err := s.limitPurpose(ctx, purposeClock, advancesPerMinute); err != nil {
		return nil, err
	}
	passed, err := s.deps.Clock.Advance(ctx, requestOf(ctx).Principal.ApplicationID, time.Duration(r.Body.Seconds)*time.Second)
	if err != nil {
		return nil, err
	}
	done := int64(passed / time.Second)
	return server.AdvanceClock200JSONResponse{Body: models.AdvancedClock{AdvancedSeconds: done, RemainingSeconds: r.Body.Seconds - done}}, nil
}
