package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/clock"
	"partnerd/internal/base/problem"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/status"
)

const maxNotice = 64 << 10

// health reports that the process responds.
func (s *Server) health(c echo.Context) error {
	return writeJSON(c, http.StatusOK, map[string]string{"status": "ok"})
}

// ready reports whether the process can serve: the database responds and the process is not shutting down. The server
// of the rate limits does not matter here, because limits also work without it.
func (s *Server) ready(c echo.Context) error {
	if err := s.reachDatabase(c); err != nil {
		s.deps.Logger.Warn("not ready", "error", err)
		return writeJSON(c, http.StatusServiceUnavailable, map[string]string{"status": "unavailable",
			"database": "unreachable"})
	}
	if s.deps.Ending != nil && s.deps.Ending() {
		return writeJSON(c, http.StatusServiceUnavailable, map[string]string{"status": "ending", "database": "ok"})
	}
	return writeJSON(c, http.StatusOK, map[string]string{"status": "ok", "database": "ok"})
}

func (s *Server) reachDatabase(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), 2*time.Second)
	defer cancel()
	return s.deps.DB.Ping(ctx)
}

// status reports the current and past state of the service and its environment (decision H59). It responds with a page
// if the caller asks for one, and with JSON otherwise.
func (s *Server) status(c echo.Context) error {
	report := s.deps.Status.Report(c.Request().Context())
	code := http.StatusOK
	if report.State == status.Unavailable {
		code = http.StatusServiceUnavailable
	}
	h := c.Response().Header()
	h.Set("Cache-Control", "no-store")
	h.Add("Vary", "Accept")
	if c.Request().URL.Path == "/status" && strings.Contains(c.Request().Header.Get("Accept"), "text/html") {
		return s.deps.StatusPage(c, code, report)
	}
	environment := "live"
	if s.deps.Test {
		environment = "sandbox"
	}
	return writeJSON(c, code, statusView{Status: report.State, Environment: environment,
		Consultations: served(s.deps.Consultations.Served()), TopUps: served(s.deps.Payments.Available()),
		Time: clock.Format(report.At), Parts: report.Parts, Days: dayViews(report.Days)})
}

// statusView is the state of the service in machine-readable form.
type statusView struct {
	Status        status.State                 `json:"status"`
	Environment   string                       `json:"environment"`
	Consultations string                       `json:"consultations"`
	TopUps        string                       `json:"topUps"`
	Time          string                       `json:"time"`
	Parts         map[status.Part]status.State `json:"parts"`
	Days          []dayView                    `json:"days"` // oldest first
}

// dayView is one day of the history. Values that were not measured, or are not known yet, are null.
type dayView struct {
	Date          string   `json:"date"`
	MinutesWorked *int     `json:"minutesWorked"`
	MinutesOf     *int     `json:"minutesOf"`
	Asked         *int     `json:"asked"`
	Within30m     *int     `json:"within30m"`
	Within24h     *int     `json:"within24h"`
	Breaches      *int     `json:"breaches"`
	Events        *int     `json:"events"`
	LagMedianMS   *float64 `json:"lagMedianMs"`
	Lag95thMS     *float64 `json:"lag95thMs"`
}

func dayViews(days []status.Day) []dayView {
	list := []dayView{}
	for _, d := range days {
		v := dayView{Date: d.Date.Format(time.DateOnly)}
		if d.Measured {
			v.MinutesWorked, v.MinutesOf = &d.Minutes, &d.Of
		}
		if d.Counted {
			v.Asked, v.Within30m, v.Within24h, v.Breaches, v.Events = &d.Asked, &d.Within30m, &d.Within24h, &d.Breaches,
				&d.Events
			v.LagMedianMS, v.Lag95thMS = d.LagMedianMS, d.Lag95thMS
		}
		list = append(list, v)
	}
	return list
}

func served(yes bool) string {
	if yes {
		return "available"
	}
	return "unavailable"
}

// paymentNotice handles a signed webhook of a payment provider. A 2xx response tells the provider not to send it again.
func (s *Server) paymentNotice(c echo.Context) error {
	body, err := io.ReadAll(io.LimitReader(c.Request().Body, maxNotice+1))
	if err != nil || len(body) > maxNotice {
		return problem.ErrMalformed.Because("The webhook could not be read.")
	}
	err = s.deps.Payments.HandleNotice(c.Request().Context(), c.Param("provider"), body,
		c.Request().Header.Get(s.deps.Payments.SignatureHeader(c.Param("provider"))))
	switch {
	case errors.Is(err, payment.ErrBadSignature), errors.Is(err, payment.ErrBadNotice):
		return problem.ErrMalformed.Because("The webhook was rejected: %s.", err)
	case errors.Is(err, payment.ErrUnknownProvider):
		return problem.ErrNotFound
	case err != nil:
		return err
	}
	return c.NoContent(http.StatusNoContent)
}
