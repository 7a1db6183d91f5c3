// What the programs of this folder share: the client of the CRM, who sits at a browser, and its log of webhooks.
import { createHash, randomBytes } from 'node:crypto'
import { createInterface } from 'node:readline'

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

/** Writes a line for whoever plays the client, and returns the line that comes back. */
export async function ask(line: string): Promise<string> {
  console.log(line)
  const { value, done } = await lines.next()
  if (done) throw new Error(`nobody answered ${line}`)
  return value
}

/** The webhooks that came so far, as they came. */
export async function received(): Promise<{ headers: Record<string, string>; body: string }[]> {
  return JSON.parse(await ask('EVENTS'))
}

/** Sends the client to link the account; returns what the token endpoint needs. */
export async function linkClient(scope: string): Promise<{ code: string; codeVerifier: string }> {
  const codeVerifier = randomBytes(32).toString('base64url')
  const state = randomBytes(16).toString('base64url')
  const query = new URLSearchParams({
    response_type: 'code', client_id: settings.clientId, redirect_uri: settings.redirectUri, scope, state,
    code_challenge: createHash('sha256').update(codeVerifier).digest('base64url'), code_challenge_method: 'S256'
  })
  const back = new URL(await ask(`OPEN ${settings.authorizeUrl}?${query}`)).searchParams
  if (back.get('state') !== state) throw new Error('this is not the answer to our question')
  const code = back.get('code')
  if (code === null) throw new Error(`the client refused: ${back.get('error')}`)
  return { code, codeVerifier }
}

export function expect<T>(what: string, is: T, wanted: T): void {
  if (is !== wanted) throw new Error(`${what} is ${is}, not ${wanted}`)
}

/** Reads until the answer is there; gives up after a minute. */
export async function until<T>(what: string, read: () => Promise<T | undefined>): Promise<T> {
  for (const end = Date.now() + 60_000; Date.now() < end; await new Promise(resume => setTimeout(resume, 250))) {
    const value = await read()
    if (value !== undefined) return value
  }
  throw new Error(`waited a minute for ${what}`)
}
