// Sends the operations of the reference from the page. It uses what the page /docs/try stored for this tab: the keys of an
// application, and the tokens of a client linked with the authorization code flow and PKCE.
'use strict'
{
  const page = '/docs/try'
  const kept = name => JSON.parse(sessionStorage.getItem(`try-${name}`))
  const keep = (name, value) => sessionStorage.setItem(`try-${name}`, JSON.stringify(value))
  const base64url = bytes => btoa(String.fromCharCode(...bytes)).replace(/\+/g, '-').replace(/\//g, '_').replace(/=+$/, '')
  const secret = () => base64url(crypto.getRandomValues(new Uint8Array(32)))
  const metadata = async () => (await fetch('/.well-known/oauth-authorization-server', { credentials: 'omit' })).json()

  // askToken calls the token endpoint and stores the response.
  const askToken = async form => {
    const { id, secret } = kept('keys')
    const answer = await fetch((await metadata()).token_endpoint, {
      method: 'POST', credentials: 'omit', body: new URLSearchParams({ ...form, client_id: id, client_secret: secret })
    })
    const body = await answer.json()
    if (!answer.ok) throw new Error(`${body.error}: ${body.error_description ?? ''}`)
    keep('token', { access: body.access_token, refresh: body.refresh_token, scope: body.scope, until: Date.now() + body.expires_in * 1000 })
  }

  // accessToken returns the stored token, or a new one if it is about to expire. It is undefined if no client is linked.
  const accessToken = async () => {
    if (kept('token')?.until < Date.now() + 10_000) {
      try {
        await askToken({ grant_type: 'refresh_token', refresh_token: kept('token').refresh })
      } catch (e) {
        sessionStorage.removeItem('try-token')
        throw e
      }
    }
    return kept('token')?.access
  }

  // Code samples contain the reader's own keys.
  const own = kept('keys')
  for (const code of own ? document.querySelectorAll('.docs pre code') : []) {
    code.textContent = code.textContent.replace("CLIENT_ID='app_…'", `CLIENT_ID='${own.id}'`).replace("CLIENT_SECRET='sk_…'", `CLIENT_SECRET='${own.secret}'`)
  }

  const panel = document.querySelector('#connection.card') // a glossary entry has that anchor, too
  if (panel) {
    const say = (key, ...values) => {
      panel.querySelector('[role=status]').textContent = values.reduce((s, v) => s.replace('%s', v), key === '' ? '%s' : panel.dataset[key])
    }
    const form = panel.querySelector('form')
    const redirect = location.origin + page
    const show = () => {
      const keys = kept('keys')
      if (keys) [form.elements.id.value, form.elements.secret.value] = [keys.id, keys.secret]
      const token = kept('token')
      if (token) say('linked', token.scope, new Date(token.until).toLocaleTimeString(document.documentElement.lang))
      else if (keys) say('keys')
      panel.querySelector('.forget').hidden = !keys
    }
    form.addEventListener('submit', async event => {
      event.preventDefault()
      keep('keys', { id: form.elements.id.value.trim(), secret: form.elements.secret.value.trim() })
      if (event.submitter.value === 'keys') return show()
      const { authorization_endpoint: authorize, scopes_supported: scopes } = await metadata()
      const pending = { state: secret(), verifier: secret() }
      keep('pending', pending)
      const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(pending.verifier))
      location.assign(`${authorize}?${new URLSearchParams({
        response_type: 'code', client_id: kept('keys').id, redirect_uri: redirect, scope: scopes.join(' '), state: pending.state,
        code_challenge: base64url(new Uint8Array(digest)), code_challenge_method: 'S256'
      })}`)
    })
    panel.querySelector('.forget').addEventListener('click', () => {
      for (const name of ['keys', 'token', 'pending']) sessionStorage.removeItem(`try-${name}`)
      form.reset()
      say('', '')
      show()
      form.elements.id.focus()
    })
    const back = new URLSearchParams(location.search)
    const pending = kept('pending')
    show()
    if (back.has('state')) {
      history.replaceState(null, '', page)
      sessionStorage.removeItem('try-pending')
      if (back.get('state') !== pending?.state) say('stranger')
      else if (back.has('error')) say('refused', back.get('error_description') ?? back.get('error'))
      else {
        askToken({ grant_type: 'authorization_code', code: back.get('code'), redirect_uri: redirect, code_verifier: pending.verifier })
          .then(show, e => say('refused', e.message))
      }
    }
    panel.hidden = false
  }

  const credentials = {
    bearer: { missing: 'Link a client first.', header: async () => { const token = await accessToken(); return token && `Bearer ${token}` } },
    basic: { missing: 'Enter the keys of your application first.', header: () => { const keys = kept('keys'); return keys && `Basic ${btoa(`${keys.id}:${keys.secret}`)}` } }
  }

  for (const form of document.querySelectorAll('.trial form')) {
    const key = form.querySelector('[name="Idempotency-Key"]')
    if (key) key.value = crypto.randomUUID()
    form.addEventListener('submit', async event => {
      event.preventDefault()
      const out = form.querySelector('[role=status]')
      const show = (head, text) => {
        const pre = document.createElement('pre')
        pre.tabIndex = 0
        pre.textContent = text
        out.replaceChildren(head, ...(text ? [pre] : []))
      }
      const headers = {}
      let path = form.dataset.path
      const query = new URLSearchParams()
      for (const input of form.querySelectorAll('input')) {
        if (input.dataset.in === 'path') path = path.replace(`{${input.name}}`, encodeURIComponent(input.value))
        else if (input.value === '') continue
        else if (input.dataset.in === 'query') query.append(input.name, input.value)
        else headers[input.name] = input.value
      }
      const body = form.querySelector('textarea')?.value
      if (body) headers['Content-Type'] = 'application/json'
      const began = performance.now()
      try {
        const need = credentials[form.dataset.credentials]
        if (need) {
          headers.Authorization = await need.header()
          if (!headers.Authorization) {
            const link = document.createElement('a')
            link.href = page
            link.textContent = need.missing
            return show(link)
          }
        }
        const answer = await fetch(path + (query.size ? `?${query}` : ''), { method: form.dataset.method, headers, body, credentials: 'omit' })
        const text = await answer.text()
        const head = document.createElement('p')
        head.textContent = `${answer.status} · ${Math.round(performance.now() - began)} ms`
        let shown = text
        try { shown = JSON.stringify(JSON.parse(text), null, 2) } catch { /* not JSON */ }
        show(head, [...answer.headers].map(([n, v]) => `${n}: ${v}\n`).join('') + '\n' + shown)
      } catch (e) {
        const p = document.createElement('p')
        p.textContent = e.message
        show(p)
      }
    })
  }
}
