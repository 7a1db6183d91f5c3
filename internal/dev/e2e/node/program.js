// The program under test: bin/partnerd serving from an empty data folder, and what an operator registers in it.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { createHmac, randomBytes, randomInt } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, readdir, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { createServer as createSocket } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'

export const root = resolve(import.meta.dirname, '../../../..')
const binary = process.env.PARTNERD_BINARY ?? join(root, 'bin/partnerd')
export const contract = join(root, 'openapi/partner.yaml')
export const password = 'a password for tests only'

// Picks a port below the range for outgoing connections, so none of them takes it before the program does.
export async function freePort() {
  for (;;) {
    const port = 10000 + randomInt(10000)
    const socket = createSocket().listen(port, '127.0.0.1')
    const free = await once(socket, 'listening').then(() => true, () => false)
    if (!free) continue
    socket.close()
    await once(socket, 'close')
    return port
  }
}

// newest waits for an unseen message to a person whose text matches about; others may arrive before it.
async function newest(folder, to, seen, about = /(?:)/) {
  for (const giveUp = Date.now() + 20_000; ;) {
    for (const name of (await readdir(folder).catch(() => [])).sort().reverse()) {
      const content = await readFile(join(folder, name), 'utf8')
      if (seen.has(name) || !content.startsWith(`To: ${to}`) || !about.test(content)) continue
      seen.add(name)
      return content
    }
    assert(Date.now() < giveUp, `nothing came for ${to}`)
    await pause(50)
  }
}

/** Makes fresh keys of a deployment. */
export const keys = async () => JSON.parse((await promisify(execFile)(binary, ['key', 'generate', '--json'])).stdout)

/** Starts the program, in live with the settings of what is outside; it ends with the test file. */
export async function start(live) {
  const dir = await mkdtemp(join(tmpdir(), 'partnerd-node-'))
  const port = await freePort()
  const env = {
    PATH: process.env.PATH, HOME: dir, PARTNERD_DATA_DIR: join(dir, 'data'), PARTNERD_ADDR: `127.0.0.1:${port}`,
    PARTNERD_BASE_URL: `http://localhost:${port}`, PARTNERD_LOG_LEVEL: 'warn', ...live
  }
  const child = spawn(binary, ['serve'], { env, stdio: live ? ['ignore', 'pipe', 'pipe'] : ['ignore', 'ignore', 'inherit'] })
  const log = []
  for (const stream of [child.stdout, child.stderr]) stream?.setEncoding('utf8').on('data', text => log.push(text))
  const ended = once(child, 'exit')
  const base = env.PARTNERD_BASE_URL
  for (const giveUp = Date.now() + 60_000; ;) {
    const ready = await fetch(`${base}/readyz`).then(r => r.ok, () => false)
    if (ready) break
    assert(child.exitCode === null, `serve ended with ${child.exitCode}: ${log.join('')}`)
    assert(Date.now() < giveUp, 'serve is not ready after a minute')
    await pause(50)
  }
  const cli = async (...args) => {
    const running = promisify(execFile)(binary, [...args, '--json'], { env })
    running.child.stdin.end(`${password}\n`) // only commands that ask for it read it
    const { stdout } = await running
    return JSON.parse(stdout)
  }
  return {
    base, cli,
    /** What it wrote so far, in live. */
    log: () => log.join(''),
    /** Registers an application whose redirect URI is the callback. */
    application: (name, callback, ...scopes) =>
      cli('app', 'create', '--name', name, '--redirect-uri', callback, ...scopes.flatMap(s => ['--scope', s])),
    /** Registers a client with a verified phone number. */
    async client(balanceCents = 0) {
      const email = `demo-${randomBytes(5).toString('hex')}@client.example`
      await cli('client', 'create', '--email', email, '--password', '-', '--name', 'Demo Client',
        '--phone', '+33639980002', '--phone-verified', '--balance-cents', String(balanceCents))
      return email
    },
    /** Invites an operator and returns the link of the invitation. */
    async operator(language = 'fr') {
      const email = `operator-${randomBytes(5).toString('hex')}@partners.example`
      const { link } = await cli('operator', 'invite', '--email', email, '--name', 'Demo Operator', '--role', 'admin', '--language', language, '--reason', 'Test')
      return { email, link }
    },
    /** Invites a lawyer of a pair, written to in a language, and returns the link of the invitation. */
    async lawyer(language = 'fr', competence = 'TAX', tongue = 'FR') {
      const email = `lawyer-${randomBytes(5).toString('hex')}@bar.example`
      const phone = `+3363998${randomInt(10_000).toString().padStart(4, '0')}`
      const { link } = await cli('lawyer', 'invite', '--email', email, '--name', 'Demo Lawyer', '--phone', phone, '--competence', competence, '--language', tongue, '--correspond', language)
      return { email, link }
    },
    /** Waits for a mail to somebody that says what the expression looks for. */
    async mailed(to, expression, seen = new Set()) {
      for (;;) {
        const mail = await newest(join(dir, 'data', 'mail'), to, seen)
        if (expression.test(mail)) return mail
      }
    },
    /** Waits for the newest mail, or text message, to somebody that was not handed out before. */
    mail: (to, seen = new Set(), about) => newest(join(dir, 'data', 'mail'), to, seen, about),
    text: (to, seen = new Set()) => newest(join(dir, 'data', 'sms'), to, seen),
    async stop() {
      child.kill('SIGTERM')
      const [code] = await ended
      await rm(dir, { recursive: true, force: true })
      assert.equal(code, 0, 'serve did not end in order')
    }
  }
}

/** Plays the partner's own site, which the client's browser returns to. Its second callback sends on to another origin. */
export async function startSite() {
  const server = createServer((request, response) => {
    if (request.url.startsWith('/elsewhere?')) {
      response.writeHead(302, { Location: request.url.replace('/elsewhere', `http://localhost:${server.address().port}/home`) }).end()
      return
    }
    response.setHeader('Content-Type', 'text/html; charset=utf-8')
    response.end('<!doctype html><html lang="en"><title>Partner</title><h1>Back at the partner</h1>')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const base = `http://127.0.0.1:${server.address().port}`
  return {
    base, callback: `${base}/callback`, elsewhere: `${base}/elsewhere`,
    async stop() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    }
  }
}

/** What a device with the secret (base32, spaces allowed) shows at an instant, in milliseconds (RFC 6238). */
export function totp(secret, at = Date.now()) {
  const bits = [...secret.replaceAll(' ', '')].map(c => 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'.indexOf(c).toString(2).padStart(5, '0')).join('')
  const key = Buffer.from(bits.match(/.{8}/g).map(b => parseInt(b, 2)))
  const step = Buffer.alloc(8)
  step.writeBigUInt64BE(BigInt(Math.floor(at / 30_000)))
  const mac = createHmac('sha1', key).update(step).digest()
  const code = mac.readUInt32BE(mac[19] & 15) & 0x7fffffff
  return String(code % 1_000_000).padStart(6, '0')
}
