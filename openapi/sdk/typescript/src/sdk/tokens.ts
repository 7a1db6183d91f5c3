/** The tokens of one linked client. */
export interface Tokens {
  accessToken: string
  /** Milliseconds since 1970. */
  expiresAt: number
  /** Absent if offline_access was not granted. */
  refreshToken?: string
  /** The granted scopes, which can be fewer than requested. */
  scope: string
}

/** Stores tokens. They are secrets: encrypt them at rest. */
export interface TokenStore {
  read(link: string): Promise<Tokens | undefined>
  /**
   * Calls `change` with the current tokens of a link, stores its result and resolves to it; undefined deletes the tokens. If `change` throws,
   * nothing changes. For one link, only one `change` runs at a time across all your processes: in a database, use a transaction with
   * `SELECT … FOR UPDATE`.
   */
  update(link: string, change: (tokens: Tokens | undefined) => Promise<Tokens | undefined>): Promise<Tokens | undefined>
}

/** Stores tokens in memory: for tests, and as an example. */
export class MemoryTokenStore implements TokenStore {
  readonly #tokens = new Map<string, Tokens>()
  readonly #last = new Map<string, Promise<unknown>>()

  async read(link: string): Promise<Tokens | undefined> {
    return this.#tokens.get(link)
  }

  update(link: string, change: (tokens: Tokens | undefined) => Promise<Tokens | undefined>): Promise<Tokens | undefined> {
    const turn = (this.#last.get(link) ?? Promise.resolve()).catch(() => undefined).then(async () => {
      const tokens = await change(this.#tokens.get(link))
      if (tokens) this.#tokens.set(link, tokens)
      else this.#tokens.delete(link)
      return tokens
    })
    this.#last.set(link, turn)
    return turn
  }
}
