// What a partner's developer does without help: account, application, endpoint, a signed test event, the checklist, a
// new secret.
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { after, before, test } from 'node:test'
import { examine } from './examine.js'
import { password, start, totp } from './program.js'
import { launch, narrow, open, wide } from './window.js'

let program, browser, receiver
const posts = []
before(async () => {
  [program, browser] = [await start(), await launch()]
  receiver = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request.setEncoding('utf8')) body += chunk
    posts.push({ headers: request.headers, body })
    response.writeHead(204).end()
  }).listen(0, '127.0.0.1')
  await once(receiver, 'listening')
})
after(async () => {
  await browser?.close()
  receiver?.closeAllConnections()
  receiver?.close()
  await program?.stop()
})

const submit = page => page.click('main button[type=submit]')
const linkIn = mail => /https?:\/\/\S+token=\S+/.exec(mail)[0]
const url = () => `http://127.0.0.1:${receiver.address().port}/hooks`

for (const [language, viewport, colorScheme] of [['en', wide, 'light'], ['fr', narrow, 'dark']]) {
  test(`from nothing to a delivered event (${language}, ${viewport.width} px)`, async () => {
    const w = await open(browser, { language, viewport, colorScheme })
    const { page } = w
    const look = as => examine(page, `developers-${as}-${language}-${viewport.width}`)
    const at = path => page.goto(`${program.base}${path}`)
    const email = `dev-${language}@crm.example`

    await at('/developers')
    await look('login')
    await at('/developers/signup')
    await look('signup')
    await page.fill('#email', email)
    await submit(page)
    await look('signup-sent')
    await page.goto(linkIn(await program.mail(email)))
    await look('join')
    if (await page.locator('#name').count()) await page.fill('#name', 'A Developer')
    await page.fill('#password', password)
    await submit(page)
    const secret = await page.textContent('main code')
    await page.fill('#code', totp(secret))
    await submit(page)
    await look('codes')

    await at('/developers')
    await look('none')
    await at('/developers/new')
    await page.fill('[name=name]', 'My CRM')
    await page.fill('[name=redirects]', 'http://localhost:4000/callback')
    await page.fill('[name=contact]', email)
    await look('new')
    await submit(page)
    const shown = await page.locator('main code').allTextContents()
    const [id, signing] = [shown.find(s => s.startsWith('app_')), shown.find(s => s.startsWith('whsec_'))]
    assert(id && signing, `the secrets are shown once: ${shown.map(s => s.slice(0, 8))}`)
    await look('secrets')
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'], { origin: program.base })
    for (const secret of [signing, shown.find(s => s.startsWith('sk_'))]) {
      const place = page.locator('dd', { has: page.getByText(secret, { exact: true }) })
      await place.getByRole('button', { name: /^(Copy|Copier)/ }).click()
      await place.getByRole('status').getByText(language === 'fr' ? 'Copié' : 'Copied', { exact: true }).waitFor()
      assert.equal(await page.evaluate(() => navigator.clipboard.readText()), secret)
    }
    await look('secrets-copied')
    const app = `/developers/apps/${id}`
    await at(app)
    await look('overview')

    await at(`${app}/webhooks/url`)
    await page.fill('[name=url]', url())
    await look('url')
    await submit(page)
    await page.waitForURL(/webhooks\?done=hook-url/)
    await look('webhooks')
    await at(`${app}/webhooks/test`)
    await page.selectOption('[name=type]', 'consultation.completed')
    const before = posts.length
    await submit(page)
    await page.waitForURL(/\/deliveries\/dlv_/)
    for (const giveUp = Date.now() + 20_000; posts.length === before;) {
      assert(Date.now() < giveUp, 'the event did not arrive')
      await page.waitForTimeout(50)
    }
    const { headers, body } = posts.at(-1)
    const [t, v1] = headers['x-service-signature'].split(',').map(part => part.split('=')[1])
    assert.equal(createHmac('sha256', signing).update(`${t}.${body}`).digest('hex'), v1)
    await page.reload()
    await look('delivery')

    await at(`${app}/webhooks/signature`)
    await page.fill('[name=header]', headers['x-service-signature'])
    await page.fill('[name=body]', body)
    await submit(page)
    await look('signature')
    await at(`${app}/events`)
    await look('events')
    await at(`${app}/deliveries`)
    await look('deliveries')
    await at(`${app}/requests`)
    await look('requests')
    await at(`${app}/people`)
    await look('people')

    await at(`${app}/live`)
    await look('live')
    await at(`${app}/live/examine`)
    await submit(page)
    await page.waitForURL(/\/live\?done=examine/, { timeout: 60_000 })
    await page.getByText(language === 'fr' ? /\d+ vérifications réussies sur \d+/ : /\d+ of \d+ checks passed/).waitFor()
    await look('examined')
    await at(`${app}/clock`)
    await look('clock')
    await submit(page)
    await page.getByText('1800').waitFor()

    await at(`${app}/clients`)
    await look('clients-none')
    await at(`${app}/clients/new`)
    await page.fill('[name=name]', 'Camille')
    await look('client-new')
    await submit(page)
    const client = (await page.locator('main code').allTextContents()).find(s => s.includes('@'))
    assert(client, 'the address of the client is shown')
    await look('client-made')
    await at(`${app}/clients`)
    await page.click('a[href$="/scenario"]')
    await page.selectOption('[name=scenario]', 'note_corrected')
    await look('client-scenario')
    await submit(page)
    await page.waitForURL(/clients\?done=client-scenario/)
    await page.getByText('note_corrected').waitFor()
    await look('clients')
    await at('/password/forgot')
    await page.fill('#email', client)
    await submit(page)
    for (const giveUp = Date.now() + 20_000; !(await page.locator('pre').count());) {
      assert(Date.now() < giveUp, 'the mail is not in the inbox')
      await at(`${app}/inbox`)
    }
    assert.match(await page.textContent('pre'), /password\/reset/)
    await look('inbox')
    await at(`${app}/scenarios`)
    await page.getByText('refunded_half').first().waitFor()
    await look('scenarios')
    await at(`${app}/lawyers`)
    await look('lawyers-none')
    await at(`${app}/lawyers/new`)
    await page.fill('[name=name]', 'Dominique')
    await page.check('[value=FAMILY]')
    await page.check('[value=FR]')
    await look('lawyer-new')
    await submit(page)
    await page.waitForURL(/lawyers\?done=lawyer-new/)
    await look('lawyers')
    await page.click('a[href$="/away"]')
    await submit(page)
    await page.waitForURL(/lawyers\?done=lawyer-away/)
    await page.click('a[href$="/delete"]')
    await look('lawyer-delete')
    await submit(page)
    await page.waitForURL(/lawyers\?done=lawyer-delete/)
    await at(`${app}/clients`)
    await page.click('a[href$="/delete"]')
    await submit(page)
    await page.waitForURL(/clients\?done=client-delete/)

    await at(`${app}/secret`)
    await submit(page)
    const renewed = (await page.locator('main code').allTextContents()).find(s => s.startsWith('sk_'))
    assert(renewed, 'the new secret is shown')
    const answer = await fetch(`${program.base}/api/platform/v1/application`, { headers: { Authorization: `Basic ${btoa(`${id}:${renewed}`)}` } })
    assert.equal((await answer.json()).name, 'My CRM')
    await at(app)
    await look('overview-rotated')
    await w.close()
  })
}
