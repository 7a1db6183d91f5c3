// Debian's Chromium, without its own background traffic.
import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { chromium } from 'playwright-core'

const screenshots = join(import.meta.dirname, 'screenshots')

export function launch() {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync']
  })
}

export const narrow = { width: 320, height: 640 }
export const wide = { width: 1280, height: 800 }

/** Opens a window of one person, in whose browser the proxy is the way to other machines. What the console says and a page throws is collected in faults. */
export async function open(browser, { language = 'en', viewport = wide, colorScheme = 'light', javaScriptEnabled = true, proxy } = {}) {
  const locale = { en: 'en-GB', fr: 'fr-FR' }[language]
  const beyond = proxy && { proxy: { server: proxy, bypass: 'localhost,127.0.0.1' }, ignoreHTTPSErrors: true }
  const context = await browser.newContext({ locale, viewport, colorScheme, reducedMotion: 'reduce', javaScriptEnabled, ...beyond })
  const page = await context.newPage()
  const faults = []
  page.on('console', m => {
    // A rejected form gets a 4xx response, which Chromium logs too.
    if (['error', 'warning'].includes(m.type()) && !/status of 4\d\d/.test(m.text())) faults.push(m.text())
  })
  page.on('pageerror', e => faults.push(String(e)))
  return {
    page, faults,
    async close() {
      await context.close()
      assert.deepEqual(faults, [])
    }
  }
}

export async function shoot(page, name) {
  mkdirSync(screenshots, { recursive: true })
  await page.screenshot({ path: join(screenshots, `${name}.png`), fullPage: !name.startsWith('docs') })
}

/** Presses Tab, at most so many times, until the selector has the focus, which must be seen. */
export async function tabTo(page, selector, tabs) {
  for (let i = 0; i < tabs; i++) {
    await page.keyboard.press('Tab')
    const shown = await page.evaluate(s => {
      const e = document.activeElement
      if (!e.matches(s)) return null
      const style = getComputedStyle(e)
      return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0
    }, selector)
    if (shown === null) continue
    assert(shown, `the focus on ${selector} cannot be seen`)
    return
  }
  assert.fail(`Tab does not reach ${selector}`)
}

export async function signIn(page, email, password) {
  await page.fill('#email', email)
  await page.fill('#password', password)
  await page.click('main button[type=submit]')
}

/** Gives the page's browser a device that keeps passkeys and always agrees. */
export async function authenticator(page, isUserVerified = true) {
  const cdp = await page.context().newCDPSession(page)
  await cdp.send('WebAuthn.enable')
  const { authenticatorId } = await cdp.send('WebAuthn.addVirtualAuthenticator', {
    options: { protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true, isUserVerified, automaticPresenceSimulation: true }
  })
  return { refuse: () => cdp.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified: false }) }
}
