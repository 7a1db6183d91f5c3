// What clients do for themselves, in a browser: sign up, recover, verify, passkeys, wallet, consultations, erasure.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { examine } from './examine.js'
import { beginLink, call, discover } from './partner.js'
import { password, start, startSite } from './program.js'
import { authenticator, launch, narrow, open, signIn, tabTo, wide } from './window.js'

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

const linkIn = mail => /https?:\/\/\S+token=\S+/.exec(mail)[0]
const back = page => page.waitForURL(`${site.base}/**`).then(() => new URL(page.url()))
const words = {
  en: { show: 'Show password', hide: 'Hide password', sent: 'Check your email', choose: 'Choose your password', gone: 'This link no longer works', throttled: 'Too many attempts', refused: 'was not accepted|did not respond' },
  fr: { show: 'Afficher le mot de passe', hide: 'Masquer le mot de passe', sent: 'Consultez votre messagerie', choose: 'Choisissez votre mot de passe', gone: 'Ce lien ne fonctionne plus', throttled: 'Trop de tentatives', refused: 'n’a pas été acceptée|n’a pas répondu' }
}

async function link(w, scopes) {
  const begun = await beginLink(config, site.callback, scopes)
  await w.page.goto(begun.url)
  await w.page.click('button[value=allow]')
  return begun.redeem(await back(w.page))
}

async function consultation(token) {
  const response = await fetch(`${program.base}/api/v1/consultations`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'idempotency-key': crypto.randomUUID() },
    body: JSON.stringify({ competence: 'IP', language: 'PT', subject: 'Une marque & un logo', description: 'Que faire ?', withdrawalWaiverAcknowledged: true })
  })
  const body = await response.json()
  assert.equal(response.status, 201, JSON.stringify(body))
  return body
}

for (const [language, viewport, colorScheme] of [['en', wide, 'light'], ['fr', narrow, 'dark']]) {
  const say = words[language]
  const name = page => `${page}-${language}-${viewport.width}`

  test(`a new client comes from an application and goes back to it (${language}, ${viewport.width} px)`, async () => {
    const w = await open(browser, { language, viewport, colorScheme })
    const { page } = w
    const email = `new-${language}@client.example`
    const begun = await beginLink(config, site.callback, ['profile:read'])
    await page.goto(begun.url)
    await page.click('a[href^="/signup"]')
    await examine(page, name('signup'))
    await page.click('main button[type=submit]')
    await examine(page, name('signup-empty'))
    await page.fill('#name', 'Dominique Client')
    await page.fill('#email', email)
    await page.click('main button[type=submit]')
    assert.match(await page.textContent('h1'), new RegExp(say.sent))
    await examine(page, name('signup-sent'))
    const url = linkIn(await program.mail(email))
    await page.goto(url)
    assert.match(await page.textContent('h1'), new RegExp(say.choose))
    await page.fill('#password', 'short')
    await page.click('main button[type=submit]')
    await examine(page, name('signup-weak'))
    await page.fill('#password', password)
    await page.click('main button[type=submit]')
    await page.click('button[value=allow]')
    const tokens = await begun.redeem(await back(page))
    assert.equal((await call(program.base, tokens.access_token, 'GET', '/api/v1/me')).body.email, email)
    await page.goto(url)
    assert.match(await page.textContent('h1'), new RegExp(say.gone))
    await examine(page, name('link-used'))

    await page.goto(`${program.base}/account`)
    await examine(page, name('overview-new'))
    await page.goto(`${program.base}/account/phone`)
    await examine(page, name('phone'))
    await page.fill('#phone', '01 42 68 53 00')
    await page.click('form[action="/account/phone"] button[type=submit]')
    await examine(page, name('phone-landline'))
    const number = language === 'en' ? '+33639980011' : '+33639980012'
    await page.fill('#phone', number)
    await page.click('form[action="/account/phone"] button[type=submit]')
    await examine(page, name('phone-code'))
    const code = /\d{6}/.exec((await program.text(number)).split('\n\n')[1])[0]
    await page.fill('#code', code === '000000' ? '111111' : '000000')
    await page.click('form[action="/account/phone/code"] button')
    await page.getByRole('alert').waitFor()
    await page.fill('#code', code)
    await page.click('form[action="/account/phone/code"] button')
    await page.getByRole('status').waitFor()
    assert.equal((await call(program.base, tokens.access_token, 'GET', '/api/v1/me')).body.phoneVerified, true)
    await w.close()
  })

  test(`a password is shown, hidden again, and sent as one (${language}, ${viewport.width} px)`, async () => {
    const w = await open(browser, { language, viewport, colorScheme })
    const { page } = w
    const email = await program.client()
    await page.goto(`${program.base}/login`)
    const field = page.locator('#password')
    const button = page.locator('button[data-reveal=password]')
    const is = async (type, pressed, label) => {
      assert.equal(await field.getAttribute('type'), type)
      assert.equal(await button.getAttribute('aria-pressed'), pressed)
      assert.equal(await button.textContent(), label)
    }
    await page.fill('#email', email)
    await page.fill('#password', password)
    await is('password', 'false', say.show)
    await tabTo(page, 'button[data-reveal=password]', 2)
    await page.keyboard.press('Space')
    await is('text', 'true', say.hide)
    await examine(page, name('login-shown'))
    await button.click()
    await is('password', 'false', say.show)
    await button.click()
    await page.evaluate(() => document.querySelector('main form').addEventListener('submit', e => e.preventDefault()))
    await page.click('main button[type=submit]')
    await is('password', 'false', say.show)
    await w.close()

    const without = await open(browser, { language, viewport, colorScheme, javaScriptEnabled: false })
    await without.page.goto(`${program.base}/login`)
    assert.equal(await without.page.locator('button[data-reveal]').isVisible(), false)
    await without.close()
  })

  test(`a forgotten password (${language}, ${viewport.width} px)`, async () => {
    const w = await open(browser, { language, viewport, colorScheme })
    const { page } = w
    const email = await program.client()
    await page.goto(`${program.base}/login`)
    await page.click('a[href="/password/forgot"]')
    await examine(page, name('forgot'))
    await page.fill('#email', email)
    await page.click('main button[type=submit]')
    await examine(page, name('forgot-sent'))
    await page.goto(linkIn(await program.mail(email, undefined, /token=/)))
    await examine(page, name('reset'))
    await page.fill('#password', 'another long password')
    await page.click('main button[type=submit]')
    await page.getByRole('status').waitFor()
    await examine(page, name('security-reset'))
    await w.close()
  })

  test(`another e-mail address, and the old one back (${language}, ${viewport.width} px)`, async () => {
    const w = await open(browser, { language, viewport, colorScheme })
    const { page } = w
    const email = await program.client()
    const fresh = `new-${email}`
    const mailedLink = async to => {
      for (const seen = new Set(); ;) {
        const mail = await program.mail(to, seen)
        if (mail.includes('token=')) return linkIn(mail)
      }
    }
    await page.goto(`${program.base}/login?next=/account/security`)
    await signIn(page, email, password)
    const { access_token: token } = await link(w, ['profile:read'])
    await page.goto(`${program.base}/account/security`)
    await page.click('a[href="/account/security/email"]')
    await examine(page, name('email'))
    await page.fill('#email', 'nonsense')
    await page.fill('#present', 'a wrong password')
    await page.click('main button[type=submit]')
    await examine(page, name('email-nonsense'))
    await page.fill('#email', fresh)
    await page.fill('#present', 'a wrong password')
    await page.click('main button[type=submit]')
    await examine(page, name('email-refused'))
    await page.fill('#present', password)
    await page.click('main button[type=submit]')
    await examine(page, name('email-sent'))
    await page.goto(await mailedLink(fresh))
    await examine(page, name('email-confirm'))
    await page.click('main button[type=submit]')
    await page.getByRole('status').waitFor()
    await examine(page, name('security-email'))
    assert.equal((await call(program.base, token, 'GET', '/api/v1/me')).body.email, fresh)

    const undo = await mailedLink(email)
    await page.goto(undo)
    await examine(page, name('undo'))
    await page.fill('#password', 'another long password')
    await page.click('main button[type=submit]')
    await page.getByRole('status').waitFor()
    assert.match(await page.textContent('main'), new RegExp(email))
    assert.equal((await call(program.base, token, 'GET', '/api/v1/me')).status, 401)
    await page.goto(undo)
    assert.match(await page.textContent('h1'), new RegExp(say.gone))
    await w.close()
  })

  test(`passkey: add, sign in, refuse, remove (${language}, ${viewport.width} px)`, async () => {
    const w = await open(browser, { language, viewport, colorScheme })
    const { page } = w
    const device = await authenticator(page)
    const email = await program.client()
    await page.goto(`${program.base}/login?next=/account/security`)
    await signIn(page, email, password)
    await page.click('a[href="/account/security/passkeys"]')
    await examine(page, name('passkey-new'))
    await page.fill('#name', 'Mon téléphone')
    await page.click('#passkey-start')
    await page.getByRole('status').waitFor()
    assert.match(await page.textContent('main'), /Mon téléphone/)
    await examine(page, name('security'))

    const leave = () => page.click('form.session button')
    await leave()
    await page.goto(`${program.base}/login?next=/account/wallet`)
    await page.click('a[href^="/login/passkey"]')
    await examine(page, name('passkey-login'))
    assert.match((await page.request.get(`${program.base}/login/passkey`)).headers()['content-security-policy'], /script-src 'self'$/)
    await page.click('#passkey-start')
    await page.waitForURL(`${program.base}/account/wallet`)

    await leave()
    await device.refuse()
    await page.goto(`${program.base}/login/passkey`)
    await page.click('#passkey-start')
    await page.getByRole('alert').waitFor()
    assert.match(await page.textContent('[role=alert]'), new RegExp(say.refused))
    await examine(page, name('passkey-refused'))

    await page.click('a[href^="/login?"]')
    await page.goto(`${program.base}/login?next=/account/security`)
    await signIn(page, email, password)
    await page.click('form[action$="/remove"] button')
    await page.getByRole('status').waitFor()
    assert.doesNotMatch(await page.textContent('main'), /Mon téléphone/)
    await program.mail(email, undefined, /passkey was removed|clé d’accès a été retirée/)
    await w.close()
  })

  test(`too many wrong passwords (${language}, ${viewport.width} px)`, async () => {
    const w = await open(browser, { language, viewport, colorScheme })
    const { page } = w
    const email = await program.client()
    await page.goto(`${program.base}/login`)
    for (let i = 0; i < 11; i++) await signIn(page, email, 'a wrong password')
    assert.match(await page.textContent('[role=alert]'), new RegExp(say.throttled))
    await examine(page, name('login-throttled'))
    await w.close()
  })

  test(`wallet, consultations, data (${language}, ${viewport.width} px)`, async () => {
    const w = await open(browser, { language, viewport, colorScheme })
    const { page } = w
    const email = await program.client(6000)
    await page.goto(`${program.base}/login`)
    await signIn(page, email, password)
    const { access_token: token } = await link(w)
    const [first, second] = [await consultation(token), await consultation(token)]
    const visit = async (path, as) => {
      await page.goto(program.base + path)
      await examine(page, name(as))
    }
    await visit('/account', 'overview')
    await visit('/account/apps', 'apps-used')
    await visit('/account/wallet', 'wallet')
    await page.click('.months a')
    await examine(page, name('statement'))
    await page.emulateMedia({ media: 'print' })
    assert.equal(await page.locator('.sections').isVisible(), false)
    await page.emulateMedia({ media: 'screen' })
    const csv = await (await page.request.get(`${page.url()}.csv`)).text()
    assert.match(csv, /HOLD/)
    await visit('/account/consultations', 'consultations')
    await visit(`/account/consultations/${first.id}`, 'consultation')
    await visit(`/account/consultations/${first.id}/cancel`, 'consultation-cancel')
    await page.click('main button[type=submit]')
    await page.getByText(/was cancelled and|est annulée et/).waitFor()
    await visit(`/account/consultations/${second.id}/withdraw`, 'consultation-withdraw')
    await page.click('main button[type=submit]')
    await page.getByText(/You withdrew|Vous vous êtes rétracté/).waitFor()
    await program.mail(email, undefined, new RegExp(second.id))
    await visit('/account/wallet/refund', 'wallet-refund')
    await visit('/account/privacy', 'privacy')
    await visit('/account/privacy/erase', 'erase-refused')
    const data = await (await page.request.get(`${program.base}/account/privacy/export`)).json()
    assert.equal(data.consultations.length, 2)
    assert.equal(data.consultations[0].subject, 'Une marque & un logo')
    await visit('/accessibility', 'accessibility')
    await visit('/legal/waiver/2026-12', 'waiver')
    await w.close()
  })

  test(`erase an empty account (${language}, ${viewport.width} px)`, async () => {
    const w = await open(browser, { language, viewport, colorScheme })
    const { page } = w
    const email = await program.client()
    await page.goto(`${program.base}/login`)
    await signIn(page, email, password)
    const { access_token: token } = await link(w, ['profile:read'])
    await page.goto(`${program.base}/account/privacy/erase`)
    await examine(page, name('erase'))
    await page.fill('#present', 'wrong')
    await page.click('main button[type=submit]')
    await page.getByRole('alert').waitFor()
    await examine(page, name('erase-wrong'))
    await page.fill('#present', password)
    await page.click('main button[type=submit]')
    await page.getByRole('status').waitFor()
    await examine(page, name('erased'))
    assert.equal((await call(program.base, token, 'GET', '/api/v1/me')).status, 401)
    await page.goto(`${program.base}/login`)
    await signIn(page, email, password)
    await page.getByRole('alert').waitFor()
    await w.close()
  })
}

test('consent given before is not asked for again, money always is', async () => {
  const w = await open(browser)
  const { page } = w
  await page.goto(`${program.base}/login`)
  await signIn(page, await program.client(), password)
  await link(w, ['profile:read', 'wallet:read'])
  const again = await beginLink(config, site.callback, ['wallet:read'])
  await page.goto(again.url)
  assert.equal((await again.redeem(await back(page))).scope, 'wallet:read')
  await link(w, ['wallet:read', 'wallet:topup'])
  const money = await beginLink(config, site.callback, ['wallet:read', 'wallet:topup'])
  await page.goto(money.url)
  await page.waitForSelector('button[value=allow]')
  await examine(page, 'consent-again-en-1280')
  await w.close()
})

test('the account works with the keyboard alone, at 400 %', async () => {
  const w = await open(browser, { viewport: narrow }) // 1280 px at 400 %
  const { page } = w
  const reach = selector => tabTo(page, selector, 60)
  const press = async selector => {
    await reach(selector)
    await page.keyboard.press('Enter')
  }
  const email = await program.client()
  await page.goto(`${program.base}/account`)
  await reach('#email')
  await page.keyboard.type(email)
  await reach('#password')
  await page.keyboard.type(password)
  await page.keyboard.press('Enter')
  await page.waitForURL(`${program.base}/account`)
  await press('nav.sections a[href="/account/security"]')
  await page.waitForURL(`${program.base}/account/security`)
  await reach('#present')
  await page.keyboard.type(password)
  await reach('#password')
  await page.keyboard.type('a different long password')
  await page.keyboard.press('Enter')
  await page.getByRole('status').waitFor()
  await press('nav.sections a[href="/account/phone"]')
  await page.waitForURL(`${program.base}/account/phone`)
  await reach('#phone')
  await page.keyboard.type('+33639980031')
  await reach('#present')
  await page.keyboard.type('a different long password')
  await page.keyboard.press('Enter')
  await page.waitForSelector('#code')
  const code = /\d{6}/.exec((await program.text('+33639980031')).split('\n\n')[1])[0]
  await reach('#code')
  await page.keyboard.type(code)
  await page.keyboard.press('Enter')
  await page.getByRole('status').waitFor()
  await press('nav.sections a[href="/account/privacy"]')
  await page.waitForURL(`${program.base}/account/privacy`)
  await press('a[href="/account/privacy/erase"]')
  await page.waitForURL(`${program.base}/account/privacy/erase`)
  await reach('#present')
  await page.keyboard.type('a different long password')
  await page.keyboard.press('Enter')
  await page.getByRole('status').waitFor()
  await w.close()
})
