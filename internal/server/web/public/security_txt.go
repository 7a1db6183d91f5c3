package public

import (
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// securityContact serves /.well-known/security.txt (RFC 9116). Its expiry date is computed on each request.
func (p *Pages) securityContact(c echo.Context) error {
	return c.String(http.StatusOK,
		fmt.Sprintf("Contact: %s\nExpires: %s\nCanonical: %s/.well-known/security.txt\nPreferred-Languages: fr, en\n",
			p.deps.SecurityContact, p.DB.Clock().Now().Add(90*24*time.Hour).UTC().Format(time.RFC3339),
			p.BaseURL))
}
