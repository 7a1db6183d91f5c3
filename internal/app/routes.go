package app

import (
	"net"
	"net/http"
	"net/url"
	"os"

	"github.com/labstack/echo/v4"

	"partnerd/internal/server/edge"
	"partnerd/internal/server/httpapi"
	"partnerd/internal/server/web"
	"partnerd/openapi"
)

// Handler makes the HTTP side.
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
	d := web.Deps{
		SecurityContact: a.Config.SecurityContact,
		DB:              a.DB, Box: a.box, Accounts: a.Accounts, Applications: a.Applications, OAuth: a.OAuth,
		Wallet: a.Wallet, Payments: a.Payments, Books: a.Books, SelfService: a.SelfService, Staff: a.Staff,
		Operator: a.Operator, Lawyers: a.Lawyers, Webhooks: a.Webhooks, Portal: a.Portal, Idempotency: a.Idempotency,
		Requests: a.Requests, Conformance: a.Conformance, Clock: a.SimulatedClock, Access: a.Access, Privacy: a.Privacy,
		Consultations: a.Consultations, Desk: a.Desk, Catalog: a.Catalog, Limiter: a.limiter, Logger: a.Logger,
		BaseURL: a.Config.BaseURL, Sandbox: a.Config.Sandbox(),
		Contract: openapi.Published(openapi.Partner, a.Config.BaseURL),
		Platform: openapi.Published(openapi.Platform, a.Config.BaseURL),
		Name:     a.Config.ServiceName, Contact: a.Config.Contact,
	}
	if a.TestClients != nil {
		d.Playground = &web.Playground{Clients: a.TestClients, Inbox: a.Inbox, Crews: a.Crews}
	}
	logo, err := a.Config.logo()
	if err != nil {
		return nil, err
	}
	d.Logo = logo
	if a.Config.LegalDir != "" {
		legal, err := web.ReadLegal(os.DirFS(a.Config.LegalDir))
		if err != nil {
			return nil, err
		}
		d.Legal = legal
	}
	if base, err := url.Parse(a.Config.BaseURL); err == nil && a.Config.Sandbox() && a.Config.MailServer == "" &&
		(base.Hostname() == "localhost" || base.Hostname() == "127.0.0.1") {
		d.MailFolder = a.Config.path("mail")
	}
	if a.SimulatedPayments != nil {
		d.SandboxPayments, d.Player = a.SimulatedPayments, openapi.Published(openapi.Sandbox, a.Config.BaseURL)
	}
	pages, err := web.New(d)
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

// addressOf reads the caller's address: from the connection, or behind trusted proxies from X-Forwarded-For.
func (a *App) addressOf() echo.IPExtractor {
	proxies, err := a.Config.proxies()
	if err != nil || len(proxies) == 0 { // Config.Check has refused a fault
		return echo.ExtractIPDirect()
	}
	options := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, p := range proxies {
		options = append(options, echo.TrustIPRange(&net.IPNet{IP: p.Masked().Addr().AsSlice(),
			Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}))
	}
	return echo.ExtractIPFromXFFHeader(options...)
}
