package clients

import (
	"github.com/labstack/echo/v4"

	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/catalog"
	"partnerd/internal/domain/consultation"
	"partnerd/internal/domain/oauth"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/privacy"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/access"
	"partnerd/internal/server/web/shell"
)

// Deps contains the dependencies of the client pages besides the shell.
type Deps struct {
	Access          *access.Log
	Accounts        *account.Service
	Applications    *application.Service
	Catalog         *catalog.Service
	Consultations   *consultation.Service
	OAuth           *oauth.Service
	Payments        *payment.Service
	Privacy         *privacy.Service
	SandboxPayments SandboxPayments // nil in a live deployment
	SelfService     *account.SelfService
	Wallet          *wallet.Service
}

// Pages serves the client pages.
type Pages struct {
	*shell.Shell
	deps Deps
}

// New creates the pages.
func New(s *shell.Shell, d Deps) *Pages { return &Pages{Shell: s, deps: d} }

// Register adds the pages of clients.
func (p *Pages) Register(e *echo.Echo, read []string) {
	e.Match(read, "/login", p.Page(p.loginForm))
	e.POST("/login", p.Page(p.SignInOnce(p.OwnForm, p.clientOn, p.login)))
	e.POST("/logout", p.Page(p.VisitorOnce(p.OwnForm, p.logout)))
	e.POST(shell.ConsentPath, p.Page(p.consent))
	e.Match(read, "/checkout/:id", p.Page(p.checkout))
	e.POST("/checkout/:id", p.Page(p.decideCheckout))
	e.Match(read, "/signup", p.Page(p.signUpForm))
	e.POST("/signup", p.Page(p.SignInOnce(p.OwnForm, p.clientOn, p.signUp)))
	e.Match(read, "/signup/confirm", p.Page(p.openLink(p.confirmSignUpPage())))
	e.POST("/signup/confirm", p.Page(p.VisitorOnce(p.OwnForm, p.useLink(p.confirmSignUpPage()))))
	e.Match(read, "/password/forgot", p.Page(p.forgotForm))
	e.POST("/password/forgot", p.Page(p.SignInOnce(p.OwnForm, p.clientOn, p.forgot)))
	e.Match(read, "/password/reset", p.Page(p.openLink(p.resetPage())))
	e.POST("/password/reset", p.Page(p.VisitorOnce(p.OwnForm, p.useLink(p.resetPage()))))
	e.Match(read, "/email/undo", p.Page(p.openLink(p.undoEmailPage())))
	e.POST("/email/undo", p.Page(p.VisitorOnce(p.OwnForm, p.useLink(p.undoEmailPage()))))
	if p.deps.SelfService.HasPasskeys() {
		e.Match(read, "/login/passkey", p.Page(p.passkeyLoginForm))
		e.POST("/login/passkey", p.Page(p.SignInOnce(p.OwnForm, p.clientOn, p.passkeyLogin)))
		e.Match(read, "/account/security/passkeys", p.fresh(p.newPasskeyForm))
		e.POST("/account/security/passkeys", p.fresh(p.mineOnce(p.addPasskey)))
		e.POST("/account/security/passkeys/:id/remove", p.fresh(p.mineOnce(p.removePasskey)))
	}
	e.Match(read, "/account", p.mine(p.overview))
	e.Match(read, "/account/apps", p.mine(p.apps))
	e.POST("/account/apps/:id/disconnect", p.mine(p.mineOnce(p.disconnect)))
	e.Match(read, "/account/security", p.mine(p.security))
	e.POST("/account/security/password", p.mine(p.mineOnce(p.changePassword)))
	e.Match(read, EmailFormAddress, p.mine(p.emailForm))
	e.POST(EmailFormAddress, p.mine(p.mineOnce(p.requestEmail)))
	e.Match(read, EmailFormAddress+"/confirm", p.mine(p.confirmEmailForm))
	e.POST(EmailFormAddress+"/confirm", p.mine(p.mineOnce(p.confirmEmail)))
	e.POST("/account/security/sessions/end", p.mine(p.mineOnce(p.endOtherSessions)))
	e.POST("/account/security/sessions/:id/end", p.mine(p.mineOnce(p.endSession)))
	e.Match(read, "/account/phone", p.fresh(p.phone))
	e.POST("/account/phone", p.fresh(p.mineOnce(p.sendCode)))
	e.POST("/account/phone/code", p.fresh(p.mineOnce(p.enterCode)))
	e.POST("/account/phone/zone", p.fresh(p.mineOnce(p.setZone)))
	e.Match(read, "/account/wallet", p.mine(p.wallet))
	e.POST("/account/wallet/topup", p.mine(p.mineOnce(p.topUp)))
	e.POST("/account/wallet/topups/:id/cancel", p.mine(p.mineOnce(p.cancelTopUp)))
	e.Match(read, "/account/wallet/statement/:month", p.mine(p.statement))
	e.Match(read, "/account/wallet/refund", p.fresh(p.refundForm))
	e.POST("/account/wallet/refund", p.fresh(p.mineOnce(p.refund)))
	e.Match(read, "/account/consultations", p.mine(p.consultations))
	e.Match(read, "/account/consultations/:id", p.mine(p.consultation))
	e.Match(read, "/account/consultations/:id/proof.json", p.mine(p.proof))
	e.Match(read, "/account/consultations/:id/cancel", p.mine(p.cancelForm))
	e.POST("/account/consultations/:id/cancel", p.mine(p.mineOnce(p.cancel)))
	e.Match(read, "/account/consultations/:id/withdraw", p.mine(p.withdrawForm))
	e.POST("/account/consultations/:id/withdraw", p.mine(p.mineOnce(p.withdraw)))
	e.Match(read, "/account/privacy", p.mine(p.privacy))
	e.Match(read, "/account/privacy/export", p.fresh(p.export))
	e.Match(read, "/account/privacy/erase", p.fresh(p.eraseForm))
	e.POST("/account/privacy/erase", p.fresh(p.erase))
	e.POST("/account/privacy/return", p.fresh(p.mineOnce(p.returnMoney)))
}
