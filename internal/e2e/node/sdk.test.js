// The clients that generators make of the contract, each in its language: built, and playing a CRM against the running program.
// Between the two stands Prism, which holds every request and answer against the contract.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'
import { Person } from './person.js'
import { startPrism } from './prism.js'
import { contract, password, root, start, startSite } from './program.js'

// What a language's build says when its tools are not on the machine.
const missing = 77

const languages = {
  typescript: [['hey-api', 'node', 'out/hey.js'], ['openapi-fetch', 'node', 'out/fetch.js']],
  python: [['openapi-python-client', '.venv/bin/python', 'crm.py']],
  go: [['oapi-codegen', 'out/crm']],
  java: [['openapi-generator', 'java', '-cp', 'out:.cache/*', 'Crm']],
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
    child.stdin.end() // it ends when nobody answers
    receiver.stop()
  }
  const [code] = await exited
  assert(code === 0 && done, `it ended with ${code}: ${faults}`)
  assert.equal(faults, '', 'it complains')
  return told
}

// Of the consultation that is served and of the one that is cancelled, in any order.
const story = [
  '2000 cents are back', 'a lawyer has it', 'cancelled: CANCELLED_BY_PARTNER', 'created for 2000 cents', 'created for 2000 cents', 'done', 'in the call',
  'looking for a lawyer', 'looking for a lawyer', 'money reserved', 'money reserved', 'talked for', 'there is a note'
]

for (const [language, programs] of Object.entries(languages)) {
  const cwd = `${root}/gen/sdk/${language}`
  test(`${language}: generated, and compiled without a warning`, { timeout: 600_000 }, t => {
    const built = spawnSync(`${cwd}/build`, { encoding: 'utf8' })
    if (built.status === missing) {
      console.log(`NOT CHECKED: ${language}: ${built.stdout}`)
      t.skip(built.stdout)
      programs.length = 0
      return
    }
    assert.equal(built.status, 0, built.stdout + built.stderr)
  })
  test(`${language}: plays a CRM`, { concurrency: true, timeout: 120_000 }, async t => {
    if (programs.length === 0) t.skip('it was not built')
    await Promise.all(programs.map(([name, command, ...args]) => t.test(name, async () => {
      const told = await play(cwd, command, args)
      assert.deepEqual(told.map(line => line.replace(/talked for .*/, 'talked for')).sort(), story)
    })))
  })
}
