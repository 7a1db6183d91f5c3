package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/clock"
	"partnerd/internal/payment"
	"partnerd/internal/problem"
)

const maxNotice = 64 << 10

// health tells that the process answers.
func (s *Server) health(c echo.Context) error {
	return writeJSON(c, http.StatusOK, map[string]string{"status": "ok"})
}

// ready tells that the process can serve: the database answers.
func (s *Server) ready(c echo.Context) error {
	if err := s.reachDatabase(c); err != nil {
		s.deps.Logger.Warn("not ready", "error", err)
		return writeJSON(c, http.StatusServiceUnavailable, map[string]string{"status": "unavailable", "database": "unreachable"})
	}
	return writeJSON(c, http.StatusOK, map[string]string{"status": "ok", "database": "ok"})
}

func (s *Server) reachDatabase(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), 2*time.Second)
	defer cancel()
	return s.deps.DB.Ping(ctx)
}

// status tells a partner, or a page that watches the service, how it is and which environment answers (decision H59). What a
// deployment refuses because a provider is not there makes it limited.
func (s *Server) status(c echo.Context) error {
	state, code := "operational", http.StatusOK
	if s.reachDatabase(c) != nil {
		state, code = "unavailable", http.StatusServiceUnavailable
	}
	if state == "operational" && !(s.deps.Consultations.Served() && s.deps.Payments.Available()) {
		state = "limited"
	}
	environment := "live"
	if s.deps.Test {
		environment = "sandbox"
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	return writeJSON(c, code, map[string]string{"status": state, "environment": environment,
		"consultations": served(s.deps.Consultations.Served()), "topUps": served(s.deps.Payments.Available()), "time": clock.Format(s.deps.DB.Clock().Now())})
}

func served(yes bool) string {
	if yes {
		return "available"
	}
	return "unavailable"
}

// paymentNotice takes a signed notice of a payment provider. 2xx tells the provider not to send it again.
func (s *Server) paymentNotice(c echo.Context) error {
	body, err := io.ReadAll(io.LimitReader(c.Request().Body, maxNotice+1))
	if err != nil || len(body) > maxNotice {
		return problem.ErrMalformed.Because("The notice could not be read.")
	}
	err = s.deps.Payments.HandleNotice(c.Request().Context(), c.Param("provider"), body, c.Request().Header.Get(s.deps.Payments.SignatureHeader(c.Param("provider"))))
	switch {
	case errors.Is(err, payment.ErrBadSignature), errors.Is(err, payment.ErrBadNotice):
		return problem.ErrMalformed.Because("The notice is not acceptable: %s.", err)
	case errors.Is(err, payment.ErrUnknownProvider):
		return problem.ErrNotFound
	case err != nil:
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
