// Checks every page in both languages, small and dark, large and light: axe-core finds nothing, and nothing is cut off.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { examine } from './examine.js'
import { beginLink, call, discover } from './partner.js'
import { password, start, startSite, totp } from './program.js'
import { launch, narrow, open, signIn, wide } from './window.js'

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

for (const language of ['en', 'fr']) {
  for (const look of [{ viewport: wide, colorScheme: 'light' }, { viewport: narrow, colorScheme: 'dark' }]) {
    const name = page => `${page}-${language}-${look.viewport.width}`

    test(`every page, ${language}, ${look.viewport.width} px, ${look.colorScheme}`, async () => {
      const w = await open(browser, { language, ...look })
      const { page } = w
      const visit = async (path, as) => {
        await page.goto(program.base + path)
        await examine(page, name(as))
      }
      await visit('/', 'home')
      for (const path of ['', '/quickstart', '/try', '/life', '/errors', '/webhooks', '/changelog', '/reference', '/reference/consultations', '/platform', '/platform/endpoint', '/sandbox', '/search?q=key', '/search?q=xyzzy']) {
        await visit(`/docs${path}`, `docs${path.replaceAll(/[^a-z]/g, '-')}`)
      }
      await visit('/staff/login', 'staff-login')
      await visit('/staff/password/forgot', 'staff-forgot')
      const operator = await program.operator(language)
      await page.goto(operator.link)
      await examine(page, name('staff-invitation'))
      await page.fill('#password', password)
      await page.click('main button[type=submit]')
      await examine(page, name('staff-factor'))
      await page.fill('#code', totp(await page.textContent('main code')))
      await page.click('main button[type=submit]')
      await examine(page, name('staff-codes'))
      await visit('/staff/security', 'staff-security')
      await visit('/ops', 'ops')
      await visit('/login', 'login')
      await page.click('main button[type=submit]')
      await examine(page, name('login-empty'))
      const email = await program.client(12345)
      await signIn(page, email, 'a wrong password')
      await examine(page, name('login-wrong'))
      await visit('/nowhere', 'error-404')
      await visit('/api/oauth/authorize?client_id=unknown', 'error-authorize')

      const few = await beginLink(config, site.callback, ['wallet:topup', 'notes:read'])
      await page.goto(few.url)
      await signIn(page, email, password)
      for (const box of await page.locator('input[type=checkbox]').all()) await box.uncheck()
      await page.click('button[value=allow]')
      await page.getByRole('alert').waitFor()
      await examine(page, name('consent-nothing'))
      await visit('/account/apps', 'apps-none')

      const begun = await beginLink(config, site.callback)
      await page.goto(begun.url)
      await examine(page, name('consent'))
      await page.click('button[value=allow]')
      await page.waitForURL(`${site.base}/**`)
      const { access_token: token } = await begun.redeem(page.url())
      await visit('/account/apps', 'apps')

      for (const answer of ['pay', 'cancel']) {
        const made = await call(program.base, token, 'POST', '/api/v1/wallet/topup-session', { amountCents: 5000, returnUrl: site.callback })
        await page.goto(made.body.checkoutUrl)
        if (answer === 'pay') await examine(page, name('checkout'))
        await page.click(`button[value=${answer}]`)
        await page.waitForSelector('main a.button:not([href^="/checkout/"])')
        await examine(page, name(`checkout-${answer}`))
      }
      await page.goto(`${program.base}/account/apps`)
      await page.click('form[action$="/disconnect"] button')
      await examine(page, name('apps-disconnected'))
      await w.close()
    })
  }
}

// H60: an operation can be sent from its reference page, as an application and for a client linked from the
// documentation.
for (const [language, look] of [['en', { viewport: wide, colorScheme: 'light' }], ['fr', { viewport: narrow, colorScheme: 'dark' }]]) {
  test(`the documentation sends what it describes (${language}, ${look.viewport.width} px)`, async () => {
    const w = await open(browser, { language, ...look })
    const { page } = w
    const keys = await program.application('Documentation', `${program.base}/docs/try`)
    const at = path => page.goto(program.base + path)
    // send opens the form of an operation, sends it and returns what is shown.
    const send = async (id, fill = {}) => {
      const form = page.locator(`article:has(#${id}) .trial`)
      if (await form.getAttribute('open') === null) await form.locator('summary').click()
      for (const [name, value] of Object.entries(fill)) await form.locator(`#${id}-${name}`).fill(value)
      await form.locator('[role=status]').evaluate(e => e.replaceChildren())
      await form.getByRole('button', { name: 'Send' }).click()
      await form.locator('[role=status] :first-child').first().waitFor()
      return form.locator('[role=status]').innerText()
    }

    await at('/docs/reference/wallet')
    assert.match(await send('getWallet'), /Link a client first/)
    await at('/docs/try')
    await examine(page, `try-${language}`)
    await page.fill('#try-id', keys.clientId)
    await page.fill('#try-secret', keys.clientSecret)
    await page.click('button[value=link]')
    await signIn(page, await program.client(12345), password)
    await page.click('button[value=deny]')
    await page.waitForURL(`${program.base}/docs/try`)
    await page.locator('#connection [role=status]', { hasText: /refused|Refusé/ }).waitFor()
    await page.click('button[value=link]')
    await page.click('button[value=allow]')
    await page.waitForURL(`${program.base}/docs/try`)
    await page.locator('#connection [role=status]', { hasText: 'wallet:read' }).waitFor()
    await examine(page, `try-linked-${language}`)

    await at('/docs/reference/wallet')
    assert.match(await send('getWallet'), /^200[\s\S]*x-request-id[\s\S]*"balanceCents": 12345/)
    await examine(page, `try-sent-${language}`)
    await at('/docs/reference/consultations')
    const twice = [await send('createConsultation'), await send('createConsultation')] // under one key
    const id = /"id": "(con_\w+)"/.exec(twice[0])?.[1]
    assert(id && twice[1].includes(id), twice.join('\n'))
    assert.match(await send('createConsultation', { json: '{"competence": 1', 'Idempotency-Key': 'another' }), /^4\d\d[\s\S]*"code"/)
    assert.match(await send('getConsultation', { id }), new RegExp(`^200[\\s\\S]*${id}`))
    await at('/docs/platform/endpoint')
    assert.match(await send('getEndpoint'), /^200/)

    await at('/docs/quickstart')
    assert.match(await page.textContent('main'), new RegExp(`CLIENT_ID='${keys.clientId}'\\s+export CLIENT_SECRET='${keys.clientSecret}'`))

    await at('/docs/try')
    await page.click('.forget')
    await at('/docs/reference/wallet')
    assert.match(await send('getWallet'), /Link a client first/)
    await at('/docs/try?state=made-up&code=cod_made_up')
    await page.locator('#connection [role=status]', { hasText: /Start again|Recommencez/ }).waitFor()
    await w.close()
  })
}
