// A CRM with the client that @hey-api/openapi-ts generates.
import { app, ask, expect, linkClient, refreshOnce, settings, until, verified } from './crm.js'
import {
  cancelConsultation, createConsultation, createTopupSession, getConsultation, getConsultationNote, getWallet, listConsultations,
  type CreateConsultationError, type CreateConsultationRequest, type WebhookEvent
} from './generated/hey/index.js'
import { each, LinkAgainError, newIdempotencyKey } from './sdk/index.js'

/** What to tell the client's adviser; every code of the operation has its case. */
export function explain(error: CreateConsultationError): string {
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
export function describe(event: WebhookEvent): string {
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
export function forgetful(error: CreateConsultationError, event: WebhookEvent): void {
  if (error.code !== 'UNAVAILABLE') {
    // @ts-expect-error eleven codes are left
    error satisfies never
  }
  if (event.type !== 'consultation.expired') {
    // @ts-expect-error twelve types are left
    event satisfies never
  }
  // @ts-expect-error the waiver can only be acknowledged
  const body: CreateConsultationRequest = { competence: 'TAX', subject: 'x', withdrawalWaiverAcknowledged: false }
  // @ts-expect-error the key is required
  void (() => createConsultation({ body }))
}

async function play(): Promise<void> {
  await linkClient('hey', 'profile:read wallet:read wallet:topup consultations:read consultations:write notes:read offline_access')
  const client = app.client('hey')

  const key = { 'Idempotency-Key': newIdempotencyKey() }
  const body: CreateConsultationRequest = { competence: 'HOUSING', subject: 'Deposit not returned', withdrawalWaiverAcknowledged: true, externalRef: 'hey-1' }
  const refused = await createConsultation({ client, body, headers: key })
  if (!refused.error || !refused.response) throw new Error('an empty wallet pays for nothing')
  expect('status', refused.response.status, 409)
  expect('what to do', explain(refused.error).startsWith('top up at http'), true)

  const { data: page } = await createTopupSession({ client, throwOnError: true, body: { amountCents: 4000, returnUrl: settings.redirectUri } })
  await ask(`OPEN ${page.checkoutUrl}`)
  await until('the money', async () => (await getWallet({ client, throwOnError: true })).data.availableCents === 4000 || undefined)

  const { data: made } = await createConsultation({ client, throwOnError: true, body, headers: key })
  const again = await createConsultation({ client, throwOnError: true, body, headers: key })
  expect('the consultation of the same key', again.data.id, made.id)
  expect('replayed', again.response.headers.get('Idempotent-Replayed'), 'true')

  const { data: second } = await createConsultation({ client, throwOnError: true, body: { ...body, externalRef: 'hey-2' }, headers: { 'Idempotency-Key': newIdempotencyKey() } })
  const listed = []
  for await (const item of each(async cursor => (await listConsultations({ client, throwOnError: true, query: { limit: 1, cursor } })).data)) listed.push(item.id)
  expect('the list, newest first', listed.join(), [second.id, made.id].join())
  const { data: cancelled } = await cancelConsultation({ client, throwOnError: true, path: { id: second.id } })
  expect('status', cancelled.status, 'CANCELLED')

  await until('the call', async () => (await getConsultation({ client, throwOnError: true, path: { id: made.id } })).data.status === 'COMPLETED' || undefined)
  const { data: note } = await getConsultationNote({ client, throwOnError: true, path: { id: made.id } })
  expect('the note is of', note.consultationId, made.id)
  expect('cancelled too late', (await cancelConsultation({ client, path: { id: made.id } })).error?.code, 'NOT_CANCELLABLE')
  expect('what nobody has', (await getConsultation({ client, path: { id: 'con_test_nobody' } })).error?.code, 'NOT_FOUND')
  const invalid = await createConsultation({ client, body: { ...body, competence: 'NONE' }, headers: { 'Idempotency-Key': newIdempotencyKey() } })
  expect('what to do', invalid.error && explain(invalid.error), 'competence: not_in_catalog')

  for (const { event } of await verified()) if (event) console.log('EVENT', describe(event))

  await refreshOnce('hey', async () => void await getWallet({ client, throwOnError: true }))
  await app.unlink('hey')
  const gone = await getWallet({ client }).catch((error: unknown) => error)
  expect('after the disconnection', gone instanceof LinkAgainError, true)
  console.log('DONE')
}

await play()
process.exit()
