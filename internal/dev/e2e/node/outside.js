// Simulates on this machine every service that a live deployment uses: a mail server and the stand-in for the provider
// of phone calls. Behind a proxy and over https: Stripe, the provider of text messages and partners' servers.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { createServer as createSecure } from 'node:https'
import { connect, createServer as createSocket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { freePort, root } from './program.js'

const run = promisify(execFile)
const patience = 60_000

// Webhooks go to public addresses only, and the proxy is asked for an address, not a name. Nothing leaves this machine.
const partner = { name: 'crm.example', address: '93.184.215.14' }
const account = { sid: `AC${'0'.repeat(32)}`, token: 'standin' }
const stripe = { key: 'sk_live_standin', secret: 'whsec_standin' }

/** Things that came, in order, and whoever waits for one. */
class Inbox extends EventEmitter {
  items = []
  add(item) {
    this.items.push(item)
    this.emit('item')
  }
  /** Waits for the first item that passes. */
  async find(passes, what) {
    const signal = AbortSignal.timeout(patience)
    for (;;) {
      const found = this.items.find(passes)
      if (found) return found
      await once(this, 'item', { signal }).catch(() => assert.fail(`${what} did not come`))
    }
  }
  /** Waits for the first item that passes and takes it out. */
  async take(passes, what) {
    const found = await this.find(passes, what)
    this.items.splice(this.items.indexOf(found), 1)
    return found
  }
}

async function listen(server, host = '127.0.0.1') {
  server.listen(0, host)
  await once(server, 'listening')
  return server.address().port
}

const decodeQuoted = s => Buffer.from(s.replace(/=\r?\n/g, '').replace(/=([0-9A-F]{2})/g, (_, x) => String.fromCharCode(parseInt(x, 16))), 'latin1').toString('utf8')

/** A mail server that keeps what it is given: { to, text }. */
function mailServer(mails) {
  return createSocket(socket => {
    let [buffer, to, data] = ['', '', null]
    const say = line => socket.write(`${line}\r\n`)
    say('220 mail.example ESMTP')
    socket.on('error', () => {})
    socket.on('data', chunk => {
      buffer += chunk.toString('latin1')
      for (let end; (end = buffer.indexOf('\r\n')) >= 0;) {
        const line = buffer.slice(0, end)
        buffer = buffer.slice(end + 2)
        if (data !== null) {
          if (line !== '.') data.push(line.replace(/^\./, ''))
          else {
            const text = data.join('\r\n')
            mails.add({ to, text: decodeQuoted(text.slice(text.indexOf('\r\n\r\n') + 4)) })
            data = null
            say('250 kept')
          }
          continue
        }
        const verb = line.slice(0, 4).toUpperCase()
        if (verb === 'EHLO') say('250-mail.example\r\n250 8BITMIME')
        else if (verb === 'DATA') [data] = [[], say('354 go on')]
        else if (verb === 'QUIT') socket.end('221 bye\r\n')
        else {
          if (verb === 'RCPT') to = /<([^>]*)>/.exec(line)[1]
          say('250 ok')
        }
      }
    })
  })
}

const body = async request => {
  const chunks = []
  for await (const chunk of request) chunks.push(chunk)
  return Buffer.concat(chunks).toString('utf8')
}
const page = (title, inside) => `<!doctype html><html lang="en"><title>${title}</title><h1>${title}</h1>${inside}`

/** Stripe Checkout, as far as a top-up needs it: the API, the page, and the signed notice. */
function stripeServer(state) {
  const sessions = new Map()
  const notify = async session => {
    const event = JSON.stringify({
      id: `evt_${randomBytes(8).toString('hex')}`, object: 'event', livemode: true, type: 'checkout.session.completed', created: Math.floor(Date.now() / 1000),
      data: { object: { ...session, status: 'complete', payment_status: 'paid' } }
    })
    const at = Math.floor(Date.now() / 1000)
    const signature = createHmac('sha256', stripe.secret).update(`${at}.${event}`).digest('hex')
    const response = await fetch(`${state.base}/payments/notices/stripe`, { method: 'POST', body: event, headers: { 'stripe-signature': `t=${at},v1=${signature}` } })
    assert(response.ok, `the notice of a payment is answered ${response.status}`)
  }
  return {
    async 'api.stripe.com'(request, response) {
      assert.equal(request.headers.authorization, `Bearer ${stripe.key}`)
      assert.equal(`${request.method} ${request.url}`, 'POST /v1/checkout/sessions')
      const form = new URLSearchParams(await body(request))
      const id = `cs_live_${sessions.size + 1}`
      const session = {
        id, object: 'checkout.session', url: `https://checkout.stripe.com/c/pay/${id}`, status: 'open', payment_status: 'unpaid', currency: 'eur',
        amount_total: Number(form.get('line_items[0][price_data][unit_amount]')), payment_intent: `pi_${id}`,
        client_reference_id: form.get('client_reference_id'), metadata: { topup_id: form.get('metadata[topup_id]') }
      }
      sessions.set(id, { session, back: form.get('success_url') })
      response.setHeader('Content-Type', 'application/json')
      response.end(JSON.stringify(session))
    },
    async 'checkout.stripe.com'(request, response) {
      const { session, back } = sessions.get(request.url.split('/').at(-1))
      if (request.method === 'POST') {
        await notify(session)
        response.writeHead(303, { Location: back }).end()
        return
      }
      response.setHeader('Content-Type', 'text/html; charset=utf-8')
      response.end(page('Checkout', `<p>${session.amount_total} ${session.currency}</p><form method="post"><button>Pay</button></form>`))
    }
  }
}

/** A partner: where clients come back to, and a receiver of webhooks that takes signed ones only. */
class Partner {
  constructor(path) {
    this.path = path
    this.callback = `https://${partner.name}${path}/callback`
    this.hooks = `https://${partner.address}${path}/hooks`
    this.secret = '' // of the signatures
    this.events = new Inbox() // { type, data, raw, headers }
    this.refused = []
  }
  take(headers, raw) {
    const [, at, sent] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(headers['x-service-signature'] ?? '') ?? []
    const mine = createHmac('sha256', this.secret).update(`${at}.${raw}`).digest()
    if (!sent || Math.abs(Date.now() / 1000 - Number(at)) > 300 || !timingSafeEqual(Buffer.from(sent, 'hex'), mine)) {
      this.refused.push(raw)
      return 400
    }
    const event = JSON.parse(raw)
    if (!this.events.items.some(e => e.id === event.id)) this.events.add({ ...event, raw, headers: JSON.stringify(headers), sequence: Number(headers['x-service-sequence']) })
    return 204
  }
  /** Waits for an event of a consultation. */
  event(type, id) {
    return this.events.find(e => e.type === `consultation.${type}` && e.data.id === id, `webhook ${type}`)
  }
  /** The types of a consultation's events so far, in its order. */
  story(id) {
    return this.events.items.filter(e => e.data.id === id).sort((a, b) => a.sequence - b.sequence).map(e => e.type.replace('consultation.', ''))
  }
}

/** Starts all of it, and tells the settings of a deployment that speaks to it. */
export async function startOutside() {
  const dir = await mkdtemp(join(tmpdir(), 'partnerd-outside-'))
  const [mails, texts, partners, state, faults] = [new Inbox(), new Inbox(), new Map(), { base: '' }, []]
  const { stdout: goroot } = await run('go', ['env', 'GOROOT'])
  await Promise.all([
    run('go', ['run', join(goroot.trim(), 'src/crypto/tls/generate_cert.go'), '--ca', '--ecdsa-curve', 'P256',
      '--host', ['api.stripe.com', 'checkout.stripe.com', 'api.twilio.com', partner.name, partner.address].join(',')], { cwd: dir }),
    run('go', ['build', '-o', join(dir, 'standin'), './internal/domain/telephony/twilio/twiliotest/standin'], { cwd: root })
  ])

  const hosts = {
    ...stripeServer(state),
    async 'api.twilio.com'(request, response) {
      assert.equal(`${request.method} ${request.url}`, `POST /2010-04-01/Accounts/${account.sid}/Messages.json`)
      const form = new URLSearchParams(await body(request))
      texts.add({ to: form.get('To'), text: form.get('Body') })
      response.writeHead(201, { 'Content-Type': 'application/json' }).end(JSON.stringify({ sid: 'SM1', status: 'queued' }))
    },
    async [partner.address](request, response) {
      response.writeHead(partners.get(request.url.split('/')[1]).take(request.headers, await body(request))).end()
    },
    async [partner.name](request, response) {
      response.setHeader('Content-Type', 'text/html; charset=utf-8')
      response.end(page('Back at the partner', ''))
    }
  }
  const [key, cert] = await Promise.all(['key.pem', 'cert.pem'].map(name => readFile(join(dir, name))))
  const secure = createSecure({ key, cert }, (request, response) => {
    if (request.url === '/favicon.ico') {
      response.writeHead(204).end()
      return
    }
    hosts[request.headers.host](request, response).catch(fault => {
      faults.push(`${request.headers.host} ${request.url}: ${fault}`)
      response.writeHead(500).end()
    })
  })
  const securePort = await listen(secure)
  const sockets = new Set()
  const proxy = createServer((_, response) => response.writeHead(405).end())
  proxy.on('connect', (request, socket, head) => {
    sockets.add(socket)
    if (!(request.url.replace(/:443$/, '') in hosts)) {
      socket.end('HTTP/1.1 403 Forbidden\r\n\r\n') // also for background requests of the browser
      return
    }
    const through = connect(securePort, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      through.write(head)
      through.pipe(socket).pipe(through)
    })
    for (const end of [socket, through]) end.on('error', () => {})
    socket.on('close', () => [through.destroy(), sockets.delete(socket)])
  })
  const proxyURL = `http://127.0.0.1:${await listen(proxy)}`
  const mail = mailServer(mails)
  const mailPort = await listen(mail)

  const phoneURL = `http://127.0.0.1:${await freePort()}`
  const phone = spawn(join(dir, 'standin'), ['--addr', phoneURL.slice(7), '--account', account.sid, '--token', account.token], { stdio: ['ignore', 'ignore', 'inherit'] })
  const phoneEnded = once(phone, 'exit')
  for (const giveUp = Date.now() + patience; !await fetch(`${phoneURL}/control/calls`).then(r => r.ok, () => false);) {
    assert(phone.exitCode === null && Date.now() < giveUp, 'the stand-in for phone calls does not start')
    await pause(50)
  }
  return {
    proxy: proxyURL,
    settings: {
      SSL_CERT_FILE: join(dir, 'cert.pem'), HTTPS_PROXY: proxyURL, PARTNERD_WEBHOOK_PROXY: proxyURL,
      PARTNERD_MAIL_SERVER: `smtp://127.0.0.1:${mailPort}`, PARTNERD_MAIL_FROM: 'no-reply@partners.example',
      PARTNERD_SMS_SERVER: `https://${account.sid}:${account.token}@api.twilio.com`, PARTNERD_SMS_FROM: '+33142685300',
      PARTNERD_STRIPE_SECRET_KEY: stripe.key, PARTNERD_STRIPE_WEBHOOK_SECRET: stripe.secret,
      PARTNERD_TELEPHONY: 'twilio', PARTNERD_TWILIO_ACCOUNT_SID: account.sid, PARTNERD_TWILIO_AUTH_TOKEN: account.token,
      PARTNERD_TWILIO_CALLER_ID: '+33142685300', PARTNERD_TWILIO_URL: phoneURL
    },
    /** Says where the deployment is, which Stripe posts its notices to. */
    serves: base => { state.base = base },
    partner(name) {
      partners.set(name, new Partner(`/${name}`))
      return partners.get(name)
    },
    /** Waits for the next mail with a link to somebody, and returns the link. */
    async link(to) {
      const { text } = await mails.take(m => m.to === to && /token=/.test(m.text), `a mail to ${to}`)
      return /https?:\/\/\S+token=\S+/.exec(text)[0]
    },
    /** Waits for the code that is texted to a number. */
    async code(to) {
      const { text } = await texts.take(m => m.to === to, `a text message to ${to}`)
      return /\b\d{6}\b/.exec(text)[0]
    },
    /** Sets how the next calls go: see Script of package twiliotest. */
    async script(script) {
      const response = await fetch(`${phoneURL}/control/script`, { method: 'PUT', body: JSON.stringify(script) })
      assert.equal(response.status, 204, await response.text())
    },
    /** The legs placed to a number so far. */
    legs: async to => (await (await fetch(`${phoneURL}/control/calls`)).json()).filter(c => c.to === to),
    async stop() {
      phone.kill('SIGINT')
      await phoneEnded
      for (const socket of sockets) socket.destroy()
      for (const server of [secure, proxy, mail]) server.closeAllConnections?.()
      await Promise.all([secure, proxy, mail].map(server => new Promise(done => server.close(done))))
      await rm(dir, { recursive: true, force: true })
      assert.deepEqual(faults, [], 'requests to the outside that it does not understand')
    }
  }
}
