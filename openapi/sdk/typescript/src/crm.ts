// Shared code of the programs in this folder: the CRM's client with a browser, and its log of webhooks.
import { createInterface } from 'node:readline'
import { MemoryTokenStore, PartnerApp, readWebhook, type Webhook } from './sdk/index.js'

const required = (name: string): string => process.env[name] ?? (() => { throw new Error(`${name} is not set`) })()

export const settings = {
  baseUrl: required('PARTNER_BASE_URL'),
  authorizeUrl: required('PARTNER_AUTHORIZE_URL'),
  clientId: required('PARTNER_CLIENT_ID'),
  clientSecret: required('PARTNER_CLIENT_SECRET'),
  redirectUri: required('PARTNER_REDIRECT_URI'),
  webhookSecret: required('PARTNER_WEBHOOK_SECRET')
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()

/** Writes a line for the test that acts as the client, and returns its reply. */
export async function ask(line: string): Promise<string> {
  console.log(line)
  const { value, done } = await lines.next()
  if (done) throw new Error(`no response to ${line}`)
  return value
}

// Paths of the requests sent to the service, to count refreshes.
export const sent: string[] = []
const counting: typeof fetch = (input, init) => {
  sent.push(new URL(input instanceof Request ? input.url : input).pathname)
  return fetch(input, init)
}

export const store = new MemoryTokenStore()
export const app = new PartnerApp({ ...settings, issuer: new URL(settings.authorizeUrl).origin, store, retries: { fetch: counting } })

/** Sends the client to the authorize page, and completes the link. */
export async function linkClient(link: string, scope: string): Promise<void> {
  const { url, pending } = app.beginLink(scope)
  await app.finishLink(link, await ask(`OPEN ${url}`), pending)
}

/** The webhooks received so far, verified. */
export async function verified(): Promise<Webhook[]> {
  const received: { headers: Record<string, string>; body: string }[] = JSON.parse(await ask('EVENTS'))
  return received.map(({ headers, body }) => readWebhook(settings.webhookSecret, headers, Buffer.from(body)))
}

/** Expires the access token during many concurrent calls: they refresh once. */
export async function refreshOnce(link: string, call: () => Promise<void>): Promise<void> {
  const before = await store.update(link, async tokens => tokens && { ...tokens, expiresAt: 0 })
  sent.length = 0
  await Promise.all(Array.from({ length: 20 }, call))
  expect('refreshes of 20 calls', sent.filter(path => path === '/api/oauth/token').length, 1)
  expect('the refresh token was rotated', (await store.read(link))?.refreshToken === before?.refreshToken, false)
}

export function expect<T>(what: string, is: T, wanted: T): void {
  if (is !== wanted) throw new Error(`${what} is ${is}, not ${wanted}`)
}

/** Polls until there is a result; gives up after a minute. */
export async function until<T>(what: string, read: () => Promise<T | undefined>): Promise<T> {
  for (const end = Date.now() + 60_000; Date.now() < end; await new Promise(resume => setTimeout(resume, 250))) {
    const value = await read()
    if (value !== undefined) return value
  }
  throw new Error(`waited a minute for ${what}`)
}
