// The operators' desk in a browser: what happened, money under the four-eyes principle, lawyers, applications, people
// and the audit.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { examine } from './examine.js'
import { beginLink, call, discover } from './partner.js'
import { Person } from './person.js'
import { password, start, startSite, totp } from './program.js'
import { launch, narrow, open, wide } from './window.js'

let program, site, browser, app, token
before(async () => {
  [program, site, browser] = [await start(), await startSite(), await launch()]
  app = await program.application('Cabinet Démo', site.callback)
  const begun = await beginLink(await discover(program.base, app), site.callback)
  const back = await new Person().allow(begun.url, await program.client(20_000), password)
  token = (await begun.redeem(back)).access_token
})
after(async () => {
  await browser?.close()
  await program?.stop()
  await site?.stop()
})

/** Begins a consultation and, unless nobody serves it, waits until its note has come. */
async function consultation(externalRef, competence, language) {
  const made = await call(program.base, token, 'POST', '/api/v1/consultations',
    { competence, language, subject: 'A planted subject', description: 'A planted description', externalRef, withdrawalWaiverAcknowledged: true }, { 'idempotency-key': crypto.randomUUID() })
  assert.equal(made.status, 201, JSON.stringify(made.body))
  if (language === 'PT') return made.body.id
  for (const giveUp = Date.now() + 150_000; ;) {
    const { body } = await call(program.base, token, 'GET', `/api/v1/consultations/${made.body.id}`)
    if (body.status === 'COMPLETED') return body.id
    assert(Date.now() < giveUp, `the consultation is still ${body.status}`)
    await pause(250)
  }
}

async function enter(page, link) {
  await page.goto(link)
  await page.fill('#password', password)
  await page.click('main button[type=submit]')
  await page.fill('#code', totp(await page.textContent('main code')))
  await page.click('main button[type=submit]')
  await page.waitForSelector('ul.codes')
}

const words = {
  en: { why: 'Offers to lawyers', own: 'Another person must confirm', reason: 'Reason: A value is required', last: 'At least one active admin must remain', back: 'refunded' },
  fr: { why: 'Propositions aux avocats', own: 'une autre personne doit la confirmer', reason: 'Motif\\s: Une valeur', last: 'Il doit rester un administrateur', back: 'remboursement' }
}
for (const [language, viewport, colorScheme] of [['fr', narrow, 'dark'], ['en', wide, 'light']]) {
  const say = words[language]

  test(`a day at the desk (${language}, ${viewport.width} px)`, async () => {
    const w = await open(browser, { language, viewport, colorScheme })
    const { page } = w
    const look = as => examine(page, `ops-${as}-${language}-${viewport.width}`)
    const visit = async (path, as) => {
      const answer = await page.goto(program.base + path)
      assert.equal(answer.status(), 200, path)
      assert.doesNotMatch(await page.textContent('main'), /planted/, `${path} shows the case`)
      await look(as)
    }
    const act = async (name, as, reason = `Test: ${name}`) => {
      await page.click(`main a[href$="/${name}"]`)
      await page.fill('#reason', reason)
      if (as) await look(as)
      await page.click('main form[method=post] button[type=submit]')
    }
    const done = () => page.locator('p.done').waitFor()

    const { email, link } = await program.operator(language)
    await enter(page, link)
    await visit('/ops', 'board-empty')
    await visit('/ops/consultations?q=nothing', 'search-none')
    await visit('/ops/clients', 'clients')
    await visit('/ops/clients?q=nobody', 'clients-none')

    const reference = `CASE-${language}`
    const waiting = await consultation(`${reference}-waits`, 'IP', 'PT')
    const id = await consultation(reference, 'FAMILY', 'FR')
    await page.goto(`${program.base}/ops/consultations`)
    await page.fill('#q', reference)
    await page.click('form[role=search] button')
    await page.waitForURL('**/consultations?q=*')
    assert.equal(await page.locator('main tbody tr').count(), 1)
    await look('search')
    await page.click(`main a[href="/ops/consultations/${id}"]`)
    await page.getByRole('heading', { name: say.why }).waitFor()
    assert.match(await page.textContent('main'), /consultation\.completed/)
    assert.doesNotMatch(await page.textContent('main'), /planted/)
    await look('consultation')
    const client = await page.getAttribute('main a[href^="/ops/clients/"]', 'href')
    const lawyer = await page.getAttribute('main a[href^="/ops/lawyers/"]', 'href')
    const delivery = await page.getAttribute('main a[href^="/ops/deliveries/"]', 'href').catch(() => null)

    await act('refund', 'refund', '')
    assert.match(await page.textContent('[role=alert]'), new RegExp(say.reason))
    await look('refund-no-reason')
    await page.fill('#reason', 'The line dropped')
    await page.fill('#amount', language === 'fr' ? '20,00' : '20.00')
    await page.click('main form[method=post] button[type=submit]')
    await done()
    assert.match(await page.textContent('p.done'), new RegExp(say.own))
    await look('refund-proposed')
    await visit('/ops', 'board')
    assert.equal(await page.locator('main a[href$="/confirm"]').count(), 0, 'a proposer may confirm')

    await page.goto(`${program.base}/ops/people/invite`)
    await page.fill('#name', 'Fiona Finance')
    await page.fill('#email', `finance-${language}@partners.example`)
    await page.check('input[value=finance]')
    await page.fill('#reason', 'She keeps the books')
    await look('invite')
    await page.click('main form[method=post] button[type=submit]')
    await done()
    await look('invited')
    const second = /https?:\/\/\S+token=\S+/.exec(await program.mail(`finance-${language}@partners.example`))[0]
    const f = await open(browser, { language, viewport, colorScheme })
    await enter(f.page, second)
    await f.page.goto(`${program.base}/ops`)
    await f.page.click('main a[href$="/confirm"]')
    await examine(f.page, `ops-confirm-${language}-${viewport.width}`)
    await f.page.fill('#reason', 'I heard the call records')
    await f.page.click('main form[method=post] button[type=submit]')
    await f.page.locator('p.done').waitFor()
    await examine(f.page, `ops-confirmed-${language}-${viewport.width}`)
    assert.equal((await f.page.goto(`${program.base}/ops/lawyers`)).status(), 403)
    await examine(f.page, `ops-not-yours-${language}-${viewport.width}`)
    await f.close()
    await visit(`/ops/consultations/${id}`, 'consultation-refunded')
    assert.match(await page.textContent('main'), new RegExp(say.back))

    await visit(client, 'client')
    await page.click('main a[href$="/adjust"]')
    await look('adjust')
    await visit(`/ops/consultations/${waiting}`, 'consultation-waiting')
    await page.click('main a[href$="/assign"]')
    await look('assign')
    await page.fill('#lawyer', 'law_nobody')
    await page.fill('#reason', 'Test')
    await page.click('main form[method=post] button[type=submit]')
    await page.getByRole('alert').waitFor()
    await page.goto(`${program.base}/ops/consultations/${waiting}`)
    await act('cancel', 'cancel')
    await done()

    await visit('/ops/lawyers', 'lawyers')
    await visit(lawyer, 'lawyer')
    await act('suspend', 'lawyer-suspend')
    await done()
    await look('lawyer-suspended')
    await act('resume')
    await done()
    await act('skills', 'lawyer-skills')
    await done()
    await visit('/ops/lawyers/invite', 'lawyer-invite')

    await visit('/ops/applications', 'applications')
    await page.click('main a[href$="/new"]')
    await page.fill('#name', `CRM ${language}`)
    await page.fill('#redirects', 'https://crm.example/callback')
    await page.fill('#webhook', 'https://crm.example/hooks')
    await page.fill('#reason', 'A new partner')
    await look('application-new')
    await page.click('main form[method=post] button[type=submit]')
    await page.locator('dl.facts code').first().waitFor()
    const secrets = await page.locator('dl.facts code').allTextContents()
    assert.equal(secrets.length, 3)
    await look('application-secrets')
    await page.click('main a.button')
    await page.getByRole('heading', { level: 1, name: `CRM ${language}` }).waitFor() // the next step leads to it
    const shown = await page.content()
    assert(secrets.slice(1).every(s => !shown.includes(s)), 'a secret is shown again')
    await look('application')
    for (const form of ['edit', 'secret', 'redeliver']) {
      const own = page.url()
      await page.click(`main a[href$="/${form}"]`)
      await look(`application-${form}`)
      await page.goto(own)
    }
    if (delivery) await visit(delivery, 'delivery')

    await visit('/ops/people', 'people')
    // Every other admin is removed, and the last one stays.
    for (const other of await page.locator('main tr', { hasText: 'admin' }).filter({ hasNotText: email }).locator('a').evaluateAll(links => links.map(a => a.href))) {
      await page.goto(other)
      await act('disable')
      await done()
    }
    await page.goto(`${program.base}/ops/people`)
    await page.click(`main tr:has-text("${email}") a`)
    await look('person')
    await act('disable')
    assert.match(await page.textContent('[role=alert]'), new RegExp(say.last))
    await look('person-last-admin')
    await visit('/ops/money', 'money')
    await visit('/ops/audit', 'audit')
    await visit(`/ops/audit?subject=${id}`, 'audit-of-one')
    await page.goto(`${program.base}/ops/audit`)
    const [file] = await Promise.all([page.waitForEvent('download'), page.click('main a[href$="export.jsonl"]')])
    const lines = (await readFile(await file.path(), 'utf8')).trim().split('\n').map(l => JSON.parse(l))
    assert(lines.some(l => l.hashed.includes('I heard the call records')), 'the export lacks an act')
    assert.deepEqual(lines.map(l => l.number), lines.map((_, i) => i + 1))
    await w.close()
  })
}
