// How lawyers and operators start and sign in, in a browser: invitation, device, recovery codes, passkey.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, before, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { examine } from './examine.js'
import { password, start, totp } from './program.js'
import { authenticator, launch, narrow, open, signIn, tabTo, wide } from './window.js'

let program, browser
before(async () => {
  [program, browser] = [await start(), await launch()]
})
after(async () => {
  await browser?.close()
  await program?.stop()
})

const period = 30_000
const submit = page => page.click('main button[type=submit]')
const linkIn = mail => /https?:\/\/\S+token=\S+/.exec(mail)[0]
const words = {
  en: { gone: 'This link no longer works', wrong: 'wrong or has already been used', left: n => `Unused codes: ${n}\\.`, mailed: 'recovery code' },
  fr: { gone: 'Ce lien ne fonctionne plus', wrong: 'incorrect ou a déjà été utilisé', left: n => `Codes non utilisés\\s: ${n}\\.`, mailed: 'code de secours' }
}

/** Waits for the next code: each is accepted once. */
async function nextCode(secret, last) {
  for (;;) {
    const code = totp(secret)
    if (code !== last) return code
    await pause(period - Date.now() % period)
  }
}

for (const [language, viewport, colorScheme] of [['en', wide, 'light'], ['fr', narrow, 'dark']]) {
  const say = words[language]
  const name = page => `staff-${page}-${language}-${viewport.width}`

  test(`from the invitation to a passkey (${language}, ${viewport.width} px)`, async () => {
    const w = await open(browser, { language, viewport, colorScheme })
    const { page } = w
    const look = as => examine(page, name(as))
    const leave = () => page.click('form.session button')
    const seen = new Set()
    const { email, link } = await program.operator(language)
    const mailed = linkIn(await program.mail(email, seen))
    assert.equal(mailed, link)

    await page.goto(mailed)
    await look('invitation')
    await page.fill('#password', 'short')
    await submit(page)
    await look('invitation-weak')
    await page.fill('#password', password)
    await submit(page)

    const secret = await page.textContent('main code')
    await look('factor')
    await page.goto(`${program.base}/ops`)
    assert.match(page.url(), /\/staff\/login\?next=/, 'a password alone opens the desk')
    await page.goto(`${program.base}/staff/login/factor`)
    await page.fill('#code', '000000')
    await submit(page)
    await page.getByRole('alert').waitFor()
    await look('factor-wrong')
    let code = totp(secret)
    await page.fill('#code', code)
    await submit(page)
    const codes = await page.locator('ul.codes code').allTextContents()
    assert.equal(new Set(codes).size, 10)
    const saving = page.waitForEvent('download')
    await page.click('main a[download]')
    assert.equal(await readFile(await (await saving).path(), 'utf8'), codes.map(code => `${code}\r\n`).join(''))
    assert(await page.locator('#codes-print').isVisible())
    await look('codes')
    await page.goto(mailed)
    assert.match(await page.textContent('h1'), new RegExp(say.gone))
    await look('invitation-used')
    await page.goto(`${program.base}/ops`)
    await look('ops')

    await leave()
    await page.goto(`${program.base}/ops`)
    await look('login')
    await signIn(page, email, 'a wrong password here')
    await page.getByRole('alert').waitFor()
    await look('login-wrong')
    await signIn(page, email, password)
    await look('code')
    await page.fill('#code', code)
    await submit(page)
    assert.match(await page.textContent('[role=alert]'), new RegExp(say.wrong))
    await look('code-wrong')
    code = await nextCode(secret, code)
    await page.fill('#code', code)
    await submit(page)
    await page.waitForURL(`${program.base}/ops`)

    await leave()
    await page.goto(`${program.base}/staff/security`)
    await signIn(page, email, password)
    await page.fill('#code', codes[2].toUpperCase())
    await submit(page)
    await page.waitForURL(`${program.base}/staff/security`)
    assert.match(await page.textContent('main'), new RegExp(say.left(9)))
    await program.mailed(email, new RegExp(say.mailed), seen)

    const device = await authenticator(page)
    await page.click('a[href="/staff/security/passkeys"]')
    await look('passkey-new')
    await page.fill('#name', 'Clé du bureau')
    await page.click('#passkey-start')
    await page.getByRole('status').waitFor()
    await look('security')
    await leave()
    await page.click('a[href^="/staff/login/passkey"]')
    await look('passkey-login')
    await page.click('#passkey-start')
    await page.waitForURL(`${program.base}/ops`)
    await leave()
    await device.refuse()
    await page.goto(`${program.base}/staff/login/passkey`)
    await page.click('#passkey-start')
    await page.getByRole('alert').waitFor()
    await look('passkey-refused')
    await w.close()
  })

  test(`a lawyer is invited, and forgets the password (${language}, ${viewport.width} px)`, async () => {
    const w = await open(browser, { language, viewport, colorScheme })
    const { page } = w
    const seen = new Set()
    const { email, link } = await program.lawyer(language)
    await page.goto(link)
    await page.fill('#password', password)
    await submit(page)
    const secret = await page.textContent('main code')
    const code = totp(secret)
    await page.fill('#code', code)
    await submit(page)
    assert.equal(await page.getAttribute('main a.button.wide', 'href'), '/desk')
    await page.goto(`${program.base}/ops`)
    await examine(page, name('not-yours'))
    await page.click('form.session button')
    await page.click('a[href="/staff/password/forgot"]')
    await page.fill('#email', email)
    await submit(page)
    await examine(page, name('forgot-sent'))
    const reset = linkIn(await program.mailed(email, /password\/reset/, seen))
    await page.goto(reset)
    await examine(page, name('reset'))
    await page.fill('#password', 'another long password')
    await submit(page)
    await page.fill('#code', await nextCode(secret, code))
    await submit(page)
    await page.goto(`${program.base}/staff/security`)
    await examine(page, name('security-lawyer'))
    await w.close()
  })
}

test('the sign-in works with the keyboard alone, at 400 %', async () => {
  const w = await open(browser, { viewport: narrow }) // 1280 px at 400 %
  const { page } = w
  const { email, link } = await program.operator('en')
  const type = async (selector, text) => {
    await tabTo(page, selector, 40)
    await page.keyboard.type(text)
  }
  await page.goto(link)
  await type('#password', password)
  await page.keyboard.press('Enter')
  await page.waitForURL('**/staff/login/factor')
  await type('#code', totp(await page.textContent('main code')))
  await page.keyboard.press('Enter')
  await page.waitForSelector('ul.codes')
  const codes = await page.locator('ul.codes code').allTextContents()
  await tabTo(page, 'main a.button.wide', 40)
  await page.keyboard.press('Enter')
  await page.waitForURL(`${program.base}/ops`)
  await tabTo(page, 'form.session button', 40)
  await page.keyboard.press('Enter')
  await page.waitForURL('**/staff/login')
  await type('#email', email)
  await type('#password', password)
  await page.keyboard.press('Enter')
  await page.waitForURL('**/staff/login/code**')
  await type('#code', codes[0])
  await page.keyboard.press('Enter')
  await page.waitForURL(`${program.base}/ops`)
  await w.close()
})
