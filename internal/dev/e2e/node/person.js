// A client whose browser has no scripts and no styles: it stores cookies and submits forms.
import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'

const unescape = s => s.replaceAll('&amp;', '&').replaceAll('&#34;', '"').replaceAll('&#39;', "'").replaceAll('&#43;', '+').replaceAll('&lt;', '<').replaceAll('&gt;', '>')
const attributes = tag => Object.fromEntries([...tag.matchAll(/([\w-]+)(?:="([^"]*)")?/g)].map(m => [m[1], unescape(m[2] ?? '')]))

/** Returns the form that sends to path, with the values it holds. */
function formOf(html, path) {
  for (const [, open, inner] of html.matchAll(/<form([^>]*)>(.*?)<\/form>/gs)) {
    if (attributes(open).action !== path) continue
    const fields = new URLSearchParams()
    for (const [, tag] of inner.matchAll(/<input([^>]*)>/g)) {
      const a = attributes(tag)
      if (a.name && (a.type !== 'checkbox' || 'checked' in a)) fields.append(a.name, a.value ?? '')
    }
    return fields
  }
  assert.fail(`no form for ${path} in ${html}`)
}

export class Person {
  #cookies = new Map()

  async #request(url, init = {}) {
    for (let hops = 0; hops < 10; hops++) {
      const cookie = [...this.#cookies].map(([k, v]) => `${k}=${v}`).join('; ')
      const response = await fetch(url, { ...init, redirect: 'manual', headers: { ...init.headers, cookie } })
      for (const line of response.headers.getSetCookie()) {
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(line)
        this.#cookies.set(name, value)
      }
      const location = response.headers.get('location')
      if (!location) return { url, status: response.status, html: await response.text() }
      const next = new URL(location, url)
      if (next.origin !== new URL(url).origin) return { left: next.href }
      ;[url, init] = [next.href, {}]
    }
    assert.fail('redirected in circles')
  }

  #send(page, path, fields) {
    return this.#request(new URL(path, page.url).href, {
      method: 'POST', body: fields, headers: { origin: new URL(page.url).origin, 'content-type': 'application/x-www-form-urlencoded' }
    })
  }

  /** Signs in, allows everything and returns the address at the partner. */
  async allow(authorizeURL, email, password) {
    let page = await this.#request(authorizeURL)
    let fields = formOf(page.html, '/login')
    fields.set('email', email)
    fields.set('password', password)
    page = await this.#send(page, '/login', fields)
    fields = formOf(page.html, '/oauth/consent')
    fields.set('decision', 'allow')
    const { left } = await this.#send(page, '/oauth/consent', fields)
    assert(left, 'consent did not lead back to the partner')
    return left
  }

  /** Pays on the page of a top-up and returns the address at the partner. */
  async pay(checkoutURL) {
    const page = await this.#request(checkoutURL)
    const path = new URL(page.url).pathname
    const fields = formOf(page.html, path)
    fields.set('action', 'pay')
    let { html } = await this.#send(page, path, fields)
    for (const giveUp = Date.now() + 20_000; ;) {
      const back = [...html.matchAll(/<a([^>]*)>/g)].map(m => attributes(m[1]).href).find(href => href?.includes('topup='))
      if (back) return back
      assert(Date.now() < giveUp, `the payment does not lead back to the partner: ${html}`)
      await pause(100)
      html = (await this.#request(checkoutURL)).html
    }
  }
}
