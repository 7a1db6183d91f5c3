/** The tokens of one client who linked. */
export interface Tokens {
  accessToken: string
  /** Milliseconds since 1970. */
  expiresAt: number
  /** Absent when offline_access was not granted. */
  refreshToken?: string
  /** What the client granted, which may be less than what was asked. */
  scope: string
}

/** Keeps tokens, which are secrets: encrypt them where you keep them. */
export interface TokenStore {
  read(link: string): Promise<Tokens | undefined>
  /**
   * Runs `change` with the tokens of a link as they are now, and keeps what it returns before it resolves to it; undefined forgets them. When `change`
   * throws, nothing changes. For one link only one `change` runs at a time, over all your processes: in a database that is a transaction with
   * `SELECT … FOR UPDATE`.
   */
  update(link: string, change: (tokens: Tokens | undefined) => Promise<Tokens | undefined>): Promise<Tokens | undefined>
}

/** Keeps tokens as long as the process runs: for tests, and as an example. */
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
