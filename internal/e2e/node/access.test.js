// Every page in both languages, small and dark, large and light: axe-core finds nothing, and nothing is cut off.
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
      for (const path of ['', '/quickstart', '/life', '/errors', '/webhooks', '/changelog', '/reference', '/reference/consultations', '/platform', '/platform/endpoint', '/sandbox', '/search?q=key', '/search?q=xyzzy']) {
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
