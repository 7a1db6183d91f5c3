package oauth

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"partnerd/internal/base/seal"
	"partnerd/internal/domain/account"
	"partnerd/internal/domain/application"
	"partnerd/internal/domain/webhook"
	"partnerd/internal/infra/postgres"
)

// Lifetimes (specification section 5 rule 3; decisions H10, H11).
const (
	CodeLifetime         = 5 * time.Minute
	AccessTokenLifetime  = 15 * time.Minute
	RefreshTokenLifetime = 90 * 24 * time.Hour // since the last refresh; there is no other limit
)

// Config is the configuration of a deployment.
type Config struct {
	Issuer   string           // base URL without a trailing slash: iss of tokens and redirects, prefix of all endpoints
	Audience string           // aud of access tokens
	Logger   *slog.Logger     // nil for none
	Webhooks *webhook.Service // notifies applications of ended connections and top-ups; nil: no notifications
}

// Service is the authorization server. It is safe for concurrent use, and several can share one database.
type Service struct {
	db           *postgres.DB
	box          *seal.Box
	accounts     *account.Service
	applications *application.Service
	keys         *keyring
	verified     verified
	log          *slog.Logger
	cfg          Config
}

// New creates the service, and the first signing key if the database has none. Keys are encrypted with box.
func New(ctx context.Context, db *postgres.DB, box *seal.Box, accounts *account.Service,
	applications *application.Service, cfg Config,
) (*Service, error) {
	cfg.Issuer = strings.TrimRight(cfg.Issuer, "/")
	keys, err := openKeyring(ctx, db, box)
	if err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Service{db: db, box: box, accounts: accounts, applications: applications, keys: keys,
		log: cfg.Logger, cfg: cfg}, nil
}
