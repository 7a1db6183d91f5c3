package web

import (
	"net/http"
	"strings"
	"testing"

	"partnerd/internal/infra/postgres"
	"partnerd/internal/server/web/clients"
)

func TestTheRefundPageNamesTheAmount(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	paid := f.newCheckout(5000)
	f.tx(func(tx postgres.Tx) {
		if err := f.provider.Pay(t.Context(), tx, paid.ID); err != nil {
			t.Fatal(err)
		}
	})
	f.report(paid)
	b := f.browser().signIn(f.client.Email)
	b.get("/account/wallet/refund").want(t, http.StatusOK, "€50.00", `action="/account/wallet/refund"`)
}

func TestACancelledConsultationIsNotCalledPerformed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	b, at := f.browser().signIn(f.client.Email), clients.ConsultationPath(f.start().ID)
	b.send(at+"/cancel", at+"/cancel").want(t, http.StatusSeeOther)
	p := b.get(at + "/withdraw")
	if p.want(t, http.StatusOK, "cancelled or has expired"); strings.Contains(p.body, "performed") {
		t.Error(p.body)
	}
}

func TestAPageForOthersLeadsToTheReadersOwn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.member("").get("/ops").want(t, http.StatusForbidden, `<a class="button quiet" href="/developers">`)
}
