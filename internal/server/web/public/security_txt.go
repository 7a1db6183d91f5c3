package public

import (
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// securityContact is /.well-known/security.txt (RFC 9116), which is true for as long as the service says so.
func (p *Pages) securityContact(c echo.Context) error {
	return c.String(http.StatusOK,
		fmt.Sprintf("Contact: %s\nExpires: %s\nCanonical: %s/.well-known/security.txt\nPreferred-Languages: fr, en\n",
			p.deps.SecurityContact, p.DB.Clock().Now().Add(90*24*time.Hour).UTC().Format(time.RFC3339),
			p.BaseURL))
}
