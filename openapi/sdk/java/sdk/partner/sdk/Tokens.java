package partner.sdk;

import java.time.Instant;

/**
 * The tokens of one linked client.
 *
 * @param accessToken sent with each request
 * @param expiresAt when the access token expires
 * @param scope what the client granted, which may be less than what you asked for
 * @param refreshToken null when offline_access was not granted
 */
public record Tokens(String accessToken, Instant expiresAt, String scope, String refreshToken) {
  @Override
  public String toString() {
    return "Tokens of scope " + scope;
  }
}
