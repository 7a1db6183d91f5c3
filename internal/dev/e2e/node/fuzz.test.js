// Schemathesis calls every operation of the contracts with real credentials, with valid and invalid requests, and
// follows links from one response to another. FUZZ_SEED=$RANDOM changes the requests, FUZZ_EXAMPLES=1000 makes it
// longer.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { beginLink, call, discover } from './partner.js'
import { Person } from './person.js'
import { password, root, start, startSite } from './program.js'

const home = `${root}/internal/dev/e2e/schemathesis`
const seed = process.env.FUZZ_SEED ?? '1'
const examples = process.env.FUZZ_EXAMPLES ?? '100'

let program, site, receiver
before(async () => {
  const many = '1000000'
  program = await start({
    PARTNERD_RATE_APPLICATION: many, PARTNERD_RATE_CLIENT: many, PARTNERD_RATE_UNAUTHORIZED: many, PARTNERD_RATE_TOKEN_FAILURES: many
  })
  site = await startSite()
  receiver = createServer((request, response) => { request.resume(); response.writeHead(204).end() }).listen(0, '127.0.0.1')
  await once(receiver, 'listening')
  console.log(`FUZZ_SEED=${seed}`)
})
after(async () => {
  await program?.stop()
  await site?.stop()
  receiver?.close()
})

/** An application of its own, with a client who linked and has a consultation under way; what the hooks of Schemathesis need of them. */
async function application(name) {
  const url = `http://127.0.0.1:${receiver.address().port}/hooks`
  const app = await program.cli('app', 'create', '--name', name, '--redirect-uri', site.callback, '--webhook-url', url)
  const config = await discover(program.base, app)
  const link = async () => {
    const begun = await beginLink(config, site.callback)
    return begun.redeem(await new Person().allow(begun.url, await program.client(150_000), password))
  }
  const { access_token: token } = await link()
  const made = await call(program.base, token, 'POST', '/api/v1/consultations', { competence: 'HOUSING', subject: 'Deposit not returned', withdrawalWaiverAcknowledged: true }, { 'idempotency-key': randomUUID() })
  assert.equal(made.status, 201)
  const path = `/api/v1/consultations/${made.body.id}`
  for (const giveUp = Date.now() + 60_000; (await call(program.base, token, 'GET', path)).body.status !== 'COMPLETED'; await pause(250)) {
    assert(Date.now() < giveUp, 'the consultation is not completed after a minute')
  }
  return {
    FUZZ_CLIENT_ID: app.clientId, FUZZ_CLIENT_SECRET: app.clientSecret, FUZZ_ACCESS_TOKEN: token, FUZZ_REFRESH_TOKEN: (await link()).refresh_token,
    FUZZ_COMPLETED: made.body.id, FUZZ_RECEIVER: url, FUZZ_REDIRECT_URI: site.callback
  }
}

for (const contract of ['partner', 'platform', 'sandbox']) {
  test(`${contract}: no request gets an answer that the contract does not have`, async () => {
    const seen = join(await mkdtemp(join(tmpdir(), 'partnerd-fuzz-')), 'seen.json')
    const child = spawn(`${home}/.venv/bin/schemathesis`, [
      'run', `${root}/openapi/${contract}.yaml`, '--url', program.base, '--seed', seed, '--max-examples', examples, '--no-color', '--warnings', 'off'
    ], { cwd: home, env: { ...process.env, ...await application(contract), FUZZ_SEEN: seen, SCHEMATHESIS_HOOKS: 'hooks', PYTHONPATH: home } })
    let told = ''
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', text => { told += text })
    const [code] = await once(child, 'exit')
    assert.equal(code, 0, `FUZZ_SEED=${seed}: ${told}`)

    const statuses = JSON.parse(await readFile(seen, 'utf8'))
    await rm(dirname(seen), { recursive: true })
    // Prints how often each documented status was met. The end-to-end tests ensure that every status of the Partner API
    // is met.
    for (const [operation, counts] of Object.entries(statuses).sort()) {
      console.log(`${contract} ${operation}: ${Object.entries(counts).map(([status, n]) => `${status} (${n})`).join(', ')}`)
    }
    const failing = Object.keys(statuses).filter(operation => !Object.entries(statuses[operation]).some(([status, n]) => status < 400 && n > 0))
    assert.deepEqual(failing, [], 'no request to these succeeded, so little of them was tried; hooks.py gives values that exist')
  })
}

test('the service met no fault of its own', () => {
  assert.deepEqual(program.log().split('\n').filter(line => /"level":"ERROR"|level=ERROR/.test(line)), [])
})
