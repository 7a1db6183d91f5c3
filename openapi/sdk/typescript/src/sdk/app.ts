import { createHash, randomBytes } from 'node:crypto'
import { createClient, type Client } from '../generated/hey/client/index.js'
import { issueToken, revokeToken, type OAuthError, type TokenRequest } from '../generated/hey/index.js'
import { retrying, type Retries } from './http.js'
import type { Tokens, TokenStore } from './tokens.js'

/** Milliseconds before its expiry at which a token is refreshed, so that it does not expire during a request. */
const early = 30_000

// All attempts of an exchange end within the 60 seconds for which the service stores its response.
const exchangeRetries = { tries: 4, timeoutMs: 10_000, longestMs: 5_000 }

/** The client must link again: there are no tokens, or a refresh was rejected and the tokens were deleted. */
export class LinkAgainError extends Error {
  override name = 'LinkAgainError'
  constructor(readonly link: string, reason: string) {
    super(`${link} must link again: ${reason}`)
  }
}

/** The client declined, or the callback does not belong to this link. */
export class LinkRefusedError extends Error {
  override name = 'LinkRefusedError'
  /** @param code `access_denied` if the client declined, another `error` value of the authorize page, `invalid_state` or `invalid_issuer`. */
  constructor(readonly code: string, description: string) {
    super(`${code}: ${description}`)
  }
}

/** The token endpoint returned an error that linking again does not fix: wrong credentials, a suspended application, too many requests. */
export class TokenEndpointError extends Error {
  override name = 'TokenEndpointError'
  constructor(readonly status: number, readonly code: string, description: string) {
    super(`${status} ${code}: ${description}`)
  }
}

export interface AppOptions {
  /** Base URL of the API, without a path. */
  baseUrl: string
  /** Value of `iss` and base URL of the authorize page, if it differs from `baseUrl`. */
  issuer?: string
  clientId: string
  clientSecret: string
  redirectUri: string
  store: TokenStore
  retries?: Retries
  /** Milliseconds since 1970. */
  now?: () => number
}

/** What to store in the visitor's session between `beginLink` and `finishLink`. */
export interface PendingLink {
  state: string
  codeVerifier: string
}

/** Your application and its linked clients. You choose the name of each link, for example the ID of your own record. */
export class PartnerApp {
  readonly #options: AppOptions
  readonly #anonymous: Client
  readonly #now: () => number
  readonly #running = new Map<string, Promise<Tokens>>()

  constructor(options: AppOptions) {
    this.#options = options
    this.#now = options.now ?? Date.now
    this.#anonymous = throwing(createClient({ baseUrl: options.baseUrl, fetch: retrying({ ...options.retries, ...exchangeRetries }) }))
  }

  /** Starts a link. Send the client's browser to `url`, and store `pending` in this visitor's session. */
  beginLink(scope: string): { url: string; pending: PendingLink } {
    const pending = { state: randomBytes(16).toString('base64url'), codeVerifier: randomBytes(32).toString('base64url') }
    const url = new URL('/api/oauth/authorize', this.#options.issuer ?? this.#options.baseUrl)
    url.search = new URLSearchParams({
      response_type: 'code', client_id: this.#options.clientId, redirect_uri: this.#options.redirectUri, scope, state: pending.state,
      code_challenge: createHash('sha256').update(pending.codeVerifier).digest('base64url'), code_challenge_method: 'S256'
    }).toString()
    return { url: url.href, pending }
  }

  /**
   * Completes a link with the URL that the client was redirected to, and stores the tokens. `scope` has the granted scopes.
   * @throws {LinkRefusedError} if the client declined, or the URL does not belong to `pending`
   */
  async finishLink(link: string, callback: string, pending: PendingLink): Promise<Tokens> {
    const back = new URL(callback).searchParams
    if (back.get('state') !== pending.state) throw new LinkRefusedError('invalid_state', 'the callback does not belong to this visitor')
    if (back.get('iss') !== new URL(this.#options.issuer ?? this.#options.baseUrl).origin) throw new LinkRefusedError('invalid_issuer', 'the callback comes from another issuer')
    const code = back.get('code')
    if (code === null) throw new LinkRefusedError(back.get('error') ?? 'invalid_request', back.get('error_description') ?? 'the callback has no code')
    const tokens = await this.#exchange(code, { grant_type: 'authorization_code', code, redirect_uri: this.#options.redirectUri, code_verifier: pending.codeVerifier })
    await this.#options.store.update(link, async () => tokens)
    return tokens
  }

  /** Ends a link at the service, and deletes its tokens. */
  async unlink(link: string): Promise<void> {
    await this.#options.store.update(link, async tokens => {
      if (tokens) {
        const { clientId: client_id, clientSecret: client_secret } = this.#options
        const { error, response } = await revokeToken({ client: this.#anonymous, body: { token: tokens.refreshToken ?? tokens.accessToken, client_id, client_secret } })
        if (error) throw refused(response?.status, error)
      }
      return undefined
    })
  }

  /** The generated client of @hey-api/openapi-ts for one link. Failures without a response of the service are thrown, including {@link LinkAgainError}. */
  client(link: string): Client {
    return throwing(createClient({ baseUrl: this.#options.baseUrl, fetch: this.fetch(link) }))
  }

  /** A `fetch` with the access token of a link, for any other generated client. It retries like {@link retrying}. */
  fetch(link: string): typeof fetch {
    const send = retrying(this.#options.retries)
    return async (input, init) => {
      const request = new Request(input, init)
      const attempt = (tokens: Tokens) => {
        const copy = request.clone()
        copy.headers.set('Authorization', `Bearer ${tokens.accessToken}`)
        return send(copy)
      }
      const tokens = await this.#tokens(link)
      const response = await attempt(tokens)
      // A request with a rejected token had no effect. Another process may have refreshed the tokens, or this token was revoked.
      return response.status === 401 ? attempt(await this.#tokens(link, tokens.accessToken)) : response
    }
  }

  /** Valid tokens other than the rejected one. */
  async #tokens(link: string, refusedToken?: string): Promise<Tokens> {
    const tokens = await this.#options.store.read(link)
    if (!tokens) throw new LinkAgainError(link, 'there are no tokens')
    return this.#good(tokens, refusedToken) ? tokens : this.#refresh(link, refusedToken)
  }

  #good(tokens: Tokens, refusedToken?: string): boolean {
    return tokens.accessToken !== refusedToken && tokens.expiresAt - this.#now() > (tokens.refreshToken === undefined ? 0 : early)
  }

  /** Runs one refresh for all callers in this process; the store takes care of the other processes. */
  #refresh(link: string, refusedToken?: string): Promise<Tokens> {
    const running = this.#running.get(link) ?? this.#renew(link, refusedToken).finally(() => this.#running.delete(link))
    this.#running.set(link, running)
    return running
  }

  async #renew(link: string, refusedToken?: string): Promise<Tokens> {
    let reason = 'there are no tokens'
    const renewed = await this.#options.store.update(link, async tokens => {
      if (!tokens || this.#good(tokens, refusedToken)) return tokens // already refreshed elsewhere
      if (tokens.refreshToken === undefined) {
        reason = 'the access token has expired, and offline_access was not granted'
        return undefined
      }
      try {
        return await this.#exchange(tokens.refreshToken, { grant_type: 'refresh_token', refresh_token: tokens.refreshToken })
      } catch (error) {
        if (!(error instanceof TokenEndpointError) || error.code !== 'invalid_grant') throw error
        reason = error.message
        return undefined
      }
    })
    if (!renewed) throw new LinkAgainError(link, reason)
    return renewed
  }

  /**
   * Exchanges a code or a refresh token, which are single-use. The key is derived from it. A retry within 60 seconds, after a lost response or a
   * crash before the tokens were stored, gets the same response, and nothing is spent twice.
   */
  async #exchange(spent: string, grant: Omit<TokenRequest, 'client_id' | 'client_secret'>): Promise<Tokens> {
    const { clientId: client_id, clientSecret: client_secret } = this.#options
    const began = this.#now()
    const { data, error, response } = await issueToken({
      client: this.#anonymous, headers: { 'Idempotency-Key': createHash('sha256').update(spent).digest('hex') }, body: { ...grant, client_id, client_secret }
    })
    if (!data) throw refused(response?.status, error)
    return {
      accessToken: data.access_token, expiresAt: began + data.expires_in * 1000, scope: data.scope,
      ...(data.refresh_token !== undefined && { refreshToken: data.refresh_token })
    }
  }
}

function refused(status: number | undefined, error: OAuthError | object): TokenEndpointError {
  const { error: code, error_description: description } = error as Partial<OAuthError>
  return new TokenEndpointError(status ?? 0, code ?? 'unknown', description ?? 'the response has no description')
}

/** The generated client returns thrown failures like errors of the contract. This client throws them. */
function throwing(client: Client): Client {
  client.interceptors.error.use(error => {
    if (error instanceof Error) throw error
    return error
  })
  return client
}
