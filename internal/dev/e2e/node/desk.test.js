// A lawyer's desk in a browser, from going on duty to the note, with a partner's consultation and the sandbox's phones.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { examine } from './examine.js'
import { beginLink, call, discover } from './partner.js'
import { Person } from './person.js'
import { password, root, start, startSite, totp } from './program.js'
import { launch, narrow, open, shoot, signIn, tabTo, wide } from './window.js'

let program, site, browser, app, config
before(async () => {
  [program, site, browser] = [await start(), await startSite(), await launch()]
  app = await program.application('Cabinet Démo', site.callback)
  config = await discover(program.base, app)
})
after(async () => {
  await browser?.close()
  await program?.stop()
  await site?.stop()
})

const submit = page => page.click('main button[type=submit]')
const duty = (page, what) => page.click(`#desk-duty button[value=${what}]`)
const presence = (page, state) => page.locator(`#desk[data-presence=${state}]`).waitFor()
const act = (page, what) => page.click(`form[action$="/${what}"] button`)

const words = {
  en: { flash: 'New offer', offer: /^New offer: .+, client Demo Client\. You have 30 seconds\.$/, elsewhere: 'connected elsewhere', saved: /^Draft saved/, confirm: 'Confirm that the preview', sent: 'The note was sent.', key: 'The key was set.' },
  fr: { flash: 'Nouvelle proposition', offer: /^Nouvelle proposition\s: .+, client Demo Client\. Vous avez 30 secondes\.$/, elsewhere: 'connecté ailleurs', saved: /^Brouillon enregistré/, confirm: 'Confirmez que l’aperçu', sent: 'La note a été envoyée.', key: 'La clé est enregistrée.' }
}

/** Orders a consultation of a pair, as a partner does for its client, and returns how to read it. */
async function order(competence, language) {
  const begun = await beginLink(config, site.callback)
  const { access_token: token } = await begun.redeem(await new Person().allow(begun.url, await program.client(100_00), password))
  const made = await call(program.base, token, 'POST', '/api/v1/consultations', {
    competence, language, subject: 'Notice of reassessment', description: 'The letter came on Monday.\nTwo months are left to answer.', withdrawalWaiverAcknowledged: true
  }, { 'idempotency-key': randomUUID() })
  assert.equal(made.status, 201, JSON.stringify(made.body))
  const read = async path => (await call(program.base, token, 'GET', `/api/v1/consultations/${made.body.id}${path}`)).body
  return { read: () => read(''), note: () => read('/note') }
}

/** Accepts an invitation in a window: password, device, and on to the desk. Returns the recovery codes. */
async function enter(page, link) {
  await page.goto(link)
  await page.fill('#password', password)
  await submit(page)
  await page.fill('#code', totp(await page.textContent('main code')))
  await submit(page)
  const codes = await page.locator('ul.codes code').allTextContents()
  await page.click('main a.button.wide')
  await page.waitForURL(`${program.base}/desk`)
  return codes
}

/** Has the browser make the lawyer's key, by the keyboard, and returns the file with its secret half, which no request carries. */
async function makeKey(page, look, say) {
  const sent = []
  const note = r => sent.push(r.url() + JSON.stringify(r.headers()) + (r.postData() ?? ''))
  page.on('request', note)
  await page.click('a[href="/desk/key"]')
  await look('key-none')
  await page.click('a[href="/desk/key/change"]')
  await tabTo(page, '#key-make', 40)
  await page.keyboard.press('Enter')
  await page.locator('#key-save').waitFor()
  const recipient = await page.inputValue('#recipient')
  assert.match(recipient, /^age1[02-9ac-hj-np-z]{58}$/)
  await page.click('#key-form button')
  await page.locator('#key-unsaved').waitFor() // not before the file is saved
  await look('key-made')
  const saving = page.waitForEvent('download')
  await tabTo(page, '#key-save', 40)
  await page.keyboard.press('Enter')
  const file = await (await saving).path()
  const secret = /^AGE-SECRET-KEY-1[02-9AC-HJ-NP-Z]{58}$/m.exec(await readFile(file, 'utf8'))?.[0]
  assert(secret, 'the file holds no key')
  await page.click('#key-form button')
  await page.getByText(say.key).waitFor()
  assert((await page.textContent('main')).includes(recipient))
  await look('key-set')
  page.off('request', note)
  assert(sent.some(r => r.includes(recipient)), 'the public half was not sent')
  for (const r of sent) assert(!r.toUpperCase().includes(secret.slice(20, 40)), 'the secret half was sent')
  assert(!(await page.context().cookies()).some(c => c.value.includes(secret)))
  return file
}

/** Takes the first copy and opens it with the file of the key. */
async function takeCopy(page, keyFile) {
  const taking = page.waitForEvent('download')
  await page.click('form[action^="/desk/copies/"] button')
  const copy = await taking
  assert.match(copy.suggestedFilename(), /^con_.+\.age$/)
  return (await promisify(execFile)('go', ['run', './internal/dev/e2e/opencopy', keyFile, await copy.path()], { cwd: root })).stdout
}

for (const [language, viewport, colorScheme, competence, tongue] of [['en', wide, 'light', 'TAX', 'PT'], ['fr', narrow, 'dark', 'TAX', 'AR']]) {
  const say = words[language]

  test(`a consultation at the desk (${language}, ${viewport.width} px)`, async () => {
    const opened = () => open(browser, { language, viewport, colorScheme })
    const w = await opened()
    const { page } = w
    const look = (as, at = page) => examine(at, `desk-${as}-${language}-${viewport.width}`)
    const { email, link } = await program.lawyer(language, competence, tongue)
    const codes = await enter(page, link)
    const keyFile = await makeKey(page, look, say)
    await page.click('.sections a[href="/desk"]')
    await look('off')
    await duty(page, 'on')
    await presence(page, 'AVAILABLE')
    await look('ready')
    await duty(page, 'pause')
    await presence(page, 'AWAY')
    await look('paused')
    await duty(page, 'on')
    await presence(page, 'AVAILABLE')

    const title = await page.title()
    await page.evaluate(() => { globalThis.loaded = true })
    const ordered = await order(competence, tongue)
    await page.locator('#desk-offer').waitFor()
    assert(await page.evaluate(() => globalThis.loaded), 'the offer comes without loading the page again')
    assert.match(await page.textContent('#desk-offer dl'), /Demo Client/)
    assert.match(await page.textContent('#desk-say'), say.offer)
    assert.equal(await page.getAttribute('#desk-say', 'aria-live'), 'assertive')
    await page.waitForFunction(flash => document.title.replaceAll(/\s/g, ' ') === flash, say.flash)
    await page.waitForFunction(title => document.title === title, title)
    const bar = await page.locator('#desk-offer progress').evaluate(n => n.value)
    assert(bar > 0 && bar < 30, `the bar stands at ${bar}`)
    await page.waitForFunction(before => document.querySelector('#desk-offer progress').value < before, bar)
    assert.match(await page.textContent('#desk-offer [data-until]'), /^0:[0-2]\d$/)
    await look('offer')
    await act(page, 'accept')
    await page.locator('form[action$="/call"] button').waitFor()
    assert.equal((await ordered.read()).status, 'ASSIGNED')
    await look('assigned')

    await act(page, 'call')
    await page.locator('[data-since]').waitFor()
    assert.match(await page.textContent('[data-since]'), /^0:0\d$/)
    await look('call')
    const shown = await page.textContent('[data-since]')
    await page.waitForFunction(before => document.querySelector('[data-since]').textContent !== before, shown)
    await page.reload()
    await page.locator('[data-since]').waitFor()
    assert.match(await page.textContent('[data-since]'), /^\d:\d\d$/, 'the time goes on after a reload')

    await page.fill('textarea[name=note]', 'What only the client may know.')
    await page.getByText(say.saved).first().waitFor()
    await page.reload()
    assert.equal(await page.inputValue('textarea[name=note]'), 'What only the client may know.', 'the draft')
    const tab = await page.context().newPage()
    await tab.goto(`${program.base}/desk`)
    await tab.locator('[data-since]').waitFor()
    assert.equal(await tab.inputValue('textarea[name=note]'), 'What only the client may know.', 'the other tab')

    const phone = await opened()
    await phone.page.goto(`${program.base}/desk`)
    await signIn(phone.page, email, password)
    await phone.page.fill('#code', codes[0])
    await submit(phone.page)
    await phone.page.getByText(say.elsewhere).waitFor()
    await duty(phone.page, 'on')
    await phone.page.locator('[data-since]').waitFor()
    await page.locator('#desk-duty .alert').waitFor()
    assert.match(await page.textContent('#desk-duty .alert'), new RegExp(say.elsewhere))
    await tab.locator('#desk-duty .alert').waitFor()
    await look('elsewhere')
    await duty(page, 'on')
    await page.locator('[data-since]').waitFor()
    await tab.locator('[data-since]').waitFor()
    await phone.page.locator('#desk-duty .alert').waitFor()
    await phone.close()
    await tab.close()

    await page.context().setOffline(true)
    await page.locator('#desk-lost').waitFor()
    await look('lost')
    await page.context().setOffline(false)
    await page.locator('#desk-lost').waitFor({ state: 'hidden' })
    w.faults.splice(0) // Chromium logs that it was offline

    await page.fill('textarea[name=preview]', 'Answer the letter within two months.')
    await page.getByText(say.saved).first().waitFor()
    await act(page, 'end')
    await presence(page, 'WRAP_UP')
    assert.equal(await page.inputValue('textarea[name=preview]'), 'Answer the letter within two months.', 'what is written stays as the call ends')
    await look('note')
    await page.reload()
    assert.equal(await page.inputValue('textarea[name=preview]'), 'Answer the letter within two months.', 'the draft')
    const [left, right] = await page.locator('.sides:visible > *').evaluateAll(all => all.map(n => n.getBoundingClientRect().top))
    assert.equal(left === right, viewport === wide, 'note and preview are side by side where there is room')
    await page.click('.writing button[type=submit] >> nth=0')
    await page.getByRole('alert').waitFor()
    assert.match(await page.locator('[role=alert]:visible').textContent(), new RegExp(say.confirm))
    assert.equal(await page.inputValue('textarea[name=note]'), 'What only the client may know.', 'what is refused is not lost')
    await look('note-refused')
    await page.check('input[name=confirmed]')
    await page.click('.writing button[type=submit] >> nth=0')
    await page.getByText(say.sent).waitFor()
    await look('done')
    assert.equal((await ordered.read()).status, 'COMPLETED')
    assert.equal((await ordered.note()).preview, 'Answer the letter within two months.')

    await page.click('a[href="/desk/callbacks"]')
    await look('callbacks')
    await page.click('a[href="/desk/history"]')
    await look('history')
    await page.click('main a[href$="/note"]')
    await look('correct')
    await page.click('.sections a[href="/desk/key"]')
    await look('key-copies')
    assert.equal(await takeCopy(page, keyFile), 'What only the client may know.')
    await page.reload()
    await look('key-taken')
    await page.click('.sections a[href="/desk"]')
    await duty(page, 'off')
    await presence(page, 'OFFLINE')
    await w.close()
  })
}

test('what is written outlives the session', async () => {
  const w = await open(browser, { viewport: { width: 390, height: 844 } })
  const { page } = w
  const context = page.context()
  const { email, link } = await program.lawyer('en', 'INSURANCE', 'PT')
  const codes = await enter(page, link)
  await duty(page, 'on')
  await presence(page, 'AVAILABLE')
  await order('INSURANCE', 'PT')
  await act(page, 'accept')
  await act(page, 'call')
  await page.locator('[data-since]').waitFor()
  await page.fill('textarea[name=note]', 'First.')
  await page.getByText(/^Draft saved automatically at \d\d:\d\d\sCES?T\.$/).waitFor()
  const note = () => page.inputValue('textarea[name=note]')
  const again = async () => {
    const opening = context.waitForEvent('page')
    await page.click('#desk-out a')
    const tab = await opening
    await signIn(tab, email, password)
    await tab.fill('#code', codes.pop())
    await submit(tab)
    await tab.waitForURL(`${program.base}/desk`)
    await page.locator('#desk-out').waitFor({ state: 'hidden' })
    await duty(page, 'on')
    await page.waitForFunction(() => !document.querySelector('[data-keep][data-unsaved]'))
    await tab.reload()
    assert.equal(await tab.inputValue('textarea[name=note]'), await note(), 'the text is not saved')
    await tab.close()
  }

  await page.evaluate(() => { globalThis.loaded = true })
  await context.clearCookies()
  await page.fill('textarea[name=note]', 'First. Second.')
  await page.locator('#desk-out').waitFor()
  await shoot(page, 'desk-out')
  assert.equal(await note(), 'First. Second.')
  await again()

  await page.route('**/draft', route => route.abort())
  await page.fill('textarea[name=note]', 'First. Second. Third.')
  const twin = await open(browser)
  await twin.page.context().addCookies(await context.cookies())
  await twin.page.goto(`${program.base}/desk/history`)
  await twin.page.click('form[action="/staff/logout"] button')
  await twin.page.waitForURL(`${program.base}/staff/login`)
  await twin.close()
  await page.locator('#desk-out').waitFor()
  assert.equal(await note(), 'First. Second. Third.')
  await page.unroute('**/draft')
  await again()
  assert(await page.evaluate(() => globalThis.loaded), 'the page was loaded again')
  const said = w.faults.splice(0) // the blocked draft requests
  assert.deepEqual(said.filter(fault => !fault.includes('ERR_FAILED')), [])
  await w.close()
})

test('a second tap on decline is no reason', async () => {
  const w = await open(browser, { viewport: { width: 390, height: 844 } })
  const { page } = w
  const { link } = await program.lawyer('en', 'TAX', 'ES')
  await enter(page, link)
  await duty(page, 'on')
  await presence(page, 'AVAILABLE')
  await order('TAX', 'ES')
  await page.locator('.answer summary').waitFor()
  const offer = await page.getAttribute('#desk', 'data-offer')
  const sent = []
  page.on('request', r => { if (r.method() === 'POST') sent.push(r.url()) })
  const { x, y, width, height } = await page.locator('.answer summary').boundingBox()
  const under = () => page.evaluate(([x, y]) => document.elementFromPoint(x, y).closest('button')?.value, [x + width / 2, y + height / 2])
  await page.mouse.dblclick(x + width / 2, y + height / 2)
  assert.equal(await under(), 'busy', 'where the second tap was')
  assert.deepEqual(sent, [])
  assert.equal(await page.getAttribute('#desk', 'data-offer'), offer)
  await tabTo(page, '.answer button[value=busy]', 40)
  await page.keyboard.press('Enter')
  await page.locator('#desk-offer').waitFor({ state: 'detached' })
  await w.close()
})

test('accept and decline are in reach on a phone, on every page of the desk', async () => {
  const w = await open(browser, { viewport: { width: 390, height: 844 } })
  const { page } = w
  const { link } = await program.lawyer('en', 'IP', 'ES')
  await enter(page, link)
  await duty(page, 'on')
  await presence(page, 'AVAILABLE')
  await order('IP', 'ES')
  await page.locator('#desk-offer').waitFor()
  const reached = async (path, selector, count) => {
    const all = page.locator(selector)
    assert.equal(await all.count(), count, `${path}: ${selector}`)
    for (const box of await all.evaluateAll(found => found.map(n => n.getBoundingClientRect().toJSON()))) {
      const seen = box.top >= 0 && box.left >= 0 && box.bottom <= 844 && box.right <= 390 && box.height > 0
      assert(seen, `${path}: ${selector} is at ${JSON.stringify(box)}`)
    }
  }
  for (const path of ['/desk', '/desk/callbacks', '/desk/history', '/desk/key', '/desk/key/change', '/staff/security']) {
    await page.goto(program.base + path)
    await page.locator('.answer').waitFor()
    await reached(path, '.answer form[action$="/accept"] button', 1)
    await reached(path, '.answer summary', 1)
    await page.click('.answer summary')
    await reached(path, '.answer form[action$="/decline"] button', 3)
  }
  const silent = w.faults.splice(0) // a page opened without a click may not play sound, as Chromium logs
  assert.deepEqual(silent.filter(fault => !fault.includes('AudioContext')), [])
  await w.close()
})

test('a consultation at the desk without script', async () => {
  const w = await open(browser, { viewport: narrow, javaScriptEnabled: false })
  const { page } = w
  const look = as => shoot(page, `desk-plain-${as}`) // axe needs a page with script
  const { link } = await program.lawyer('en', 'IP', 'PT')
  await enter(page, link)
  await duty(page, 'on')
  await presence(page, 'AVAILABLE')
  await look('ready')
  const ordered = await order('IP', 'PT')
  await page.locator('#desk-offer').waitFor() // the page reloads by itself
  assert.match(await page.textContent('#desk-offer [data-until]'), /^until \d\d:\d\d:\d\d\sCES?T$/, 'a time by the lawyer’s clock')
  const bar = await page.locator('#desk-offer progress').getAttribute('value')
  assert(bar > 0 && bar < 30, `the bar stands at ${bar}`)
  await look('offer')
  await act(page, 'accept')
  await act(page, 'call')
  await page.locator('form[action$="/end"]').waitFor()
  await look('call')
  await page.fill('textarea[name=note]', 'What only the client may know.')
  await page.click('button[formaction$="/draft"]:not([name=take])')
  await page.getByText('Draft saved.').waitFor()
  await act(page, 'end')
  await presence(page, 'WRAP_UP')
  await look('note')
  assert.equal(await page.inputValue('textarea[name=note]'), 'What only the client may know.')
  await page.fill('textarea[name=preview]', 'Answer the letter within two months.')
  await page.check('input[name=confirmed]')
  await page.click('.writing button[type=submit] >> nth=0')
  await page.getByText('The note was sent.').waitFor()
  assert.equal((await ordered.read()).status, 'COMPLETED')
  await duty(page, 'off')
  await presence(page, 'OFFLINE')
  await w.close()
})

test('the desk works with the keyboard alone', async () => {
  const w = await open(browser)
  const { page } = w
  const press = async selector => {
    await tabTo(page, selector, 40)
    await page.keyboard.press('Enter')
  }
  const { link } = await program.lawyer('en', 'IP', 'AR')
  await enter(page, link)
  await press('#desk-duty button[value=on]')
  await presence(page, 'AVAILABLE')
  await order('IP', 'AR')
  await page.locator('#desk-offer').waitFor()
  await press('form[action$="/accept"] button')
  await page.locator('form[action$="/call"]').waitFor()
  assert.equal(await page.evaluate(() => document.activeElement.id), 'd-case', 'the focus follows to what is to be done')
  await press('form[action$="/call"] button')
  await page.locator('[data-since]').waitFor()
  await tabTo(page, 'textarea[name=note]', 40)
  await page.keyboard.type('Secret.')
  await page.locator('form[action$="/end"]').evaluate(form => form.requestSubmit()) // as if the client hung up
  await presence(page, 'WRAP_UP')
  await page.keyboard.type(' And more.')
  assert.equal(await page.inputValue('textarea[name=note]'), 'Secret. And more.', 'who writes goes on writing as the call ends')
  await tabTo(page, 'textarea[name=preview]', 5)
  await page.keyboard.type('Answer the letter.')
  await tabTo(page, 'input[name=confirmed]', 5)
  await page.keyboard.press('Space')
  await press('.writing button[type=submit]')
  await page.getByText('The note was sent.').waitFor()
  await w.close()
})
