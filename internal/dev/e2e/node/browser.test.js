import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { beginLink, call, discover } from './partner.js'
import { password, start, startSite } from './program.js'
import { launch, narrow, open, signIn, tabTo, wide } from './window.js'

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

const words = {
  en: { wrong: 'password is incorrect', allow: 'Allow', refuse: 'Refuse', none: 'No application is connected', gone: 'The application was disconnected', paid: 'Payment received', cancelled: 'Payment not completed', pay: 'Pay €50.00' },
  fr: { wrong: 'mot de passe est incorrect', allow: 'Autoriser', refuse: 'Refuser', none: 'Aucune application', gone: 'n’a plus accès', paid: 'Paiement reçu', cancelled: 'Paiement non effectué', pay: /^Payer 50,00\s€$/ }
}

const back = page => page.waitForURL(`${site.base}/**`).then(() => new URL(page.url()))

async function allowed(w, email, scopes) {
  const begun = await beginLink(config, site.callback, scopes)
  await w.page.goto(begun.url)
  if (await w.page.locator('#password').count()) await signIn(w.page, email, password)
  await w.page.click('button[value=allow]')
  return begun.redeem(await back(w.page))
}

test('a client who returns signs in and goes on, and allows or refuses, also where the partner redirects to another origin', async () => {
  const elsewhere = await program.application('Cabinet Ailleurs', site.elsewhere)
  const config = await discover(program.base, elsewhere)
  const email = await program.client()
  const home = async w => {
    await w.page.waitForURL(url => url.hostname === 'localhost' && url.pathname === '/home')
    return new URL(site.elsewhere + new URL(w.page.url()).search)
  }
  const begin = async () => {
    const w = await open(browser)
    const begun = await beginLink(config, site.elsewhere, ['profile:read', 'offline_access'])
    return { w, begun }
  }

  let { w, begun } = await begin()
  await w.page.goto(begun.url)
  await signIn(w.page, email, password)
  await w.page.click('button[value=allow]')
  await begun.redeem(await home(w))
  await w.close();

  ({ w, begun } = await begin())
  await w.page.goto(begun.url)
  await signIn(w.page, email, password) // without a consent page
  await begun.redeem(await home(w))
  begun = await beginLink(config, site.elsewhere, ['profile:read', 'offline_access'])
  await w.page.goto(`${begun.url}&prompt=consent`)
  await w.page.click('button[value=deny]')
  assert.equal((await home(w)).searchParams.get('error'), 'access_denied')
  await w.page.goto(begun.url)
  await w.page.locator('button[value=allow]').waitFor() // a scope refused earlier is requested again
  await w.close()
})

for (const [language, viewport] of [['en', wide], ['fr', narrow]]) {
  const say = words[language]

  test(`link, see the connection, disconnect (${language}, ${viewport.width} px)`, async () => {
    const w = await open(browser, { language, viewport })
    const email = await program.client()
    const begun = await beginLink(config, site.callback)
    await w.page.goto(begun.url)
    assert.equal(await w.page.getAttribute('html', 'lang'), language)
    await signIn(w.page, email, 'a wrong password')
    assert.match(await w.page.textContent('[role=alert]'), new RegExp(say.wrong))
    assert.equal(await w.page.inputValue('#email'), email, 'the address must not be typed again')
    assert.equal(await w.page.inputValue('#password'), '', 'a password never comes back')
    await signIn(w.page, email, password)
    assert.match(await w.page.textContent('h1'), /Cabinet Démo/)
    await w.page.getByRole('button', { name: say.allow, exact: true }).click()
    const address = await back(w.page)
    assert.equal(address.searchParams.get('iss'), program.base)
    const tokens = await begun.redeem(address)
    assert.equal((await call(program.base, tokens.access_token, 'GET', '/api/v1/me')).body.email, email)

    await w.page.goto(`${program.base}/account/apps`)
    await w.page.getByRole('heading', { name: 'Cabinet Démo' }).waitFor()
    await w.page.click('form[action$="/disconnect"] button')
    assert.match(await w.page.textContent('[role=status]'), new RegExp(say.gone))
    assert.match(await w.page.textContent('main'), new RegExp(say.none))
    assert.equal((await call(program.base, tokens.access_token, 'GET', '/api/v1/me')).status, 401)
    await w.close()
  })

  test(`refuse (${language}, ${viewport.width} px)`, async () => {
    const w = await open(browser, { language, viewport })
    const begun = await beginLink(config, site.callback)
    await w.page.goto(begun.url)
    await signIn(w.page, await program.client(), password)
    await w.page.getByRole('button', { name: say.refuse, exact: true }).click()
    const address = await back(w.page)
    assert.equal(address.searchParams.get('error'), 'access_denied')
    assert(address.searchParams.get('state'), 'state comes back')
    assert.equal(address.searchParams.get('code'), null)
    await assert.rejects(begun.redeem(address), { error: 'access_denied' })
    await w.close()
  })

  test(`allow a part (${language}, ${viewport.width} px)`, async () => {
    const w = await open(browser, { language, viewport })
    const begun = await beginLink(config, site.callback)
    await w.page.goto(begun.url)
    await signIn(w.page, await program.client(), password)
    for (const scope of ['wallet:topup', 'notes:read']) await w.page.uncheck(`input[value="${scope}"]`)
    await w.page.click('button[value=allow]')
    const tokens = await begun.redeem(await back(w.page))
    assert.deepEqual(tokens.scope.split(' ').sort(), ['consultations:read', 'consultations:write', 'offline_access', 'profile:read', 'wallet:read'])
    const refused = await call(program.base, tokens.access_token, 'POST', '/api/v1/wallet/topup-session', { amountCents: 5000, returnUrl: site.callback })
    assert.equal(refused.status, 403)
    assert.equal(refused.body.code, 'INSUFFICIENT_SCOPE')
    await w.close()
  })

  test(`pay and cancel at the checkout (${language}, ${viewport.width} px)`, async () => {
    const w = await open(browser, { language, viewport })
    const { access_token: token } = await allowed(w, await program.client())
    const topUp = async () => {
      const made = await call(program.base, token, 'POST', '/api/v1/wallet/topup-session', { amountCents: 5000, returnUrl: `${site.base}/done` })
      assert(made.status < 300, JSON.stringify(made))
      await w.page.goto(made.body.checkoutUrl)
    }
    const balance = async () => (await call(program.base, token, 'GET', '/api/v1/wallet')).body.balanceCents
    await topUp()
    assert.match(await w.page.textContent('main'), /50[.,]00/)
    await w.page.getByRole('button', { name: say.pay }).click()
    await w.page.getByRole('heading', { name: say.paid }).waitFor()
    assert.equal(await balance(), 5000)
    await w.page.click('main a.button')
    assert.equal((await back(w.page)).pathname, '/done')

    await topUp()
    await w.page.click('button[value=cancel]')
    await w.page.getByRole('heading', { name: say.cancelled }).waitFor()
    await w.page.click('main a.button')
    await back(w.page)
    assert.equal(await balance(), 5000)
    await w.close()
  })
}

test('a client who allows nothing is asked again', async () => {
  const w = await open(browser)
  const begun = await beginLink(config, site.callback, ['wallet:topup', 'notes:read'])
  await w.page.goto(begun.url)
  await signIn(w.page, await program.client(), password)
  for (const box of await w.page.locator('input[type=checkbox]').all()) await box.uncheck()
  await w.page.click('button[value=allow]')
  await w.page.getByRole('alert').waitFor()
  assert.equal(new URL(w.page.url()).origin, program.base)
  await w.page.check('input[value="notes:read"]')
  await w.page.click('button[value=allow]')
  assert.equal((await begun.redeem(await back(w.page))).scope, 'notes:read')
  await w.close()
})

test('the language can be changed in the middle of linking', async () => {
  const w = await open(browser)
  const begun = await beginLink(config, site.callback)
  await w.page.goto(begun.url)
  await w.page.click('nav.languages a[lang=fr]')
  assert.equal(await w.page.textContent('h1'), 'Connexion')
  await signIn(w.page, await program.client(), password)
  assert.equal(await w.page.getAttribute('html', 'lang'), 'fr')
  await w.page.click('nav.languages a[lang=en]')
  await w.page.getByRole('button', { name: 'Allow', exact: true }).click()
  assert((await begun.redeem(await back(w.page))).access_token)
  await w.close()
})

test('another account can be chosen on the consent page', async () => {
  const w = await open(browser)
  const [first, second] = [await program.client(), await program.client()]
  const begun = await beginLink(config, site.callback)
  await w.page.goto(begun.url)
  await signIn(w.page, first, password)
  await w.page.click('form.who button')
  await signIn(w.page, second, password)
  await w.page.click('button[value=allow]')
  const tokens = await begun.redeem(await back(w.page))
  assert.equal((await call(program.base, tokens.access_token, 'GET', '/api/v1/me')).body.email, second)
  await w.close()
})

test('linking works with the keyboard alone', async () => {
  const w = await open(browser)
  const { page } = w
  const begun = await beginLink(config, site.callback)
  await page.goto(begun.url)
  const reach = selector => tabTo(page, selector, 30)
  await reach('a.skip')
  await page.keyboard.press('Enter')
  await reach('#email')
  await page.keyboard.type(await program.client())
  await reach('#password')
  await page.keyboard.type(password)
  await page.keyboard.press('Enter')
  await page.waitForSelector('button[value=allow]')
  await reach('input[value="notes:read"]')
  await page.keyboard.press('Space')
  await reach('button[value=allow]')
  await page.keyboard.press('Enter')
  const tokens = await begun.redeem(await back(page))
  assert(!tokens.scope.includes('notes:read'))

  await page.goto(`${program.base}/account/apps`)
  await reach('form[action$="/disconnect"] button')
  await page.keyboard.press('Enter')
  await page.getByRole('status').waitFor()
  await w.close()
})
