import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import * as oidc from 'openid-client'
import { allScopes, beginLink, call, discover } from './partner.js'
import { Person } from './person.js'
import { password, start, startSite } from './program.js'

let program, site, app, config
before(async () => {
  [program, site] = [await start(), await startSite()]
  app = await program.application('Stock client', site.callback)
  config = await discover(program.base, app)
})
after(async () => {
  await program?.stop()
  await site?.stop()
})

async function link() {
  const begun = await beginLink(config, site.callback)
  return begun.redeem(await new Person().allow(begun.url, await program.client(), password))
}

test('discovery tells what the service can do', () => {
  const m = config.serverMetadata()
  assert.equal(m.issuer, program.base)
  assert.deepEqual(m.code_challenge_methods_supported, ['S256'])
  assert.deepEqual([...m.scopes_supported].sort(), [...allScopes].sort())
  assert(m.token_endpoint_auth_methods_supported.includes('client_secret_post'))
  assert.equal(m.authorization_response_iss_parameter_supported, true)
})

test('the published keys verify an access token', async () => {
  const { access_token: token } = await link()
  const { keys } = await (await fetch(config.serverMetadata().jwks_uri)).json()
  const [header, payload, signature] = token.split('.')
  const { kid, alg } = JSON.parse(Buffer.from(header, 'base64url'))
  assert.equal(alg, 'ES256')
  const key = await crypto.subtle.importKey('jwk', keys.find(k => k.kid === kid), { name: 'ECDSA', namedCurve: 'P-256' }, false, ['verify'])
  const valid = await crypto.subtle.verify({ name: 'ECDSA', hash: 'SHA-256' }, key, Buffer.from(signature, 'base64url'), Buffer.from(`${header}.${payload}`))
  assert(valid, 'the signature does not verify')
})

test('code flow with PKCE, refresh and revocation', async () => {
  const first = await link()
  assert.equal(first.token_type, 'bearer')
  assert.equal(first.expires_in, 900)
  assert.deepEqual(first.scope.split(' ').sort(), [...allScopes].sort())
  const me = await oidc.fetchProtectedResource(config, first.access_token, new URL(`${program.base}/api/v1/me`), 'GET')
  assert.equal(me.status, 200)

  const second = await oidc.refreshTokenGrant(config, first.refresh_token)
  assert.notEqual(second.refresh_token, first.refresh_token)
  assert.equal((await call(program.base, second.access_token, 'GET', '/api/v1/wallet')).status, 200)

  await oidc.tokenRevocation(config, second.refresh_token)
  assert.equal((await call(program.base, second.access_token, 'GET', '/api/v1/me')).status, 401)
  await assert.rejects(oidc.refreshTokenGrant(config, second.refresh_token), { error: 'invalid_grant', status: 400 })
})

test('a refresh token that was used ends the link when it comes again', async () => {
  const first = await link()
  const second = await oidc.refreshTokenGrant(config, first.refresh_token)
  await assert.rejects(oidc.refreshTokenGrant(config, first.refresh_token), { error: 'invalid_grant' })
  await assert.rejects(oidc.refreshTokenGrant(config, second.refresh_token), { error: 'invalid_grant' })
  assert.equal((await call(program.base, second.access_token, 'GET', '/api/v1/me')).status, 401)
})

test('a wrong secret and a wrong verifier are refused in the words of the standard', async () => {
  const impostor = await discover(program.base, { ...app, clientSecret: 'sk_test_wrong' })
  await assert.rejects(oidc.refreshTokenGrant(impostor, 'whatever'), { error: 'invalid_client', status: 401 })
  const begun = await beginLink(config, site.callback)
  const back = new URL(await new Person().allow(begun.url, await program.client(), password))
  await assert.rejects(oidc.authorizationCodeGrant(config, back, {
    pkceCodeVerifier: oidc.randomPKCECodeVerifier(), expectedState: back.searchParams.get('state')
  }), { error: 'invalid_grant' })
})
