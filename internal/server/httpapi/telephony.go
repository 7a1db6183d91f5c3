package httpapi

import (
	"errors"
	"io"
	"net/http"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/problem"
	"partnerd/internal/domain/telephony"
)

// callNotice handles a signed status callback of the telephony provider. If the provider asks what to do on that leg,
// the response contains the instructions.
func (s *Server) callNotice(c echo.Context) error {
	r := c.Request()
	body, err := io.ReadAll(io.LimitReader(r.Body, telephony.MaxNotice+1))
	if err != nil || len(body) > telephony.MaxNotice {
		return problem.ErrMalformed.Because("The status callback could not be read.")
	}
	reply, err := s.deps.Calls.Handle(r.Context(), telephony.Notice{CommandID: c.Param("command"),
		Kind: c.Param("kind"), Address: r.URL.RequestURI(), Header: r.Header, Body: body})
	switch {
	case errors.Is(err, telephony.ErrSignature):
		return writeJSON(c, http.StatusForbidden,
			map[string]string{"code": problem.ErrMalformed.Code, "message": "The signature is not the provider's."})
	case errors.Is(err, telephony.ErrMalformed):
		return problem.ErrMalformed.Because("The status callback could not be read.")
	case errors.Is(err, telephony.ErrUnknown):
		return problem.ErrNotFound
	case err != nil:
		return err
	case reply.Body == "":
		return c.NoContent(http.StatusNoContent)
	}
	return c.Blob(http.StatusOK, reply.ContentType, []byte(reply.Body))
}
