package httpapi

import (
	"errors"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"

	"partnerd/internal/problem"
	"partnerd/internal/telephony/twilio"
)

// callNotice takes a signed notice of the telephony provider. The answer tells the provider what to do on that leg, when it
// asks for that.
func (s *Server) callNotice(c echo.Context) error {
	if s.deps.Twilio == nil {
		return problem.ErrNotFound
	}
	r := c.Request()
	body, err := io.ReadAll(io.LimitReader(r.Body, twilio.MaxNotice+1))
	if err != nil || len(body) > twilio.MaxNotice {
		return problem.ErrMalformed.Because("The notice could not be read.")
	}
	document, err := s.deps.Twilio.Handle(r.Context(), twilio.Notice{CommandID: c.Param("command"), Kind: c.Param("kind"),
		Address: r.URL.RequestURI(), Body: body, Signature: r.Header.Get("X-Twilio-Signature")})
	switch {
	case errors.Is(err, twilio.ErrSignature):
		return writeJSON(c, http.StatusForbidden, map[string]string{"code": problem.ErrMalformed.Code, "message": "The signature is not the provider's."})
	case errors.Is(err, twilio.ErrMalformed):
		return problem.ErrMalformed.Because("The notice could not be read.")
	case errors.Is(err, twilio.ErrUnknown):
		return problem.ErrNotFound
	case err != nil:
		return err
	case document == "":
		return c.NoContent(http.StatusNoContent)
	}
	return c.Blob(http.StatusOK, "text/xml; charset=utf-8", []byte(document))
}
