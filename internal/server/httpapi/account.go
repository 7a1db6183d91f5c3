package httpapi

import (
	"context"
	"net/http"

	"partnerd/gen/partner/models"
	"partnerd/gen/partner/server"
	"partnerd/internal/base/clock"
	"partnerd/internal/base/money"
	"partnerd/internal/domain/catalog"
	"partnerd/internal/domain/payment"
	"partnerd/internal/domain/wallet"
	"partnerd/internal/infra/postgres"
)

// GetProfile handles GET /api/v1/me.
func (s *Server) GetProfile(ctx context.Context,
	_ server.GetProfileRequestObject,
) (server.GetProfileResponseObject, error) {
	c, err := s.deps.Accounts.Get(ctx, s.deps.DB.Read(), requestOf(ctx).Principal.ClientID)
	if err != nil {
		return nil, err
	}
	return server.GetProfile200JSONResponse{Body: models.Profile{ID: c.ID, Name: c.Name, Email: c.Email,
		PhoneVerified: c.PhoneVerified}}, nil
}

// GetWallet handles GET /api/v1/wallet.
func (s *Server) GetWallet(ctx context.Context,
	_ server.GetWalletRequestObject,
) (server.GetWalletResponseObject, error) {
	b, err := s.deps.Wallet.Balance(ctx, s.deps.DB.Read(), requestOf(ctx).Principal.ClientID)
	if err != nil {
		return nil, err
	}
	return server.GetWallet200JSONResponse{Body: models.Wallet{
		BalanceCents: int64(b.Balance), AvailableCents: int64(b.Available), HeldCents: int64(b.Held),
		Currency: money.Currency}}, nil
}

// ListWalletTransactions handles GET /api/v1/wallet/transactions, newest first. The history covers the whole wallet of
// the client, but the consultations of other applications are not named (T29).
func (s *Server) ListWalletTransactions(ctx context.Context,
	r server.ListWalletTransactionsRequestObject,
) (server.ListWalletTransactionsResponseObject, error) {
	p := requestOf(ctx).Principal
	list := "transactions:" + p.ClientID
	var before int64
	if err := s.cursors.decode(list, r.Params.Cursor, &before); err != nil {
		return nil, err
	}
	items, more, err := s.deps.Wallet.Transactions(ctx, s.deps.DB.Read(), p.ClientID, before, *r.Params.Limit)
	if err != nil {
		return nil, err
	}
	page := models.WalletTransactionPage{Items: make([]models.WalletTransaction, len(items))}
	for i, t := range items {
		page.Items[i] = transactionView(t, p.ApplicationID)
	}
	if more {
		if page.NextCursor, err = s.cursors.encode(list, items[len(items)-1].Seq); err != nil {
			return nil, err
		}
	}
	return server.ListWalletTransactions200JSONResponse{Body: page}, nil
}

func transactionView(t wallet.Transaction, applicationID string) models.WalletTransaction {
	v := models.WalletTransaction{
		ID: t.ID, Type: models.TransactionType(t.Type), AmountCents: int64(t.Amount), Currency: money.Currency,
		BalanceAfterCents: int64(t.BalanceAfter), AvailableAfterCents: int64(t.AvailableAfter),
		Description: t.Description, CreatedAt: clock.Stamp(t.CreatedAt),
	}
	if t.ConsultationID != "" && t.ApplicationID == applicationID {
		v.ConsultationID = &t.ConsultationID
	}
	return v
}

// CreateTopupSession handles POST /api/v1/wallet/topup-session.
func (s *Server) CreateTopupSession(ctx context.Context,
	r server.CreateTopupSessionRequestObject,
) (server.CreateTopupSessionResponseObject, error) {
	p := requestOf(ctx).Principal
	create := func(tx postgres.Tx) (int, any, error) {
		session, err := s.deps.Payments.Create(ctx, tx, payment.CreateCommand{
			ClientID: p.ClientID, ApplicationID: p.ApplicationID, Amount: money.Cents(r.Body.AmountCents),
			ReturnURL: r.Body.ReturnURL})
		return http.StatusOK, models.TopupSession{CheckoutURL: session.CheckoutURL,
			ExpiresAt: clock.Stamp(session.ExpiresAt)}, err
	}
	return s.run(ctx, create)
}

// ListCompetences handles GET /api/v1/catalog/competences.
func (s *Server) ListCompetences(ctx context.Context,
	r server.ListCompetencesRequestObject,
) (server.ListCompetencesResponseObject, error) {
	entries, err := s.deps.Catalog.Competences(ctx, s.deps.DB.Read(), acceptedLanguage(r.Params.AcceptLanguage))
	if err != nil {
		return nil, err
	}
	list := models.CompetenceList{Competences: views(entries, func(e catalog.Entry) models.Competence {
		return models.Competence{Code: e.Code, Label: e.Label}
	})}
	kept, unchanged, err := keepable(list, r.Params.IfNoneMatch)
	if err != nil || unchanged {
		return kept, err
	}
	return server.ListCompetences200JSONResponse{Body: list,
		Headers: server.ListCompetences200ResponseHeaders(kept.Headers)}, nil
}

// ListLanguages handles GET /api/v1/catalog/languages.
func (s *Server) ListLanguages(ctx context.Context,
	r server.ListLanguagesRequestObject,
) (server.ListLanguagesResponseObject, error) {
	entries, err := s.deps.Catalog.Languages(ctx, s.deps.DB.Read(), acceptedLanguage(r.Params.AcceptLanguage))
	if err != nil {
		return nil, err
	}
	list := models.LanguageList{Languages: views(entries, func(e catalog.Entry) models.Language {
		return models.Language{Code: e.Code, Label: e.Label}
	})}
	kept, unchanged, err := keepable(list, r.Params.IfNoneMatch)
	if err != nil || unchanged {
		return kept, err
	}
	return server.ListLanguages200JSONResponse{Body: list,
		Headers: server.ListLanguages200ResponseHeaders(kept.Headers)}, nil
}

// views maps a list. An empty list becomes [], never null.
func views[T, V any](items []T, view func(T) V) []V {
	out := make([]V, len(items))
	for i, item := range items {
		out[i] = view(item)
	}
	return out
}
