package oauth

import "partnerd/internal/domain/application"

// Metadata returns the authorization server metadata (RFC 8414), from which standard clients configure themselves.
func (s *Service) Metadata() map[string]any {
	base := s.cfg.Issuer
	return map[string]any{
		"issuer":                                         base,
		"authorization_endpoint":                         base + "/api/oauth/authorize",
		"token_endpoint":                                 base + "/api/oauth/token",
		"revocation_endpoint":                            base + "/api/oauth/revoke",
		"jwks_uri":                                       base + "/.well-known/jwks.json",
		"service_documentation":                          base + "/docs",
		"scopes_supported":                               application.AllScopes,
		"response_types_supported":                       []string{"code"},
		"response_modes_supported":                       []string{"query"},
		"grant_types_supported":                          []string{grantCode, GrantRefresh},
		"token_endpoint_auth_methods_supported":          []string{"client_secret_post", "client_secret_basic"},
		"revocation_endpoint_auth_methods_supported":     []string{"client_secret_post", "client_secret_basic", "none"},
		"code_challenge_methods_supported":               []string{methodS256},
		"authorization_response_iss_parameter_supported": true,
	}
}
