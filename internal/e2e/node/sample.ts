// What a partner's code looks like with types generated from the contract. It is compiled and run by sdk.test.js.
import createClient from 'openapi-fetch'
import type { components, paths } from './generated/partner.js'

type Consultation = components['schemas']['Consultation']

/** Starts a consultation and returns it as the list shows it. */
export async function consult(baseUrl: string, token: string, key: string): Promise<Consultation> {
  const api = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } })
  const wallet = await api.GET('/api/v1/wallet')
  if (!wallet.data) throw new Error(wallet.error.code)
  if (wallet.data.availableCents < 2000) throw new Error('top up first')

  const created = await api.POST('/api/v1/consultations', {
    params: { header: { 'Idempotency-Key': key } },
    body: { competence: 'HOUSING', subject: 'Deposit not returned', withdrawalWaiverAcknowledged: true }
  })
  if (!created.data) throw new Error(created.error.message)

  const list = await api.GET('/api/v1/consultations', { params: { query: { limit: 1 } } })
  const newest = list.data?.items[0]
  if (newest?.id !== created.data.id) throw new Error('the newest consultation comes first')
  return newest
}

/** Lines that must not compile. */
export function mistakes(): void {
  const api = createClient<paths>({ baseUrl: '' })
  // @ts-expect-error the key is required
  void (() => api.POST('/api/v1/consultations', { body: { competence: 'TAX', subject: 'x', withdrawalWaiverAcknowledged: true } }))
  // @ts-expect-error the waiver can only be acknowledged
  const waiver: components['schemas']['CreateConsultationRequest']['withdrawalWaiverAcknowledged'] = false
  // @ts-expect-error there is no such status
  const status: Consultation['status'] = 'LOST'
  // @ts-expect-error there is no such operation
  void (() => api.DELETE('/api/v1/consultations/{id}', {}))
  void waiver
  void status
}
