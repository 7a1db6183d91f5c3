import { createHmac, timingSafeEqual } from 'node:crypto'
import type { WebhookEvent } from '../generated/hey/index.js'

/** Milliseconds from which a signature is too old, or too far in the future. */
const tolerance = 300_000

/** The request is not a genuine webhook: respond with 400. */
export class WebhookError extends Error {
  override name = 'WebhookError'
  constructor(readonly reason: 'malformed' | 'mismatch' | 'expired') {
    super(`the webhook is rejected: ${reason}`)
  }
}

/** A genuine webhook. */
export interface Webhook {
  /** The same in every delivery of an event: ignore events that you have handled. */
  id: string
  type: string
  /** Absent if the type is newer than this code: respond with 2xx and continue. */
  event: WebhookEvent | undefined
  /** Counts the events of a consultation from 1. The signature does not cover it. */
  sequence: number | undefined
  /** Whether it is a test event that you requested. The signature does not cover it. */
  test: boolean
}

// When the contract adds a type, this does not compile until the type is added here.
const types: Record<WebhookEvent['type'], true> = {
  'consultation.created': true, 'consultation.payment_authorized': true, 'consultation.matching': true, 'consultation.assigned': true,
  'consultation.call_started': true, 'consultation.call_ended': true, 'consultation.completed': true, 'consultation.note_available': true,
  'consultation.pending_callback': true, 'consultation.cancelled': true, 'consultation.refunded': true, 'consultation.expired': true,
  'webhook.ping': true
}

/**
 * Checks one signature of a raw body. Returns what is wrong, or undefined if the signature is valid.
 * @param now milliseconds since 1970
 */
export function signatureFault(secret: string, header: string, body: Uint8Array, now = Date.now()): WebhookError['reason'] | undefined {
  const [all, t, v1] = /^t=([0-9]{10}),v1=([0-9a-f]{64})$/.exec(header) ?? []
  if (all !== header || t === undefined || v1 === undefined) return 'malformed' // $ alone would accept a trailing line break
  const right = createHmac('sha256', secret).update(`${t}.`).update(body).digest()
  if (!timingSafeEqual(right, Buffer.from(v1, 'hex'))) return 'mismatch'
  if (Math.abs(now - Number(t) * 1000) >= tolerance) return 'expired'
  return undefined
}

/**
 * Reads a webhook that the service signed with one of your secrets. During a rotation, pass both secrets: it is
 * enough that one of the two signatures of the request matches one of them.
 * @param headers the headers of the request, as Node or `fetch` provide them
 * @param body the raw body, before anything parsed it
 * @throws {WebhookError} if the webhook is not genuine
 */
export function readWebhook(secrets: string | string[], headers: Headers | Record<string, string | string[] | undefined>, body: Uint8Array, now = Date.now()): Webhook {
  const header = (name: string): string | undefined => {
    const value = headers instanceof Headers ? headers.get(name) : headers[name]
    return typeof value === 'string' ? value : undefined
  }
  const faults: (WebhookError['reason'] | undefined)[] = []
  for (const name of ['x-service-signature', 'x-service-signature-previous']) {
    for (const secret of [secrets].flat()) faults.push(signatureFault(secret, header(name) ?? '', body, now))
  }
  if (!faults.includes(undefined)) throw new WebhookError((['expired', 'mismatch'] as const).find(reason => faults.includes(reason)) ?? 'malformed')

  let event: WebhookEvent
  try {
    event = JSON.parse(Buffer.from(body).toString('utf8'))
  } catch {
    throw new WebhookError('malformed')
  }
  const sequence = header('x-service-sequence')
  return {
    id: event.id, type: event.type, event: Object.hasOwn(types, event.type) ? event : undefined,
    sequence: sequence === undefined ? undefined : Number(sequence), test: header('x-service-test') === 'true'
  }
}
