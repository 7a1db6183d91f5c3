package public

import (
	"io/fs"
	"sync"

	"github.com/labstack/echo/v4"

	"partnerd/internal/server/manual"
	"partnerd/internal/server/web/shell"
)

// Deps contains the dependencies of the public pages besides the shell.
type Deps struct {
	Contract        []byte           // published contract of the Partner API
	Platform        []byte           // of the Platform API
	Player          []byte           // of the Sandbox API; nil in live
	Packages        manual.Downloads // packages for partners; empty for none
	PackagesFolder  fs.FS            // folder of the packages; nil for none
	SecurityContact string           // URL for reporting a vulnerability; empty for none
}

// Pages serves the public pages.
type Pages struct {
	*shell.Shell
	deps Deps
	docs func() (docs, error) // created on first use
}

// New creates the pages.
func New(s *shell.Shell, d Deps) *Pages {
	p := &Pages{Shell: s, deps: d}
	p.docs = sync.OnceValues(p.newDocs)
	return p
}

// Register adds the public pages.
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
	p.registerDownloads(e, read)
}

func (p *Pages) home(c echo.Context) error {
	return p.RenderPublic(c, "home", shell.View{Title: "home.title", Data: p.BaseURL})
}
