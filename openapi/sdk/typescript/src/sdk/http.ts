import { randomInt, randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'

export interface Retries {
  /** How often a request is sent at most. */
  tries?: number
  /** Milliseconds before the second try; twice as many before each further one, less up to half by chance. */
  pauseMs?: number
  /** The longest pause in milliseconds. A `Retry-After` beyond it is not waited for: the answer is returned. */
  longestMs?: number
  /** Milliseconds in which an answer must be there, whole. */
  timeoutMs?: number
  /** What sends. */
  fetch?: typeof fetch
}

/** A key for one thing that a user asks for. Keep it with what is about to be sent, and send it again after a crash of your own. */
export const newIdempotencyKey = (): string => randomUUID()

const takesKey = /\/api\/v1\/(consultations|wallet\/topup-session)$/
const harmlessTwice = /\/api\/(v1\/consultations\/[^/]+\/cancel|oauth\/revoke)$/

/**
 * A `fetch` that sends again, after a pause, what was answered by 429 or 503 or whose answer was lost. It does so with what can be
 * repeated and with nothing else: reading, cancelling, revoking, and whatever carries an `Idempotency-Key`. A POST that takes a key and has none is
 * given one, the same for all its tries.
 */
export function retrying({ tries = 4, pauseMs = 500, longestMs = 20_000, timeoutMs = 30_000, fetch: send = fetch }: Retries = {}): typeof fetch {
  return async (input, init) => {
    const request = new Request(input, init)
    const { pathname } = new URL(request.url)
    if (request.method === 'POST' && takesKey.test(pathname) && !request.headers.has('Idempotency-Key')) request.headers.set('Idempotency-Key', newIdempotencyKey())
    const repeatable = ['GET', 'HEAD'].includes(request.method) || request.headers.has('Idempotency-Key') || harmlessTwice.test(pathname)
    const body = request.body && await request.arrayBuffer()

    for (let turn = 1; ; turn++) {
      const last = !repeatable || turn === tries
      let pause = pauseMs * 2 ** (turn - 1)
      pause -= randomInt(Math.floor(pause / 2) + 1)
      try {
        const signal = AbortSignal.any([request.signal, AbortSignal.timeout(timeoutMs)])
        const response = await whole(await send(new Request(request, { body, signal })))
        if (last || response.status !== 429 && response.status !== 503) return response
        pause += retryAfterMs(response)
        if (pause > longestMs) return response
      } catch (failure) {
        if (last || request.signal.aborted) throw failure
      }
      await sleep(Math.min(pause, longestMs), undefined, { signal: request.signal })
    }
  }
}

/** The same answer once its body is here, so that a connection lost halfway counts as a lost answer. */
async function whole(response: Response): Promise<Response> {
  const bytes = await response.arrayBuffer()
  return new Response(bytes.byteLength > 0 ? bytes : null, response)
}

/** What the answer asks to wait for: seconds or a date; 0 when it says nothing. */
function retryAfterMs(response: Response): number {
  const said = response.headers.get('Retry-After') ?? ''
  const ms = /^[0-9]+$/.test(said) ? Number(said) * 1000 : Date.parse(said) - Date.now()
  return Number.isFinite(ms) ? Math.max(ms, 0) : 0
}
