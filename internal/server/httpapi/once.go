package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"

	"github.com/labstack/echo/v4"

	"partnerd/internal/base/id"
)

// withEffect lists the operations of the Platform and Sandbox APIs that store their response in the transaction of
// their effect, because a repetition would add another effect. [Server.once] stores the responses of all other
// operations.
var withEffect = map[string]bool{
	"rotateClientSecret": true, "rotateSecret": true, "sendTestEvent": true, "redeliver": true,
	"createRedelivery": true, "createClient": true, "createLawyer": true,
}

// VisitRotateClientSecretResponse implements the generated interface.
func (s stored) VisitRotateClientSecretResponse(w http.ResponseWriter) error { return s.write(w) }

// VisitRotateSecretResponse implements the generated interface.
func (s stored) VisitRotateSecretResponse(w http.ResponseWriter) error { return s.write(w) }

// VisitSendTestEventResponse implements the generated interface.
func (s stored) VisitSendTestEventResponse(w http.ResponseWriter) error { return s.write(w) }

// VisitRedeliverResponse implements the generated interface.
func (s stored) VisitRedeliverResponse(w http.ResponseWriter) error { return s.write(w) }

// VisitCreateRedeliveryResponse implements the generated interface.
func (s stored) VisitCreateRedeliveryResponse(w http.ResponseWriter) error { return s.write(w) }

// VisitCreateClientResponse implements the generated interface.
func (s stored) VisitCreateClientResponse(w http.ResponseWriter) error { return s.write(w) }

// VisitCreateLawyerResponse implements the generated interface.
func (s stored) VisitCreateLawyerResponse(w http.ResponseWriter) error { return s.write(w) }

// once stores the response of an operation that was sent with an idempotency key, and replays it for a retry. The
// operation has its own transactions. While it runs, a retry waits.
func (s *Server) once(op *operation) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			ctx := c.Request().Context()
			r := requestOf(ctx)
			if r.Idempotency.Key == "" || withEffect[op.id] {
				return next(c)
			}
			plain := c.Response()
			response, err := s.deps.Idempotency.Alone(ctx, r.Idempotency, func(context.Context) (int, any, error) {
				w := &recorder{header: plain.Header()}
				c.SetResponse(echo.NewResponse(w, c.Echo()))
				defer c.SetResponse(plain)
				err := next(c)
				return w.status, json.RawMessage(bytes.TrimSpace(w.body.Bytes())), err
			})
			if err != nil {
				return err
			}
			return keep(r, response).write(plain)
		}
	}
}

// recorder captures a response that is stored before it is sent. Its headers are those of the sent response.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

// fingerprintOf returns the fingerprint of a request without a body. Package idempotency computes the one of a body.
func fingerprintOf(r *http.Request) id.Digest { return id.DigestOf(target(r)) }

// target returns what identifies a request besides its body.
func target(r *http.Request) string {
	if r.URL.RawQuery == "" {
		return r.URL.Path
	}
	return r.URL.Path + "?" + r.URL.RawQuery
}
