package oauth

import "partnerd/internal/infra/postgres"

const ofGrants = "grant_id IN (SELECT g.id FROM oauth_grants g WHERE g.application_id = ?)"

// Aging lists the columns of this package that move when an application's clock advances. An access token carries its
// own expiry, so its grant records how far the clock has been advanced.
var Aging = []postgres.Aging{
	{Table: "oauth_grants", Of: "application_id = ?", Instant: []string{"purge_at"}, Amount: "aged_us"},
	{Table: "oauth_codes", Of: ofGrants, Instant: []string{"expires_at", "used_at"}},
	{Table: "oauth_refresh_tokens", Of: ofGrants, Instant: []string{"created_at", "expires_at", "used_at"}},
	{Table: "oauth_token_answers", Of: "application_id = ?", Instant: []string{"expires_at"}},
}
