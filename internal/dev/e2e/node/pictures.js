// Takes the screenshots of the README: twelve pages, each light and dark, into the folder named by the argument. The
// pages show a running program with a consultation under way.
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { beginLink, call, discover, allScopes } from './partner.js'
import { password, start, startSite, totp } from './program.js'
import { launch, open, signIn } from './window.js'

const folder = resolve(process.argv[2])
const viewport = { width: 1120, height: 720 }
await mkdir(folder, { recursive: true })
const [program, site, browser] = [await start(), await startSite(), await launch()]
const { page } = await open(browser, { viewport })
const staff = await open(browser, { viewport })
const lawyer = await open(browser, { viewport })

/** Takes the page as it is, in both colour schemes. */
async function take(name, of = page) {
  await of.evaluate(() => scrollTo(0, 0))
  for (const colorScheme of ['light', 'dark']) {
    await of.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
    await of.screenshot({ path: join(folder, `${name}-${colorScheme}.png`) })
  }
  await of.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' })
}

async function visit(path, name, of = page) {
  const response = await of.goto(program.base + path)
  assert.equal(response.status(), 200, path)
  if (name) await take(name, of)
}

/** Accepts an invitation: name where it is asked for, password, second factor. */
async function enter(of, link) {
  await of.goto(link)
  if (await of.locator('#name').count()) await of.fill('#name', 'A developer')
  await of.fill('#password', password)
  await of.click('main button[type=submit]')
  await of.fill('#code', totp(await of.textContent('main code')))
  await of.click('main button[type=submit]')
}

try {
  await visit('/', 'home')
  await visit('/docs/quickstart', 'quickstart')
  await visit('/docs/reference/consultations', 'reference')
  await visit('/status', 'status')

  // A developer signs up and creates an application.
  await page.goto(`${program.base}/developers/signup`)
  await page.fill('#email', 'developer@crm.example')
  await page.click('main button[type=submit]')
  await enter(page, /https?:\/\/\S+token=\S+/.exec(await program.mail('developer@crm.example'))[0])
  await page.goto(`${program.base}/developers/new`)
  await page.fill('[name=name]', 'Demo CRM')
  await page.fill('[name=redirects]', site.callback)
  await page.fill('[name=contact]', 'developer@crm.example')
  await page.click('main button[type=submit]')
  const shown = await page.locator('main code').allTextContents()
  const [clientId, clientSecret] = ['app_', 'sk_'].map(prefix => shown.find(s => s.startsWith(prefix)))
  const config = await discover(program.base, { clientId, clientSecret })

  // A client gives consent, and a lawyer gets the offer.
  await enter(lawyer.page, (await program.lawyer('en', 'TAX', 'PT')).link)
  await lawyer.page.click('main a.button.wide')
  await lawyer.page.waitForURL(`${program.base}/desk`)
  const email = await program.client(80_00)
  const person = await open(browser, { viewport })
  const begun = await beginLink(config, site.callback, allScopes)
  await person.page.goto(begun.url)
  await signIn(person.page, email, password)
  await person.page.locator('button[value=allow]').waitFor()
  await take('consent', person.page)
  await person.page.click('button[value=allow]')
  await person.page.waitForURL(`${site.base}/**`)
  const { access_token: token } = await begun.redeem(person.page.url())
  const order = async (competence, language) => {
    const made = await call(program.base, token, 'POST', '/api/v1/consultations',
      { competence, language, subject: 'Notice of reassessment', withdrawalWaiverAcknowledged: true }, { 'idempotency-key': randomUUID() })
    assert.equal(made.status, 201, JSON.stringify(made.body))
    return made.body.id
  }
  const done = await order('FAMILY', 'FR')
  for (const giveUp = Date.now() + 60_000; ;) {
    const { body } = await call(program.base, token, 'GET', `/api/v1/consultations/${done}`)
    if (body.status === 'COMPLETED') break
    assert(Date.now() < giveUp, `the consultation is ${body.status}`)
    await pause(500)
  }
  await lawyer.page.click('#desk-duty button[value=on]')
  await lawyer.page.locator('#desk[data-presence=AVAILABLE]').waitFor()
  await order('TAX', 'PT')
  await lawyer.page.locator('form[action$="/accept"] button').waitFor()
  await take('desk', lawyer.page)
  await person.page.goto(`${program.base}/account/wallet`)
  await take('wallet', person.page)
  await person.page.click('main form[action="/account/wallet/topup"] button')
  await take('checkout', person.page)
  await person.close()

  const app = `/developers/apps/${clientId}`
  await visit(app, 'portal')
  await visit(`${app}/requests`, 'requests')

  await enter(staff.page, (await program.operator('en')).link)
  await visit('/ops', 'operations', staff.page)
} finally {
  await browser.close()
  await site.stop()
  await program.stop()
}
