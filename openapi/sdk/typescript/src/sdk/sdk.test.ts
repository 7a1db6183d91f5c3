// Tests of the guarantees of the layer against a simulated service. `make sdk` tests it against the real one.
import assert from 'node:assert/strict'
import { createHash, createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { createConsultation, getWallet } from '../generated/hey/index.js'
import {
  each, LinkAgainError, LinkRefusedError, MemoryTokenStore, newIdempotencyKey, PartnerApp, readWebhook, retrying, signatureFault, TokenEndpointError, WebhookError,
  type AppOptions, type Tokens
} from './index.js'

interface Asked { path: string; method: string; key: string | null; token: string | null; body: string }
type Answer = Response | Error | ((asked: Asked) => Response | Error | undefined) | undefined

const json = (status: number, body: unknown, headers: Record<string, string> = {}) =>
  new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json', ...headers } })
const wallet = () => json(200, { availableCents: 1 })
const oauthError = (status: number, error: string) => json(status, { error, error_description: 'no', code: error, message: 'no' })

/** A service that rotates refresh tokens and remembers its answers by key. `first` are its first answers at the token endpoint or elsewhere. */
function service(first: { token?: Answer[]; api?: Answer[] } = {}) {
  const asked: Asked[] = []
  const [kept, spent] = [new Map<string, string>(), new Set<string>()]
  let [current, made] = ['a0', 0]
  const send: typeof fetch = async (input, init) => {
    const request = new Request(input, init)
    const one: Asked = {
      path: new URL(request.url).pathname, method: request.method, key: request.headers.get('Idempotency-Key'), token: request.headers.get('Authorization'), body: await request.text()
    }
    asked.push(one)
    await new Promise(resume => setTimeout(resume, 2))
    const isToken = one.path === '/api/oauth/token'
    const list = (isToken ? first.token : first.api) ?? []
    const next = list.shift()
    const early = typeof next === 'function' ? next(one) : next
    if (isToken && !(early instanceof Response)) {
      const refresh = new URLSearchParams(one.body).get('refresh_token') ?? ''
      if (!kept.has(one.key ?? '')) {
        if (spent.has(refresh)) return oauthError(400, 'invalid_grant')
        spent.add(refresh)
        current = `a${++made}`
        kept.set(one.key ?? '', JSON.stringify({ access_token: current, token_type: 'Bearer', expires_in: 900, scope: 'wallet:read', refresh_token: `r${made}` }))
      }
      if (early) throw early // the request succeeded, and its response is lost
      return new Response(kept.get(one.key ?? ''), { headers: { 'Content-Type': 'application/json' } })
    }
    if (early instanceof Error) throw early
    if (early) return early
    return one.token === `Bearer ${current}` ? wallet() : json(401, { code: 'UNAUTHORIZED', message: 'no' })
  }
  return { send, asked, refreshes: () => asked.filter(one => one.path === '/api/oauth/token'), calls: () => asked.filter(one => one.path !== '/api/oauth/token') }
}

const expired: Tokens = { accessToken: 'a0', expiresAt: 0, refreshToken: 'r0', scope: 'wallet:read' }

async function app(send: typeof fetch, tokens: Tokens | undefined = expired, more: Partial<AppOptions> = {}) {
  const store = more.store ?? new MemoryTokenStore()
  await store.update('anna', async () => tokens)
  const options: AppOptions = {
    baseUrl: 'https://service.example', clientId: 'app_1', clientSecret: 'sk_1', redirectUri: 'https://crm.example/callback', retries: { fetch: send, pauseMs: 2 }, ...more, store
  }
  return { app: new PartnerApp(options), other: new PartnerApp(options), store }
}

const lost = () => new TypeError('fetch failed')

test('many parallel calls with an expired token refresh once, in two processes too', async () => {
  const { send, refreshes, calls } = service()
  const { app: one, other, store } = await app(send)
  const answers = await Promise.all(Array.from({ length: 60 }, (_, i) => getWallet({ client: (i % 2 ? one : other).client('anna'), throwOnError: true })))
  assert(answers.every(answer => answer.data.availableCents === 1))
  assert.equal(refreshes().length, 1)
  assert.deepEqual(new Set(calls().map(call => call.token)), new Set(['Bearer a1']))
  assert.equal((await store.read('anna'))?.refreshToken, 'r1')
})

test('a rejected token is refreshed once for all callers, and their requests are resent', async () => {
  const { send, refreshes } = service()
  const { app: one } = await app(send, { ...expired, accessToken: 'revoked', expiresAt: Date.now() + 900_000 })
  const client = one.client('anna')
  await Promise.all(Array.from({ length: 20 }, () => getWallet({ client, throwOnError: true })))
  assert.equal(refreshes().length, 1)
})

test('a refresh with a lost response is retried with its key, and the new tokens are stored', async () => {
  const { send, refreshes } = service({ token: [lost(), lost()] })
  const { app: one, store } = await app(send)
  await getWallet({ client: one.client('anna'), throwOnError: true })
  assert.equal(refreshes().length, 3)
  assert.equal(new Set(refreshes().map(one => one.key)).size, 1)
  assert.equal((await store.read('anna'))?.refreshToken, 'r1')
})

test('tokens that could not be stored are requested again with the same key, and the link survives', async () => {
  const { send, refreshes } = service()
  class Failing extends MemoryTokenStore {
    fail = false
    override update(link: string, change: (tokens: Tokens | undefined) => Promise<Tokens | undefined>) {
      return super.update(link, async tokens => {
        const changed = await change(tokens)
        if (this.fail) throw new Error('the disk is full')
        return changed
      })
    }
  }
  const failing = new Failing()
  const { app: one } = await app(send, expired, { store: failing })
  failing.fail = true
  await assert.rejects(getWallet({ client: one.client('anna') }), /disk is full/)
  failing.fail = false
  await getWallet({ client: one.client('anna'), throwOnError: true })
  assert.equal(refreshes().length, 2)
  assert.equal(refreshes()[0]?.key, refreshes()[1]?.key)
})

test('a rejected refresh is one error for all callers, and deletes the tokens', async () => {
  const { send, refreshes } = service({ token: [oauthError(400, 'invalid_grant')] })
  const { app: one, store } = await app(send)
  const client = one.client('anna')
  const ends = await Promise.allSettled(Array.from({ length: 20 }, () => getWallet({ client })))
  assert(ends.every(end => end.status === 'rejected' && end.reason instanceof LinkAgainError))
  assert.equal(await store.read('anna'), undefined)
  await assert.rejects(getWallet({ client }), LinkAgainError)
  assert.equal(refreshes().length, 1)
})

test('wrong application credentials lose no link', async () => {
  const { send } = service({ token: [oauthError(401, 'invalid_client')] })
  const { app: one, store } = await app(send)
  await assert.rejects(getWallet({ client: one.client('anna') }), (error: unknown) => error instanceof TokenEndpointError && error.code === 'invalid_client')
  assert.equal((await store.read('anna'))?.refreshToken, 'r0')
  await getWallet({ client: one.client('anna'), throwOnError: true })
})

test('without offline_access a token is used until it expires, and then the client links again', async () => {
  const { send, refreshes } = service()
  const { refreshToken: _, ...short } = { ...expired, expiresAt: Date.now() + 5_000 }
  const { app: one } = await app(send, short)
  await getWallet({ client: one.client('anna'), throwOnError: true })
  const { app: late } = await app(send, { ...short, expiresAt: 0 })
  await assert.rejects(getWallet({ client: late.client('anna') }), LinkAgainError)
  assert.equal(refreshes().length, 0)
})

const good: Tokens = { ...expired, expiresAt: Date.now() + 900_000 }
const body = { competence: 'TAX', subject: 'A question', withdrawalWaiverAcknowledged: true as const }

test('429, 503 and lost responses are retried with one key', async () => {
  const half = () => new Response(new ReadableStream({ start: c => { c.enqueue(new Uint8Array(3)); c.error(new TypeError('terminated')) } }))
  const { send, calls } = service({ api: [json(429, {}), lost(), () => half()] })
  const { app: one } = await app(send, good)
  await createConsultation({ client: one.client('anna'), body, headers: { 'Idempotency-Key': 'mine' }, throwOnError: true })
  assert.deepEqual(calls().map(call => call.key), ['mine', 'mine', 'mine', 'mine'])
  assert(calls().every(call => call.body === JSON.stringify(body)))

  const made = service({ api: [json(503, {})] })
  const { app: two } = await app(made.send, good)
  await two.fetch('anna')('https://service.example/api/v1/wallet/topup-session', { method: 'POST', body: '{}' })
  assert.equal(made.calls().length, 2)
  assert(made.calls()[0]?.key)
  assert.equal(made.calls()[0]?.key, made.calls()[1]?.key)
  assert.notEqual(newIdempotencyKey(), newIdempotencyKey())
})

test('nothing else is retried', async () => {
  for (const [path, method, answer, tries] of [
    ['/api/v1/wallet', 'GET', json(500, {}), 1], ['/api/v1/wallet', 'GET', json(404, {}), 1], ['/api/platform/v1/endpoint/test', 'POST', json(503, {}), 1],
    ['/api/v1/consultations/con_1/cancel', 'POST', json(503, {}), 2], ['/api/v1/wallet', 'GET', json(503, {}, { 'Retry-After': '3600' }), 1]
  ] as const) {
    const { send, calls } = service({ api: [answer] })
    const { app: one } = await app(send, good)
    await one.fetch('anna')(`https://service.example${path}`, { method })
    assert.equal(calls().length, tries, `${method} ${path} ${answer.status}`)
  }
  const { send, calls } = service({ api: Array.from({ length: 9 }, () => json(503, {})) })
  assert.equal((await retrying({ fetch: send, pauseMs: 2 })('https://service.example/api/v1/wallet')).status, 503)
  assert.equal(calls().length, 4)
  await assert.rejects(retrying({ fetch: async () => { throw lost() }, pauseMs: 2 })('https://service.example/x', { method: 'POST' }), TypeError)
})

test('Retry-After is respected, in seconds and as a date', async () => {
  for (const say of [() => '1', () => new Date(Date.now() + 2_000).toUTCString()]) {
    const after = say()
    const { send, calls } = service({ api: [json(429, {}, { 'Retry-After': after })] })
    const began = Date.now()
    const { app: one } = await app(send, good)
    await getWallet({ client: one.client('anna'), throwOnError: true })
    assert(Date.now() - began >= 950, `${after}: ${Date.now() - began} ms`)
    assert.equal(calls().length, 2)
  }
})

test('an aborted call does not keep waiting', async () => {
  const gone = new AbortController()
  const { send, calls } = service({ api: [json(503, {}, { 'Retry-After': '10' })] })
  const { app: one } = await app(send, good)
  setTimeout(() => gone.abort(), 20)
  await assert.rejects(one.fetch('anna')('https://service.example/api/v1/wallet', { signal: gone.signal }), { name: 'AbortError' })
  assert.equal(calls().length, 1)
})

test('a link starts with PKCE and is completed only by its own callback', async () => {
  const { send, refreshes } = service()
  const { app: one, store } = await app(send, undefined, { issuer: 'https://login.example' })
  const { url, pending } = one.beginLink('wallet:read offline_access')
  const query = new URL(url).searchParams
  assert(url.startsWith('https://login.example/api/oauth/authorize?'))
  assert.equal(query.get('code_challenge'), createHash('sha256').update(pending.codeVerifier).digest('base64url'))
  assert.match(pending.codeVerifier, /^[A-Za-z0-9_-]{43}$/)
  const back = (more: Record<string, string>) => `https://crm.example/callback?${new URLSearchParams({ state: pending.state, iss: 'https://login.example', ...more })}`
  const refusal = (code: string) => (error: unknown) => error instanceof LinkRefusedError && error.code === code
  await assert.rejects(one.finishLink('anna', back({ code: 'c', state: 'other' }), pending), refusal('invalid_state'))
  await assert.rejects(one.finishLink('anna', back({ code: 'c', iss: 'https://evil.example' }), pending), refusal('invalid_issuer'))
  await assert.rejects(one.finishLink('anna', back({ error: 'access_denied' }), pending), refusal('access_denied'))
  assert.equal(refreshes().length, 0)
  assert.equal((await one.finishLink('anna', back({ code: 'c' }), pending)).scope, 'wallet:read')
  assert.equal(new URLSearchParams(refreshes()[0]?.body).get('code_verifier'), pending.codeVerifier)
  assert.equal((await store.read('anna'))?.refreshToken, 'r1')
})

test('a list is read to its end', async () => {
  const seen: (string | undefined)[] = []
  const items = []
  for await (const item of each(async cursor => {
    seen.push(cursor)
    return cursor === undefined ? { items: [1, 2], nextCursor: 'x' } : { items: [3], nextCursor: null }
  })) items.push(item)
  assert.deepEqual([items, seen], [[1, 2, 3], [undefined, 'x']])
})

test('signatures are verified as by the service', () => {
  const vectors: { name: string; secret: string; header: string; body: string; now: number; result: string }[] =
    JSON.parse(readFileSync(new URL('../../../../../internal/domain/webhook/testdata/signatures.json', import.meta.url), 'utf8'))
  assert(vectors.length > 30)
  for (const { name, secret, header, body, now, result } of vectors) assert.equal(signatureFault(secret, header, Buffer.from(body), now * 1000) ?? 'accepted', result, name)
})

test('a webhook is accepted with either secret of a rotation, and only if it is genuine', () => {
  const raw = Buffer.from('{"id":"evt_1","type":"consultation.matching","createdAt":"2026-06-01T08:30:00.000000Z","data":{"id":"con_1","status":"MATCHING"}}')
  const now = 1_780_302_600_000
  const sign = (secret: string, bytes = raw) => `t=1780302600,v1=${createHmac('sha256', secret).update('1780302600.').update(bytes).digest('hex')}`
  const reason = (secrets: string | string[], headers: Record<string, string>, bytes: Uint8Array = raw, at = now) => {
    try {
      readWebhook(secrets, headers, bytes, at)
      return 'accepted'
    } catch (error) {
      return (error as WebhookError).reason
    }
  }
  const rotated = { 'x-service-signature': sign('new'), 'x-service-signature-previous': sign('old'), 'x-service-sequence': '3' }
  assert.equal(reason('new', rotated), 'accepted')
  assert.equal(reason('old', rotated), 'accepted')
  assert.equal(reason(['old', 'new'], { 'x-service-signature': sign('new') }), 'accepted')
  assert.equal(reason(['other', 'another'], rotated), 'mismatch')
  assert.equal(reason('new', rotated, raw, now + 300_000), 'expired')
  assert.equal(reason('new', {}), 'malformed')
  assert.equal(reason('new', rotated, Buffer.from(JSON.stringify(JSON.parse(raw.toString()), null, 1))), 'mismatch')
  const garbage = Buffer.from('not JSON')
  assert.equal(reason('new', { 'x-service-signature': sign('new', garbage) }, garbage), 'malformed')

  const webhook = readWebhook('new', new Headers(rotated), raw, now)
  assert.deepEqual([webhook.id, webhook.sequence, webhook.test, webhook.event?.type], ['evt_1', 3, false, 'consultation.matching'])
  const later = Buffer.from('{"id":"evt_2","type":"consultation.praised","data":{}}')
  const unknown = readWebhook('new', { 'x-service-signature': sign('new', later), 'x-service-test': 'true' }, later, now)
  assert.deepEqual([unknown.type, unknown.event, unknown.test], ['consultation.praised', undefined, true])
})
