// A consultation in a live deployment with all parties at the same time: client, lawyer and two operators, each in
// their own browser, and the partner's CRM. The external services of a live deployment are simulated on this machine
// (see outside.js).
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { examine } from './examine.js'
import { startOutside } from './outside.js'
import { allScopes, beginLink, call, discover } from './partner.js'
import { freePort, keys, password, start, totp } from './program.js'
import { launch, narrow, open, signIn, wide } from './window.js'

let outside, program, browser, metrics
before(async () => {
  [outside, browser] = await Promise.all([startOutside(), launch()])
  metrics = `127.0.0.1:${await freePort()}`
  const { notePublicKey } = await keys()
  program = await start({
    ...outside.settings, PARTNERD_ENV: 'live', PARTNERD_NOTE_PUBLIC_KEY: notePublicKey, PARTNERD_METRICS_ADDR: metrics, PARTNERD_LOG_LEVEL: 'debug'
  })
  outside.serves(program.base)
})
after(async () => {
  await browser?.close()
  await program?.stop()
  await outside?.stop()
})

const words = {
  en: {
    client: 'Ada Client', lawyer: 'Maître Lee Martin', unchecked: 'has not been checked', told: ['accepted', 'charged'], confirmed: 'confirmed', speaks: 'EN', competence: 'IP', hears: 'This is partnerd. A lawyer is calling you about your consultation requested via Cabinet en. Press 1 to speak.', asked: 'This is partnerd, about a consultation requested via Cabinet en. Press 1 to be connected to your client.',
    subject: 'A logo was copied', description: 'The competitor Zephyrine & Sons uses our owl.', clientPhone: '+33639980021', lawyerPhone: '+33142685321',
    note: 'The owl was drawn by her cousin Tourmaline.', canaries: ['Zephyrine', 'Tourmaline'], preview: 'A letter before action was advised.'
  },
  fr: {
    client: 'Zoé Client', lawyer: 'Maître Léa Durand', unchecked: 'n’a pas été vérifiée', told: ['acceptée', 'débit'], confirmed: 'confirmée', speaks: 'FR', competence: 'HOUSING', hears: 'Ici partnerd. Un avocat vous appelle au sujet de votre consultation demandée via Cabinet fr. Appuyez sur 1 pour lui parler.', asked: 'Ici partnerd, pour une consultation demandée via Cabinet fr. Appuyez sur 1 pour être mis en relation avec votre client.',
    subject: 'Dépôt de garantie non rendu', description: 'Le bailleur Quetzalcoatl garde tout.', clientPhone: '+33639980022', lawyerPhone: '+33142685322',
    note: 'Il a perdu l’état des lieux chez Popocatepetl.', canaries: ['Quetzalcoatl', 'Popocatepetl'], preview: 'Une mise en demeure a été conseillée.'
  }
}

/** Sets up somebody who works here, from the link of the invitation on; ends signed in and returns the secret of the second factor. */
async function join(w, link) {
  await w.page.goto(link)
  await w.page.fill('#password', password)
  await w.page.click('main button[type=submit]')
  const secret = await w.page.textContent('main code')
  await w.page.fill('#code', totp(secret))
  await w.page.click('main button[type=submit]')
  await w.page.click('main a.button.wide')
  return secret
}

async function goOnDuty(page) {
  await page.click('form[action="/desk/duty"] button[value=on]')
  await page.locator('#desk[data-presence=AVAILABLE]').waitFor()
}

/** Pays 50 euros at Stripe, as the CRM asks the client to. */
async function pay(page, crm, token) {
  const topUp = await call(program.base, token, 'POST', '/api/v1/wallet/topup-session', { amountCents: 5000, returnUrl: crm.callback })
  await page.goto(topUp.body.checkoutUrl)
  await page.click('text=Pay')
  await page.waitForSelector(`main a.button[href^="${crm.callback}"]`)
}

/** Asks for a consultation, as the CRM does, and returns its id. */
async function consult(token, say, externalRef) {
  const { status, body } = await call(program.base, token, 'POST', '/api/v1/consultations', {
    competence: say.competence, language: say.speaks, subject: say.subject, description: say.description, externalRef, withdrawalWaiverAcknowledged: true
  }, { 'idempotency-key': crypto.randomUUID() })
  assert.equal(status, 201, JSON.stringify(body))
  return body.id
}

/** Does what an operator's form asks for: fills, ticks, says why, and sends. */
async function act(page, path, { fields = {}, ticks = [], reason }) {
  await page.goto(program.base + path)
  for (const [name, value] of Object.entries(fields)) {
    const field = page.locator(`main form[method=post] [name=${name}]`)
    if (await field.evaluate(e => e.tagName) === 'SELECT') await field.selectOption(value)
    else await field.fill(value)
  }
  for (const value of ticks) await page.check(`main form[method=post] input[type=checkbox][value="${value}"]`)
  await page.fill('#reason', reason)
  await page.click('main form[method=post] button[type=submit]')
}

/** A day in a month, on which a check still counts. */
const soon = new Date(Date.now() + 30 * 24 * 3600_000).toISOString().slice(0, 10)

/** Everything that an operator can read, by following the links. */
async function everyPage(page) {
  const [seen, todo] = [new Map(), ['/ops']]
  for (let path; (path = todo.pop());) {
    const response = await page.request.get(program.base + path)
    assert.equal(response.status(), 200, path)
    const text = await response.text()
    seen.set(path, text)
    for (const [, href] of text.matchAll(/href="(\/ops[^"#]*)"/g)) {
      const next = href.replaceAll('&amp;', '&')
      if (!seen.has(next) && !todo.includes(next) && !next.includes('lang=')) todo.push(next)
    }
  }
  return seen
}

for (const [language, viewport] of [['fr', narrow], ['en', wide]]) {
  test(`a consultation from sign-up to refund and audit (${language})`, async () => {
    const say = words[language]
    const other = viewport === wide ? narrow : wide
    const look = async (page, as, sizes = [other, viewport]) => {
      for (const size of sizes) {
        await page.setViewportSize(size)
        await examine(page, `live-${as}-${language}-${size.width}`)
      }
    }
    const windows = await Promise.all(Array.from({ length: 4 }, () => open(browser, { language, viewport, proxy: outside.proxy })))
    const [operator, second, lawyer, client] = windows
    const crm = outside.partner(`crm-${language}`)
    await outside.script({ others: { answerAfter: 1, press: '1', pressAfter: 1 } })

    // The first operator is invited by a command. They invite everyone else and register the application.
    const invited = { operator: `first-${language}@partners.example`, second: `second-${language}@partners.example`, lawyer: `lawyer-${language}@bar.example` }
    await program.cli('operator', 'invite', '--email', invited.operator, '--name', 'Odile First', '--role', 'admin', '--language', language, '--reason', 'First operator')
    await join(operator, await outside.link(invited.operator))
    assert.equal(await operator.page.getAttribute('html', 'lang'), language)
    await act(operator.page, '/ops/people/invite', { fields: { name: 'Serge Second', email: invited.second, tongue: language }, ticks: ['finance'], reason: 'Four eyes' })
    await join(second, await outside.link(invited.second))
    await act(operator.page, '/ops/lawyers/invite', {
      fields: { name: say.lawyer, email: invited.lawyer, phone: say.lawyerPhone, tongue: language }, ticks: [say.competence, say.speaks], reason: 'Admitted to the bar'
    })
    await act(operator.page, '/ops/applications/new', {
      fields: { name: `Cabinet ${language}`, redirects: crm.callback, webhook: crm.hooks }, ticks: allScopes, reason: 'Contract signed'
    })
    const [clientId, clientSecret, secret] = await operator.page.locator('main dl code').allTextContents()
    crm.secret = secret

    // The lawyer goes on duty once an operator has checked their bar registration.
    await join(lawyer, await outside.link(invited.lawyer))
    await lawyer.page.click('form[action="/desk/duty"] button[value=on]')
    await lawyer.page.locator('[role=alert]').filter({ hasText: say.unchecked }).waitFor()
    await look(lawyer.page, 'unchecked')
    await operator.page.goto(`${program.base}/ops/lawyers`)
    const entry = await operator.page.getByRole('link', { name: say.lawyer }).getAttribute('href')
    await act(operator.page, `${entry}/check`, { fields: { bar: 'Paris', number: language === 'fr' ? 'P0123' : 'P0124', until: soon }, reason: 'Looked up at the bar' })
    await goOnDuty(lawyer.page)
    await look(lawyer.page, 'desk')

    // The client comes from the application, signs up, allows everything, verifies their phone and pays.
    const email = `client-${language}@client.example`
    const config = await discover(program.base, { clientId, clientSecret })
    const begun = await beginLink(config, crm.callback)
    const { page } = client
    await page.goto(begun.url)
    await page.click('a[href^="/signup"]')
    await page.fill('#name', say.client)
    await page.fill('#email', email)
    await page.click('main button[type=submit]')
    await page.goto(await outside.link(email))
    await page.fill('#password', password)
    await page.click('main button[type=submit]')
    await page.click('button[value=allow]')
    await page.waitForURL(`${crm.callback}?**`)
    const { access_token: token } = await begun.redeem(page.url())
    await page.goto(`${program.base}/account/phone`)
    await page.fill('#phone', say.clientPhone)
    await page.click('form[action="/account/phone"] button[type=submit]')
    await page.fill('#code', await outside.code(say.clientPhone))
    await page.click('form[action="/account/phone/code"] button')
    await page.getByRole('status').waitFor()
    await pay(page, crm, token)

    // The CRM requests a consultation. The lawyer sees who sent it, accepts and calls.
    const id = await consult(token, say, `CASE-${language}`)
    const desk = lawyer.page
    await desk.locator('#desk-offer').waitFor()
    assert.match(await desk.textContent('#desk-offer'), new RegExp(say.client))
    await desk.waitForFunction(() => document.querySelector('#desk-offer form[action$="/accept"] button').getBoundingClientRect().bottom <= innerHeight)
    await look(desk, 'offer', [viewport])
    await desk.click('#desk-offer form[action$="/accept"] button')
    await crm.event('assigned', id)
    await desk.click('#desk-case form[action$="/call"] button')
    await crm.event('call_started', id)
    await desk.locator('#desk-case form[action$="/end"] button').waitFor()
    const [leg] = await outside.legs(say.clientPhone)
    assert(leg.said.includes(say.hears), leg.said)
    const [lawyersLeg] = await outside.legs(say.lawyerPhone)
    assert(lawyersLeg.said.includes(say.asked), lawyersLeg.said)
    await look(desk, 'call')
    await desk.reload() // reloads in mid-call, and everything is there again
    await desk.click('#desk-case form[action$="/end"] button')
    const { data: ended } = await crm.event('call_ended', id)
    assert.equal(typeof ended.durationSec, 'number')

    // Note and preview: the preview is shared with the partner, the note is not.
    await desk.locator(`#note-${id} [name=confirmed]`).waitFor()
    await desk.fill(`#n-${id}`, say.note)
    await desk.fill(`#p-${id}`, say.preview)
    await desk.check(`#note-${id} [name=confirmed]`)
    await look(desk, 'note')
    await desk.click(`#note-${id} form[action$="/note"] button:not([formaction])`)
    await crm.event('completed', id)
    assert.deepEqual(crm.story(id), ['created', 'payment_authorized', 'matching', 'assigned', 'call_started', 'call_ended', 'note_available', 'completed'])
    assert.equal((await call(program.base, token, 'GET', `/api/v1/consultations/${id}/note`)).body.preview, say.preview)
    await page.goto(`${program.base}/account/consultations/${id}`)
    for (const expected of [say.preview, say.canaries[0]]) assert((await page.textContent('main')).includes(expected), `${expected} is not on the client's page`)
    await look(page, 'consultation')
    const proof = await (await page.request.get(`${program.base}/account/consultations/${id}/proof.json`)).json()
    assert.equal(proof.consultationId, id)

    // An operator finds it by the partner's reference, and sees everything that happened and why this lawyer was
    // chosen. They refund a part; above half the price this requires a second person.
    const ops = operator.page
    await ops.goto(`${program.base}/ops/consultations?q=CASE-${language}`)
    await ops.click(`main a[href="/ops/consultations/${id}"]`)
    const told = await ops.innerText('main') // separates adjacent cells
    assert.deepEqual([...told.matchAll(/consultation\.([a-z_]+)/g)].map(m => m[1]), crm.story(id), 'the order of the timeline')
    for (const expected of [say.lawyer, `CASE-${language}`, ...say.told, 'consultation.call_started', 'consultation.completed']) assert(told.includes(expected), `${expected} is not in the timeline`)
    await look(ops, 'timeline')
    await act(ops, `/ops/consultations/${id}/refund`, { fields: { amount: '12.50' }, reason: 'Goodwill' })
    assert(!crm.story(id).includes('refunded'), 'one person alone gave back more than half the price')
    await second.page.goto(`${program.base}/ops`)
    await second.page.click('main a[href$="/confirm"]')
    await second.page.fill('#reason', 'I agree')
    await second.page.click('main form[method=post] button[type=submit]')
    await crm.event('refunded', id)
    assert.equal((await call(program.base, token, 'GET', '/api/v1/wallet')).body.balanceCents, 5000 - 2000 + 1250)
    await ops.goto(`${program.base}/ops/consultations/${id}`)
    for (const expected of [say.confirmed, 'Odile First: Goodwill', 'Serge Second: I agree', 'consultation.refunded']) assert((await ops.textContent('main')).includes(expected), `${expected} is not in the timeline`)
    await look(ops, 'timeline-refunded', [viewport])
    assert.deepEqual(crm.refused, [], 'webhooks whose signature is not the application\'s')

    // Every action is in the audit, whose chain is intact, and the ledger balances.
    await ops.goto(`${program.base}/ops/audit`)
    await look(ops, 'audit', [viewport])
    const audit = await ops.textContent('main')
    for (const reason of ['First operator', 'Four eyes', 'Admitted to the bar', 'Contract signed', 'Goodwill', 'I agree']) assert(audit.includes(reason), `${reason} is not in the audit`)
    assert((await program.cli('ledger', 'verify')).ok)

    // Nothing of a sandbox is available here.
    for (const path of ['/openapi/sandbox.yaml', '/docs/sandbox']) assert.equal((await fetch(program.base + path)).status, 404, path)

    // Only the people concerned can see the note, the numbers and the description.
    const read = await everyPage(ops)
    assert(read.has(`/ops/consultations/${id}`), 'the operators\' pages were not followed')
    const shown = new Map([...read, ['webhooks', crm.events.items.map(e => e.headers + e.raw).join()], ['log', program.log()], ['metrics', await (await fetch(`http://${metrics}/metrics`)).text()]])
    const secrets = [...say.canaries, say.clientPhone.slice(3), say.lawyerPhone.slice(3)]
    for (const [where, text] of shown) {
      const seen = text.replace(/[\s.-]|&nbsp;/g, '') // numbers are written in many ways
      for (const secret of secrets) assert(!seen.includes(secret), `${secret} is in ${where}`)
    }
    for (const w of windows) await w.close()
  })
}

test('a conflict of interest, a mailbox that answers, and a second connection', async () => {
  const say = { ...words.en, competence: 'FAMILY', clientPhone: '+33639980023' }
  const crm = outside.partner('crm-again')
  await outside.script({ others: { press: '1', pressAfter: 1 }, phones: { [say.clientPhone]: { answerAfter: 1, voicemail: true } } })
  const email = 'again@client.example'
  const app = await program.cli('app', 'create', '--name', 'Cabinet again', '--redirect-uri', crm.callback, '--webhook-url', crm.hooks)
  crm.secret = app.webhookSecret
  await program.cli('client', 'create', '--email', email, '--password', '-', '--name', say.client, '--phone', say.clientPhone, '--phone-verified', '--reason', 'Came in person')
  const lawyers = ['conflicted@bar.example', 'patient@bar.example']
  for (const [i, address] of lawyers.entries()) {
    const { id } = await program.cli('lawyer', 'invite', '--email', address, '--name', say.lawyer, '--phone', `+3314268533${i}`, '--competence', say.competence, '--language', say.speaks, '--correspond', 'en')
    await program.cli('lawyer', 'check', id, '--bar', 'Paris', '--number', `P${i}`, '--until', soon, '--reason', 'Looked up at the bar')
  }
  const windows = await Promise.all(Array.from({ length: 4 }, () => open(browser, { proxy: outside.proxy })))
  const [client, conflicted, patient, elsewhere] = windows
  const begun = await beginLink(await discover(program.base, app), crm.callback)
  await client.page.goto(begun.url)
  await signIn(client.page, email, password)
  await client.page.click('button[value=allow]')
  await client.page.waitForURL(`${crm.callback}?**`)
  const { access_token: token } = await begun.redeem(client.page.url())
  await pay(client.page, crm, token)
  await join(conflicted, await outside.link(lawyers[0]))
  const secret = await join(patient, await outside.link(lawyers[1]))

  // A lawyer who declines for a conflict of interest is not asked again, and is free for others.
  await goOnDuty(conflicted.page)
  const id = await consult(token, say, 'CASE-again')
  await conflicted.page.click('#desk-offer details[id^=decline] summary')
  await conflicted.page.press('#desk-offer button[value=conflict_of_interest]', 'Enter') // a click so soon would be a second tap
  await conflicted.page.locator('#desk[data-presence=AVAILABLE]').waitFor()

  // A voicemail box answers: that is not a call, and the lawyer chooses to wait.
  const desk = patient.page
  await desk.click('form[action="/desk/duty"] button[value=on]')
  await desk.click('#desk-offer form[action$="/accept"] button')
  await desk.click('#desk-case form[action$="/call"] button')
  await desk.locator('form[action$="/choice"] button[value=yes]').waitFor()
  await examine(desk, 'live-unanswered-en-1280')
  const [leg] = await outside.legs(say.clientPhone)
  assert.equal(leg.answeredBy, 'machine_start')
  await desk.click('form[action$="/choice"] button[value=yes]')
  await desk.locator('form[action$="/choice"] button[value=yes]').waitFor({ state: 'detached' })
  await desk.locator('form[action$="/choice"] button[value=no]').waitFor()

  // The lawyer signs in elsewhere. The first connection shows nothing of the client and can do nothing until it takes
  // over again.
  await elsewhere.page.goto(`${program.base}/staff/login`)
  await signIn(elsewhere.page, lawyers[1], password)
  await elsewhere.page.fill('#code', totp(secret, Date.now() + 30_000)) // the code after the used one
  await elsewhere.page.click('main button[type=submit]')
  await elsewhere.page.click('form[action="/desk/duty"] button[value=on]')
  await elsewhere.page.locator('#desk-case').waitFor()
  await desk.locator('#desk-case').waitFor({ state: 'detached' })
  await examine(desk, 'live-elsewhere-en-1280')
  await desk.click('form[action="/desk/duty"] button[value=on]')
  await desk.locator('#desk-case').waitFor()
  await elsewhere.page.locator('#desk-case').waitFor({ state: 'detached' })

  // The client cancels, and pays nothing.
  await client.page.goto(`${program.base}/account/consultations/${id}/cancel`)
  await client.page.click('main button[type=submit]')
  await crm.event('cancelled', id)
  assert(!crm.story(id).includes('call_started'), 'a mailbox began a paid call')
  assert.equal((await call(program.base, token, 'GET', '/api/v1/wallet')).body.availableCents, 5000)
  await desk.locator('#desk-case').waitFor({ state: 'detached' })
  for (const w of windows) await w.close()
})
