package web

import (
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/status"
	"partnerd/internal/server/web/clients"
	"partnerd/internal/server/web/developers"
	"partnerd/internal/server/web/lawyers"
	"partnerd/internal/server/web/operators"
	"partnerd/internal/server/web/public"
	"partnerd/internal/server/web/shell"
	"partnerd/internal/server/web/signin"
)

// Deps contains the dependencies of the pages of each audience.
type Deps struct {
	Shell      shell.Deps
	SignIn     signin.Deps
	Public     public.Deps
	Clients    clients.Deps
	Lawyers    lawyers.Deps
	Operators  operators.Deps
	Developers developers.Deps
}

// Pages serves the HTML pages.
type Pages struct {
	shell      *shell.Shell
	signIn     *signin.Pages
	public     *public.Pages
	clients    *clients.Pages
	lawyers    *lawyers.Pages
	operators  *operators.Pages
	developers *developers.Pages
}

// New reads the templates and the texts. An error means that the program was built incorrectly.
func New(d Deps) (*Pages, error) {
	s, err := shell.New(d.Shell)
	if err != nil {
		return nil, fmt.Errorf("make the shell of the pages: %w", err)
	}
	door := signin.New(s, d.SignIn)
	p := &Pages{shell: s, signIn: door, public: public.New(s, d.Public), clients: clients.New(s, d.Clients),
		lawyers: lawyers.New(door, d.Lawyers), operators: operators.New(door, d.Operators),
		developers: developers.New(door, d.Developers)}
	door.Lawyers = p.lawyers
	return p, nil
}

// Register adds the routes of all pages except [Pages.Authorize], whose path belongs to the API.
func (p *Pages) Register(e *echo.Echo) {
	read := []string{http.MethodGet, http.MethodHead}
	p.shell.RegisterAssets(e, read)
	p.public.Register(e, read)
	p.clients.Register(e, read)
	p.lawyers.Register(e, read)
	p.signIn.Register(e, read)
	p.operators.Register(e, read)
	p.developers.Register(e, read)
}

// Authorize is the page on which a client decides about an application; see [clients.Pages.Authorize].
func (p *Pages) Authorize(c echo.Context) error { return p.clients.Authorize(c) }

// Error responds with the page for an HTTP status; see [shell.Shell.Error].
func (p *Pages) Error(c echo.Context, code int) error { return p.shell.Error(c, code) }

// StatusPage shows the status of the service; see [public.Pages.StatusPage].
func (p *Pages) StatusPage(c echo.Context, code int, r status.Report) error {
	return p.public.StatusPage(c, code, r)
}
