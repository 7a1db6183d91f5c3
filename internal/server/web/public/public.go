package public

import (
	"sync"

	"github.com/labstack/echo/v4"

	"partnerd/internal/server/web/shell"
)

// Deps is what the pages that are the same for everybody need beside the shell.
type Deps struct {
	Contract        []byte // the contract of the Partner API, as it is published
	Platform        []byte // that of the Platform API
	Player          []byte // that of the Sandbox API; nil in live
	SecurityContact string // where to report a weakness, a URL; empty: nobody says
}

// Pages serves the pages that are the same for everybody.
type Pages struct {
	*shell.Shell
	deps Deps
	docs func() (docs, error) // made when it is first asked for
}

// New returns the pages.
func New(s *shell.Shell, d Deps) *Pages {
	p := &Pages{Shell: s, deps: d}
	p.docs = sync.OnceValues(p.newDocs)
	return p
}

// Register adds the pages that are the same for everybody.
func (p *Pages) Register(e *echo.Echo, read []string) {
	e.Match(read, "/", p.Page(p.home))
	if p.deps.SecurityContact != "" {
		e.Match(read, "/.well-known/security.txt", p.securityContact)
	}
	e.Match(read, "/accessibility", p.Page(p.accessibility))
	for _, page := range p.Legal.Pages() {
		e.Match(read, "/legal/"+page, p.Page(p.legal(page)))
	}
	e.Match(read, "/legal/waiver", p.Page(p.newestWaiver))
	e.Match(read, "/legal/waiver/:version", p.Page(p.waiver))
	p.registerDocs(e, read)
}

func (p *Pages) home(c echo.Context) error {
	return p.RenderPublic(c, "home", shell.View{Title: "home.title", Data: p.BaseURL})
}
