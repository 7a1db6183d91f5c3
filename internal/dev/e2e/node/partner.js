// A partner's side of linking, with the stock client openid-client.
import * as oidc from 'openid-client'

export const allScopes = ['profile:read', 'wallet:read', 'wallet:topup', 'consultations:read', 'consultations:write', 'notes:read', 'offline_access']

/** Discovers the service and configures the stock client for an application. */
export function discover(base, app) {
  return oidc.discovery(new URL(base), app.clientId, {}, oidc.ClientSecretPost(app.clientSecret),
    { algorithm: 'oauth2', execute: [oidc.allowInsecureRequests] }) // the test server has no TLS
}

/** Begins a link: where to send the client, and how to redeem the address that the client comes back to. */
export async function beginLink(config, callback, scopes = allScopes) {
  const pkceCodeVerifier = oidc.randomPKCECodeVerifier()
  const expectedState = oidc.randomState()
  const url = oidc.buildAuthorizationUrl(config, {
    redirect_uri: callback, scope: scopes.join(' '), state: expectedState,
    code_challenge: await oidc.calculatePKCECodeChallenge(pkceCodeVerifier), code_challenge_method: 'S256'
  })
  return { url: url.href, redeem: back => oidc.authorizationCodeGrant(config, new URL(back), { pkceCodeVerifier, expectedState }) }
}

/** Calls the API with an access token. */
export async function call(base, token, method, path, body, headers = {}) {
  const response = await fetch(base + path, {
    method, body: body && JSON.stringify(body),
    headers: { authorization: `Bearer ${token}`, ...(body && { 'content-type': 'application/json' }), ...headers }
  })
  return { status: response.status, body: await response.json() }
}
