import { randomInt, randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'

export interface Retries {
  /** Maximum number of attempts. */
  tries?: number
  /** Milliseconds before the second attempt. Doubles for each further attempt; jitter removes up to half. */
  pauseMs?: number
  /** Maximum pause in milliseconds. If `Retry-After` exceeds it, the response is returned without waiting. */
  longestMs?: number
  /** Milliseconds within which the complete response must arrive. */
  timeoutMs?: number
  /** The `fetch` that sends the requests. */
  fetch?: typeof fetch
}

/** Returns a key for one action of a user. Store it with the request before you send it, and reuse it after a crash of your program. */
export const newIdempotencyKey = (): string => randomUUID()

const takesKey = /\/api\/v1\/(consultations|wallet\/topup-session)$/
const harmlessTwice = /\/api\/(v1\/consultations\/[^/]+\/cancel|oauth\/revoke)$/

/**
 * A `fetch` that retries requests after 429, 503 or a lost response, with a pause. It retries only requests that are safe to repeat:
 * reading, cancelling, revoking, and requests with an `Idempotency-Key`. A POST that accepts a key and has none gets one, the same for all its attempts.
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

/** Returns the response once its body is complete, so that a connection lost halfway counts as a lost response. */
async function whole(response: Response): Promise<Response> {
  const bytes = await response.arrayBuffer()
  return new Response(bytes.byteLength > 0 ? bytes : null, response)
}

/** Returns the milliseconds of `Retry-After`, which is a number of seconds or a date; 0 if it is absent. */
function retryAfterMs(response: Response): number {
  const said = response.headers.get('Retry-After') ?? ''
  const ms = /^[0-9]+$/.test(said) ? Number(said) * 1000 : Date.parse(said) - Date.now()
  return Number.isFinite(ms) ? Math.max(ms, 0) : 0
}
