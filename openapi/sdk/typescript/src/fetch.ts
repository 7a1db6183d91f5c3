// The same CRM with openapi-fetch and the types that openapi-typescript generates.
import createClient from 'openapi-fetch'
import { app, ask, expect, linkClient, refreshOnce, settings, store, until, verified } from './crm.js'
import type { components, paths } from './generated/schema.js'
import { each, LinkAgainError, newIdempotencyKey } from './sdk/index.js'

type Schemas = components['schemas']
type Responses = paths['/api/v1/consultations']['post']['responses']
type Failure = { [Status in Exclude<keyof Responses, 201>]: Responses[Status]['content']['application/json'] }[Exclude<keyof Responses, 201>]

/** What to tell the client's adviser; every code of the operation has its case. */
export function explain(error: Failure): string {
  switch (error.code) {
    case 'INSUFFICIENT_FUNDS': return `top up at ${error.actionUrl}`
    case 'PHONE_REQUIRED': return `verify a phone number at ${error.actionUrl}`
    case 'IDEMPOTENCY_CONFLICT': return 'the key was used for something else'
    case 'IDEMPOTENCY_IN_PROGRESS': return 'the first try is still under way'
    case 'VALIDATION_ERROR': return error.issues.map(issue => `${issue.path}: ${issue.code}`).join(', ')
    case 'IDEMPOTENCY_KEY_REQUIRED': return 'our fault: no key'
    case 'INVALID_REQUEST': return 'our fault: malformed'
    case 'UNAUTHORIZED': return 'link again'
    case 'INSUFFICIENT_SCOPE': return 'link again, and ask for consultations:write'
    case 'RATE_LIMITED': return 'later'
    case 'INTERNAL_ERROR': return 'try again'
    case 'UNAVAILABLE': return 'later'
    default: return error satisfies never
  }
}

/** A line for the timeline of a consultation; every event has its case. */
export function describe(event: Schemas['WebhookEvent']): string {
  switch (event.type) {
    case 'consultation.created': return `created for ${event.data.priceCents} cents`
    case 'consultation.payment_authorized': return 'money reserved'
    case 'consultation.matching': return 'looking for a lawyer'
    case 'consultation.assigned': return 'a lawyer has it'
    case 'consultation.call_started': return 'in the call'
    case 'consultation.call_ended': return `talked for ${event.data.durationSec} s`
    case 'consultation.completed': return 'done'
    case 'consultation.note_available': return 'there is a note'
    case 'consultation.pending_callback': return `called back by ${event.data.callbackDueAt}`
    case 'consultation.cancelled': return `cancelled: ${event.data.endReason}`
    case 'consultation.refunded': return `${event.data.refundedCents} cents are back`
    case 'consultation.expired': return `expired: ${event.data.endReason}`
    case 'webhook.ping': return 'the service tries our address'
    default: return event satisfies never
  }
}

/** A switch that forgets a case does not compile. */
export function forgetful(error: Failure, event: Schemas['WebhookEvent']): void {
  if (error.code !== 'UNAVAILABLE') {
    // @ts-expect-error eleven codes are left
    error satisfies never
  }
  if (event.type !== 'consultation.expired') {
    // @ts-expect-error twelve types are left
    event satisfies never
  }
  const api = createClient<paths>({ baseUrl: '' })
  // @ts-expect-error the key is required
  void (() => api.POST('/api/v1/consultations', { body: { competence: 'TAX', subject: 'x', withdrawalWaiverAcknowledged: true } }))
  // @ts-expect-error the waiver can only be acknowledged
  const waiver: Schemas['CreateConsultationRequest']['withdrawalWaiverAcknowledged'] = false
  // @ts-expect-error there is no such status
  const status: Schemas['Consultation']['status'] = 'LOST'
  // @ts-expect-error there is no such operation
  void (() => api.DELETE('/api/v1/consultations/{id}', {}))
  void [waiver, status]
}

/** The data of an answer that is no error. */
function sure<T>({ data, error, response }: { data?: T; error?: unknown; response: Response }): T {
  if (data === undefined) throw new Error(`${response.status} ${JSON.stringify(error)}`)
  return data
}

async function play(): Promise<void> {
  await linkClient('fetch', 'profile:read wallet:read wallet:topup consultations:read consultations:write notes:read offline_access')
  const api = createClient<paths>({ baseUrl: settings.baseUrl, fetch: app.fetch('fetch') })
  const withKey = (key: string) => ({ header: { 'Idempotency-Key': key } })

  const key = newIdempotencyKey()
  const body: Schemas['CreateConsultationRequest'] = { competence: 'HOUSING', subject: 'Deposit not returned', withdrawalWaiverAcknowledged: true, externalRef: 'fetch-1' }
  const refused = await api.POST('/api/v1/consultations', { params: withKey(key), body })
  if (!refused.error) throw new Error('an empty wallet pays for nothing')
  expect('status', refused.response.status, 409)
  expect('what to do', explain(refused.error).startsWith('top up at http'), true)

  const page = sure(await api.POST('/api/v1/wallet/topup-session', { body: { amountCents: 4000, returnUrl: settings.redirectUri } }))
  await ask(`OPEN ${page.checkoutUrl}`)
  await until('the money', async () => sure(await api.GET('/api/v1/wallet')).availableCents === 4000 || undefined)

  const made = sure(await api.POST('/api/v1/consultations', { params: withKey(key), body }))
  const again = await api.POST('/api/v1/consultations', { params: withKey(key), body })
  expect('the consultation of the same key', sure(again).id, made.id)
  expect('replayed', again.response.headers.get('Idempotent-Replayed'), 'true')

  const second = sure(await api.POST('/api/v1/consultations', { params: withKey(newIdempotencyKey()), body: { ...body, externalRef: 'fetch-2' } }))
  const listed = []
  for await (const item of each(async cursor => sure(await api.GET('/api/v1/consultations', { params: { query: { limit: 1, cursor } } })))) listed.push(item.id)
  expect('the list, newest first', listed.join(), [second.id, made.id].join())
  const at = (id: string) => ({ params: { path: { id } } })
  expect('status', sure(await api.POST('/api/v1/consultations/{id}/cancel', at(second.id))).status, 'CANCELLED')

  await until('the call', async () => sure(await api.GET('/api/v1/consultations/{id}', at(made.id))).status === 'COMPLETED' || undefined)
  expect('the note is of', sure(await api.GET('/api/v1/consultations/{id}/note', at(made.id))).consultationId, made.id)
  expect('cancelled too late', (await api.POST('/api/v1/consultations/{id}/cancel', at(made.id))).error?.code, 'NOT_CANCELLABLE')
  expect('what nobody has', (await api.GET('/api/v1/consultations/{id}', at('con_test_nobody'))).error?.code, 'NOT_FOUND')
  const invalid = await api.POST('/api/v1/consultations', { params: withKey(newIdempotencyKey()), body: { ...body, competence: 'NONE' } })
  expect('what to do', invalid.error && explain(invalid.error), 'competence: not_in_catalog')

  for (const { event } of await verified()) if (event) console.log('EVENT', describe(event as Schemas['WebhookEvent']))

  await refreshOnce('fetch', async () => void sure(await api.GET('/api/v1/wallet')))
  const tokens = await store.read('fetch')
  await app.unlink('fetch')
  await store.update('fetch', async () => tokens) // as of a worker that has not heard of it
  const gone = await api.GET('/api/v1/wallet').catch((error: unknown) => error)
  expect('after the disconnection', gone instanceof LinkAgainError, true)
  console.log('DONE')
}

await play()
process.exit()
