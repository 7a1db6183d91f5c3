// Clients generated from the contract, one per language, are built and act as a CRM against the running program. Prism
// between the two checks every request and response against the contract.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { availableParallelism } from 'node:os'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'
import { Person } from './person.js'
import { startPrism } from './prism.js'
import { contract, password, root, start, startSite } from './program.js'

// Exit code of a language's build if its tools are not on the machine.
const missing = 77

// The slowest to build come first.
const languages = {
  java: [['openapi-generator', 'java', '-cp', 'out:.cache/*', 'Crm']],
  typescript: [['hey-api', 'node', 'out/hey.js'], ['openapi-fetch', 'node', 'out/fetch.js']],
  go: [['oapi-codegen', 'out/crm']],
  python: [['openapi-python-client', '.venv/bin/python', 'crm.py']],
  php: [['openapi-generator', 'php', 'crm.php']]
}

let program, site, prism
before(async () => {
  [program, site] = [await start(), await startSite()]
  prism = await startPrism(contract, program.base)
})
after(async () => {
  const violations = await prism?.stop()
  await program?.stop()
  await site?.stop()
  if (violations) assert.deepEqual(violations, [], 'Prism found requests or answers that are not what the contract says')
})

/** Keeps what is posted to a CRM. */
async function startReceiver() {
  const events = []
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request.setEncoding('utf8')) body += chunk
    events.push({ headers: request.headers, body })
    response.writeHead(204).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { url: `http://127.0.0.1:${server.address().port}/hooks`, events, stop: () => server.close() }
}

/** Runs a program that plays a CRM, and is its client: opens what it is told to, and pays. Returns what it told of its events. */
async function play(cwd, command, args) {
  const receiver = await startReceiver()
  const app = await program.cli('app', 'create', '--name', command, '--redirect-uri', site.callback, '--webhook-url', receiver.url)
  const [person, email] = [new Person(), await program.client(0)]
  const child = spawn(command, args, {
    cwd, stdio: ['pipe', 'pipe', 'pipe'],
    env: {
      ...process.env, PYTHONPATH: 'generated', PARTNER_BASE_URL: prism.base, PARTNER_AUTHORIZE_URL: `${program.base}/api/oauth/authorize`, PARTNER_CLIENT_ID: app.clientId,
      PARTNER_CLIENT_SECRET: app.clientSecret, PARTNER_REDIRECT_URI: site.callback, PARTNER_WEBHOOK_SECRET: app.webhookSecret
    }
  })
  let [faults, done] = ['', false]
  const told = []
  child.stderr.setEncoding('utf8').on('data', text => { faults += text })
  const exited = once(child, 'exit')
  const answer = async line => {
    const [verb, rest] = [line.split(' ', 1)[0], line.slice(line.indexOf(' ') + 1)]
    if (verb === 'OPEN' && rest.includes('/checkout/')) child.stdin.write(`${await person.pay(rest)}\n`)
    else if (verb === 'OPEN') child.stdin.write(`${await person.allow(rest, email, password)}\n`)
    else if (verb === 'EVENTS') child.stdin.write(`${JSON.stringify(receiver.events)}\n`)
    else if (verb === 'EVENT') told.push(rest)
    else if (verb === 'DONE') done = true
    else faults += `${line}\n`
  }
  try {
    for await (const line of createInterface({ input: child.stdout })) await answer(line)
  } finally {
    child.stdin.end() // the program ends when its input ends
    receiver.stop()
  }
  const [code] = await exited
  assert(code === 0 && done, `it ended with ${code}: ${faults}`)
  assert.equal(faults, '', 'it complains')
  return told
}

// Of the consultation that is served and of the one that is cancelled, in any order.
const story = [
  '2000 cents returned', 'a lawyer accepted', 'cancelled: CANCELLED_BY_PARTNER', 'completed', 'created for 2000 cents', 'created for 2000 cents', 'in the call',
  'looking for a lawyer', 'looking for a lawyer', 'price reserved', 'price reserved', 'talked for', 'the note is available'
]

/** Runs at most so many at once; the others wait their turn. */
function limit(most) {
  const waiting = []
  let running = 0
  return async run => {
    if (running === most) await new Promise(resume => waiting.push(resume))
    else running++
    try {
      return await run()
    } finally {
      if (waiting.length > 0) waiting.shift()()
      else running--
    }
  }
}
const building = limit(availableParallelism())

/** Builds a language; what it told, and what it ended with. */
async function build(cwd) {
  const child = spawn(`${cwd}/build`, { stdio: ['ignore', 'pipe', 'pipe'] })
  let told = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', text => { told += text })
  const [status] = await once(child, 'close')
  return { status, told }
}

// While one language runs, mostly waiting for the call, the next ones are built.
test('SDKs', { concurrency: true }, async t => {
  await Promise.all(Object.entries(languages).map(async ([language, programs]) => {
    const cwd = `${root}/openapi/sdk/${language}`
    let built
    await t.test(`${language}: generated, and compiled without a warning`, { timeout: 900_000 }, async t => {
      built = await building(() => build(cwd))
      if (built.status === missing) {
        console.log(`NOT CHECKED: ${language}: ${built.told}`)
        t.skip(built.told)
        return
      }
      assert.equal(built.status, 0, built.told)
    })
    if (built.status !== 0) return
    await Promise.all(programs.map(([name, command, ...args]) => t.test(`${language}: ${name} plays a CRM`, { timeout: 120_000 }, async () => {
      const told = await play(cwd, command, args)
      assert.deepEqual(told.map(line => line.replace(/talked for .*/, 'talked for')).sort(), story)
    })))
  }))
})
