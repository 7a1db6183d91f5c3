package shell

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"partnerd/internal/base/seal"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/staff"
	"partnerd/internal/infra/idempotency"
	"partnerd/internal/infra/postgres"
	"partnerd/internal/infra/ratelimit"
	"partnerd/internal/server/edge"
)

// Deps contains the dependencies of every page.
type Deps struct {
	DB          *postgres.DB
	Box         *seal.Box // encrypts forms that are kept during a sign-in
	Accounts    *account.Service
	Staff       *staff.Service
	Idempotency *idempotency.Service
	Limiter     *ratelimit.Limiter
	Logger      *slog.Logger
	BaseURL     string // absolute
	Sandbox     bool

	Name            string // name of the service; defaults to partnerd
	Contact         string // URL of the contact; empty for none
	Logo            Logo   // the operator's logo; zero for none
	Legal           Legal  // the operator's legal pages
	LoginPerAccount int    // sign-in attempts per minute for one email address; 0 means 10
	LoginPerAddress int    // sign-in attempts per minute from one network address; 0 means 60
}

// Shell is what all pages share. The pages of each audience embed it.
type Shell struct {
	DB              *postgres.DB
	Logger          *slog.Logger
	BaseURL         string // absolute, without a trailing slash
	Sandbox         bool
	Secure          bool // cookies are Secure and named with __Host-
	Contact         string
	Legal           Legal
	LoginPerAccount int
	LoginPerAddress int
	Views           *Views           // the templates
	Scripts         map[string]asset // by name, without ".js"

	box         *seal.Box
	accounts    *account.Service
	staff       *staff.Service
	idempotency *idempotency.Service
	limiter     *ratelimit.Limiter
	logo        Logo
	style       asset
	origins     *edge.Origins
}

// New reads the templates and the texts. An error means that the program was built incorrectly.
func New(d Deps) (*Shell, error) {
	base, err := url.Parse(d.BaseURL)
	if err != nil {
		return nil, fmt.Errorf("read base URL: %w", err)
	}
	p := &Shell{DB: d.DB, Logger: d.Logger, BaseURL: strings.TrimSuffix(d.BaseURL, "/"), Sandbox: d.Sandbox,
		Secure: base.Scheme == "https", Contact: d.Contact, Legal: d.Legal,
		LoginPerAccount: cmp.Or(d.LoginPerAccount, 10), LoginPerAddress: cmp.Or(d.LoginPerAddress, 60),
		Scripts: map[string]asset{}, box: d.Box, accounts: d.Accounts, staff: d.Staff, idempotency: d.Idempotency,
		limiter: d.Limiter, logo: d.Logo}
	if p.origins, err = edge.NewOrigins(p.BaseURL); err != nil {
		return nil, err
	}
	if p.style, err = loadAsset("assets/style.css", "text/css; charset=utf-8"); err != nil {
		return nil, err
	}
	for _, name := range []string{"codes", "copy", "desk", "docs", "key", "local", "passkey", "reveal", "try"} {
		if p.Scripts[name], err = loadAsset("assets/"+name+".js", "text/javascript; charset=utf-8"); err != nil {
			return nil, err
		}
	}
	p.Views, err = NewViews(p.style.Path, Site{cmp.Or(d.Name, "partnerd"), d.Logo.Path, d.Contact, d.Legal.Pages()})
	return p, err
}
