// The demonstration CRM: everything that a partner's users see, over the published contract, with the client's own
// pages in between.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { after, before, test } from 'node:test'
import { examine } from './examine.js'
import { freePort, password, root, start } from './program.js'
import { launch, narrow, open, signIn, wide } from './window.js'

let program, browser, folder, crm, base
before(async () => {
  [program, browser, folder] = [await start(), await launch(), await mkdtemp(join(tmpdir(), 'democrm-'))]
  base = `http://localhost:${await freePort()}`
  const app = await program.cli('app', 'create', '--name', 'Demo CRM', '--redirect-uri', `${base}/callback`, '--webhook-url', `${base}/webhooks`)
  const credentials = join(folder, 'credentials.json')
  await writeFile(credentials, JSON.stringify({ ...app, redirectUri: `${base}/callback` }))
  crm = spawn(join(root, 'bin/democrm'), ['serve', '-base-url', program.base, '-credentials', credentials, '-beside', String(process.pid)], { stdio: ['ignore', 'ignore', 'inherit'] })
  for (const giveUp = Date.now() + 20_000; !await fetch(base).then(r => r.ok, () => false);) {
    assert(Date.now() < giveUp, 'the CRM does not answer')
    await pause(100)
  }
})
after(async () => {
  await browser?.close()
  if (crm) {
    crm.kill('SIGTERM')
    await once(crm, 'exit')
  }
  await rm(folder, { recursive: true, force: true })
  await program?.stop()
})

test('a client is connected, tops up, talks to a lawyer, and every webhook is shown', async () => {
  const email = await program.client(0)
  const w = await open(browser)
  const { page } = w
  await page.goto(base)
  await examine(page, 'democrm-start')
  await page.click('button:has-text("Connect the client")')
  await signIn(page, email, password)
  await page.click('button[value=allow]')
  await page.waitForURL(`${base}/`)
  await page.waitForSelector('h1:has-text("Demo Client")')

  // Without money, the error leads to the client's wallet.
  const begin = async () => {
    await page.selectOption('[name=competence]', 'HOUSING')
    await page.selectOption('[name=language]', 'FR')
    await page.click('button:has-text("Check availability")')
    await page.waitForSelector('text=lawyers are online')
    await page.check('[name=waiver]')
    await page.click('button:has-text("Start for 20 EUR")')
  }
  await begin()
  await page.waitForSelector('[role=alert] h2:has-text("INSUFFICIENT_FUNDS")')
  assert.match(await page.getAttribute('[role=alert] a', 'href'), /\/account\/wallet\?application=/)
  await examine(page, 'democrm-refused')

  await page.selectOption('[name=cents]', '5000')
  await page.click('button:has-text("Open the payment page")')
  await page.click('button[value=pay]')
  await page.click('main a[href^="' + base + '"]')
  await page.waitForURL(`${base}/`)
  for (const giveUp = Date.now() + 20_000; !(await page.textContent('dl')).includes('50.00 EUR available');) {
    assert(Date.now() < giveUp, 'the wallet was not credited')
    await page.reload()
  }
  await begin()
  await page.waitForURL(/\/consultations\/con_/)
  await page.waitForSelector('dd.status:has-text("COMPLETED")', { timeout: 60_000 })
  await page.waitForSelector('text=Preview of the lawyer')
  const types = await page.locator('ol.events li b').allTextContents()
  assert.deepEqual(types, ['created', 'payment_authorized', 'matching', 'assigned', 'call_started', 'call_ended', 'note_available', 'completed'].map(t => `consultation.${t}`))
  for (const viewport of [wide, narrow]) {
    await page.setViewportSize(viewport)
    await examine(page, `democrm-consultation-${viewport.width}`)
  }
  await page.click('text=Back')
  await page.waitForSelector('text=New consultation')
  await examine(page, 'democrm-home-320')
  await page.click('button:has-text("Disconnect")')
  await page.waitForSelector('button:has-text("Connect the client")')
  await w.close()
})

test('what belongs to another request or comes from another site changes nothing', async () => {
  const w = await open(browser)
  await w.page.goto(`${base}/callback?code=stolen&state=made-up&iss=${encodeURIComponent(program.base)}`)
  await w.page.waitForSelector('[role=alert]:has-text("Not connected")')
  const foreign = await fetch(`${base}/disconnect`, { method: 'POST', headers: { 'Sec-Fetch-Site': 'cross-site', Origin: 'https://evil.example' } })
  assert.equal(foreign.status, 403)
  const unsigned = await fetch(`${base}/webhooks`, { method: 'POST', body: '{}' })
  assert.equal(unsigned.status, 400)
  await w.close()
})
