// Long values wrap instead of being cut off, on the smallest screen and on a wide one.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { examine } from './examine.js'
import { password, start, totp } from './program.js'
import { launch, narrow, open, signIn, wide } from './window.js'

let program, browser
before(async () => {
  [program, browser] = [await start(), await launch()]
})
after(async () => {
  await browser?.close()
  await program?.stop()
})

// Names, addresses and IDs of maximum length wrap instead of being cut off, and no page scrolls sideways.
for (const [language, viewport] of [['en', narrow], ['fr', narrow], ['fr', wide]]) {
  test(`long values fit (${language}, ${viewport.width} px)`, async () => {
    const w = await open(browser, { language, viewport })
    const { page } = w
    const size = `${language}-${viewport.width}`
    const visit = async (path, as) => {
      const answer = await page.goto(program.base + path)
      assert.equal(answer.status(), 200, path)
      await examine(page, `long-${as}-${size}`)
    }
    const label = c => c.repeat(61)
    const host = `${label('c')}.${label('r')}.example`
    const email = of => `${of}${size}${'w'.repeat(60 - of.length - size.length)}@${host}`
    const callback = `https://${host}/${'x'.repeat(200)}`
    const begin = id => '/api/oauth/authorize?' + new URLSearchParams({
      response_type: 'code', client_id: id, redirect_uri: callback, scope: 'wallet:read notes:read', state: 'a',
      code_challenge: 'a'.repeat(43), code_challenge_method: 'S256'
    })

    const seen = new Set()
    await page.goto(`${program.base}/developers/signup`)
    await page.fill('#email', email('dev'))
    await page.click('main button[type=submit]')
    await examine(page, `long-sent-${size}`)
    await page.goto(/https?:\/\/\S+token=\S+/.exec(await program.mail(email('dev'), seen))[0])
    await examine(page, `long-join-${size}`)
    await page.fill('#name', 'W'.repeat(100))
    await page.fill('#password', password)
    await page.click('main button[type=submit]')
    await page.fill('#code', totp(await page.textContent('main code')))
    await page.click('main button[type=submit]')
    await page.goto(`${program.base}/developers/new`)
    await page.fill('[name=name]', 'W'.repeat(100))
    await page.fill('[name=redirects]', callback)
    await page.fill('[name=contact]', email('dev'))
    await page.click('main button[type=submit]')
    await examine(page, `long-secrets-${size}`)
    const shown = await page.locator('main code').allTextContents()
    const [id, secret] = ['app_', 'sk_'].map(prefix => shown.find(s => s.startsWith(prefix)))
    for (const path of ['application', 'sandbox/clients', 'deliveries/dlv_test_0', 'endpoint/examination']) {
      await fetch(`${program.base}/api/platform/v1/${path}`, { headers: { Authorization: `Basic ${btoa(`${id}:${secret}`)}` } })
    }
    await visit('/developers', 'applications')
    await visit('/staff/security', 'staff-security')
    const app = `/developers/apps/${id}`
    for (const path of ['', '/edit', '/secret', '/webhooks', '/events', '/deliveries', '/people', '/people/invite', '/live']) {
      await visit(app + path, `app${path.replaceAll('/', '-')}`)
    }
    do await page.goto(`${program.base}${app}/requests`)
    while (await page.locator('main tbody tr').count() < 4)
    await examine(page, `long-requests-${size}`)
    await page.click('main tbody a')
    await examine(page, `long-request-${size}`)

    const other = await open(browser, { language, viewport })
    await other.page.goto((await program.operator(language)).link)
    await other.page.fill('#password', password)
    await other.page.click('main button[type=submit]')
    await other.page.fill('#code', totp(await other.page.textContent('main code')))
    await other.page.click('main button[type=submit]')
    await program.cli('client', 'create', '--email', email('one'), '--password', '-', '--name', 'W'.repeat(100), '--balance-cents', '100')
    for (const path of ['/ops', '/ops/clients', '/ops/applications', `/ops/applications/${id}`, `/ops/applications/${id}/edit`, '/ops/audit']) {
      const answer = await other.page.goto(program.base + path)
      assert.equal(answer.status(), 200, path)
      await examine(other.page, `long${path.replaceAll(/[/_]/g, '-')}-${size}`)
    }
    await other.close()

    await page.goto(program.base + begin(id))
    await examine(page, `long-login-${size}`)
    await signIn(page, email('one'), password)
    await examine(page, `long-consent-${size}`)
    for (const path of ['', '/apps', '/security', '/wallet', '/privacy', '/privacy/erase', '/phone']) {
      await visit(`/account${path}`, `account${path.replaceAll('/', '-')}`)
    }
    await w.close()
  })
}
