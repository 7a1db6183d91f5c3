package app

import (
	"net"
	"net/http"
	"net/url"
	"os"

	"github.com/labstack/echo/v4"

	"partnerd/internal/server/edge"
	"partnerd/internal/server/httpapi"
	"partnerd/internal/server/manual"
	"partnerd/internal/server/web"
	"partnerd/internal/server/web/clients"
	"partnerd/internal/server/web/developers"
	"partnerd/internal/server/web/lawyers"
	"partnerd/internal/server/web/operators"
	"partnerd/internal/server/web/public"
	"partnerd/internal/server/web/shell"
	"partnerd/internal/server/web/signin"
	"partnerd/openapi"
)

// Handler returns the HTTP handler of the program.
func (a *App) Handler() (http.Handler, error) {
	e, err := a.routes()
	if err != nil {
		return nil, err
	}
	return edge.Handler(e, "/api/v1/", "/api/platform/v1/", "/api/desk/v1/"), nil
}

func (a *App) routes() (*echo.Echo, error) {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.IPExtractor = a.addressOf()
	pages, err := a.pages()
	if err != nil {
		return nil, err
	}
	api, err := httpapi.New(httpapi.Deps{
		DB: a.DB, Logger: a.Logger, Ending: a.ending.Load, Metrics: a.requests, Tracer: a.telemetry.Tracer(),
		Calls: a.Calls, Accounts: a.Accounts, Access: a.Access, Requests: a.Requests, Conformance: a.Conformance,
		OAuth: a.OAuth, Catalog: a.Catalog, Wallet: a.Wallet, Payments: a.Payments, Consultations: a.Consultations,
		Staff: a.Staff, Desk: a.Desk, Idempotency: a.Idempotency, Limiter: a.limiter, Applications: a.Applications,
		Portal: a.Portal, Webhooks: a.Webhooks,
		Quotas: httpapi.Quotas{ApplicationPerMinute: a.Config.RateApplication, ClientPerMinute: a.Config.RateClient,
			UnauthorizedPerMinute: a.Config.RateUnauthorized, TokenFailurePerMinute: a.Config.RateTokenFailures},
		BaseURL: a.Config.BaseURL, Contact: a.Config.Contact, CursorKey: a.cursor, Test: a.Config.Sandbox(),
		Clock: a.SimulatedClock, TestClients: a.TestClients, Crews: a.Crews, Inbox: a.Inbox, Authorize: pages.Authorize,
		ErrorPage: pages.Error, Status: a.Status, StatusPage: pages.StatusPage,
	})
	if err != nil {
		return nil, err
	}
	api.Register(e)
	pages.Register(e)
	return e, nil
}

// addressOf extracts the caller's address: from the connection or, behind trusted proxies, from X-Forwarded-For.
func (a *App) addressOf() echo.IPExtractor {
	proxies, err := a.Config.Proxies()
	if err != nil || len(proxies) == 0 { // Config.Check has already rejected an error
		return echo.ExtractIPDirect()
	}
	options := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, p := range proxies {
		options = append(options, echo.TrustIPRange(&net.IPNet{IP: p.Masked().Addr().AsSlice(),
			Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}))
	}
	return echo.ExtractIPFromXFFHeader(options...)
}

// pages creates the HTML pages, each audience with the services that it needs.
func (a *App) pages() (*web.Pages, error) {
	logo, err := a.Config.Logo()
	if err != nil {
		return nil, err
	}
	d := web.Deps{
		Shell: shell.Deps{DB: a.DB, Box: a.box, Accounts: a.Accounts, Staff: a.Staff, Idempotency: a.Idempotency,
			Limiter: a.limiter, Logger: a.Logger, BaseURL: a.Config.BaseURL, Sandbox: a.Config.Sandbox(),
			Name: a.Config.ServiceName, Contact: a.Config.Contact, Logo: logo},
		SignIn: signin.Deps{Desk: a.Desk, Idempotency: a.Idempotency, Staff: a.Staff},
		Public: public.Deps{Contract: openapi.Published(openapi.Partner, a.Config.BaseURL),
			Platform: openapi.Published(openapi.Platform, a.Config.BaseURL), SecurityContact: a.Config.SecurityContact},
		Clients: clients.Deps{Access: a.Access, Accounts: a.Accounts, Applications: a.Applications, Catalog: a.Catalog,
			Consultations: a.Consultations, OAuth: a.OAuth, Payments: a.Payments, Privacy: a.Privacy,
			SelfService: a.SelfService, Wallet: a.Wallet},
		Lawyers: lawyers.Deps{Catalog: a.Catalog, Desk: a.Desk},
		Operators: operators.Deps{Accounts: a.Accounts, Applications: a.Applications, Books: a.Books,
			Catalog: a.Catalog, Consultations: a.Consultations, Idempotency: a.Idempotency, Lawyers: a.Lawyers,
			OAuth: a.OAuth, Operator: a.Operator, Payments: a.Payments, Portal: a.Portal, SelfService: a.SelfService,
			Staff: a.Staff, Wallet: a.Wallet, Webhooks: a.Webhooks},
		Developers: developers.Deps{Catalog: a.Catalog, Clock: a.SimulatedClock, Conformance: a.Conformance,
			Portal: a.Portal, Requests: a.Requests, Staff: a.Staff, Webhooks: a.Webhooks},
	}
	if a.TestClients != nil {
		d.Developers.Playground = &developers.Playground{Clients: a.TestClients, Inbox: a.Inbox, Crews: a.Crews}
	}
	if a.Config.LegalDir != "" {
		if d.Shell.Legal, err = shell.ReadLegal(os.DirFS(a.Config.LegalDir)); err != nil {
			return nil, err
		}
	}
	if a.Config.DownloadsDir != "" {
		d.Public.PackagesFolder = os.DirFS(a.Config.DownloadsDir)
		if d.Public.Packages, err = manual.ReadDownloads(d.Public.PackagesFolder); err != nil {
			return nil, err
		}
	}
	if base, err := url.Parse(a.Config.BaseURL); err == nil && a.Config.Sandbox() && a.Config.MailServer == "" &&
		(base.Hostname() == "localhost" || base.Hostname() == "127.0.0.1") {
		d.Developers.MailFolder = a.Config.Path("mail")
	}
	if a.SimulatedPayments != nil {
		d.Clients.SandboxPayments = a.SimulatedPayments
		d.Public.Player = openapi.Published(openapi.Sandbox, a.Config.BaseURL)
	}
	return web.New(d)
}
