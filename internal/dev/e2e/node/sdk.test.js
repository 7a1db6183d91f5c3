// Clients generated from the contract, one per language, are built and act as a CRM against the running program. Prism
// between the two checks every request and response against the contract.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
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

// What a partner adds to the code of the page to call it: it prints what the code says of a webhook on its input.
const callers = {
  js: ['receive.mjs', `
import { readFileSync } from 'node:fs'
console.log(receive(JSON.parse(process.env.HEADERS), readFileSync(0)))
`, ['node', 'receive.mjs']],
  py: ['receive.py', `

if __name__ == "__main__":
    import json
    import sys

    print(receive(json.loads(os.environ["HEADERS"]), sys.stdin.buffer.read()))
`, ['python3', 'receive.py']],
  go: ['receive.go', '', ['go', 'run', '.']],
  php: ['receive.php', `
echo receive(json_decode(getenv('HEADERS'), true), file_get_contents('php://stdin')), "\\n";
`, ['php', '-d', 'auto_prepend_file=/usr/share/php/GuzzleHttp/autoload.php', 'receive.php']],
  java: ['Receive.java', '', ['java', '-cp', 'out:lib/*', 'Main']]
}
const javaMain = `
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.Map;

public final class Main {
  public static void main(String[] args) throws Exception {
    var headers = new ObjectMapper().readValue(System.getenv("HEADERS"), new TypeReference<Map<String, String>>() {});
    System.out.println(Receive.receive(headers, System.in.readAllBytes()));
  }
}
`
const goMain = `package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	var given map[string]string
	if err := json.Unmarshal([]byte(os.Getenv("HEADERS")), &given); err != nil {
		panic(err)
	}
	headers := http.Header{}
	for name, value := range given {
		headers.Set(name, value)
	}
	body, _ := io.ReadAll(os.Stdin)
	line, err := receive(headers, body)
	if err != nil {
		panic(err)
	}
	fmt.Println(line)
}
`

/** Runs a command to its end with an input, and returns what it printed. */
async function run(cwd, env, input, command, ...args) {
  const running = promisify(execFile)(command, args, { cwd, env: { ...process.env, ...env }, maxBuffer: 1 << 26 })
  running.child.stdin.end(input)
  return (await running).stdout.trim()
}

/** The blocks of code below each heading of a guide, as [language, code]. */
function blocksOf(markdown) {
  return Object.fromEntries(markdown.split(/^## /m).slice(1).map(part =>
    [part.split('\n', 1)[0], [...part.matchAll(/^```(\w+)\n(.*?)^```/gms)].map(([, language, code]) => [language, code])]))
}

// A partner follows the page "SDKs and CLI" word for word, in an empty folder for each language.
test('packages are installed as the page says', { timeout: 900_000 }, async t => {
  for (const [language, made] of [['typescript', 'node_modules/.bin/tsc'], ['python', 'generated'], ['go', 'generated'], ['php', 'generated'], ['java', 'out/partner']]) {
    if (!(await readdir(join(root, 'openapi/sdk', language, made)).catch(error => error.code === 'ENOTDIR')) ) {
      console.log(`NOT CHECKED: packages: ${language} is not built`)
      t.skip(`${language} is not built`)
      return
    }
  }
  const temp = await mkdtemp(join(tmpdir(), 'partner-packages-'))
  const folder = join(temp, 'offered')
  const platform = `linux/${{ x64: 'amd64', arm64: 'arm64' }[process.arch]}`
  await run(root, { BUILT: '1', PLATFORMS: `${platform} windows/amd64` }, '', '.ci/packages', folder)
  const offering = await start({ PARTNERD_DOWNLOADS_DIR: folder })
  try {
    const app = await offering.application('Packages', site.callback)
    const page = async lang => (await fetch(`${offering.base}/docs/sdks.md`, { headers: { 'Accept-Language': lang } })).text()
    const [guide, french] = [blocksOf(await page('en')), blocksOf(await page('fr'))]
    const commands = blocks => Object.values(blocks).map(list => list.filter(([language]) => language === 'sh'))
    assert.deepEqual(commands(french), commands(guide), 'the commands of the French page differ')

    const body = JSON.stringify({ id: 'evt_1', type: 'webhook.ping', createdAt: '2026-06-01T08:00:00.000000Z', data: {} })
    const time = Math.floor(Date.now() / 1000)
    const signed = secret => ({
      WEBHOOK_SECRET: 'whsec_1',
      HEADERS: JSON.stringify({ 'x-service-signature': `t=${time},v1=${createHmac('sha256', secret).update(`${time}.${body}`).digest('hex')}` })
    })
    for (const [heading, blocks] of Object.entries(guide)) {
      const [, code] = [blocks.find(([language]) => language === 'sh'), blocks.find(([language]) => language in callers)]
      if (!code) continue
      await t.test(heading, { timeout: 300_000 }, async t => {
        const cwd = join(temp, code[0])
        await mkdir(cwd)
        const [file, caller, command] = callers[code[0]]
        const env = {}
        if (code[0] === 'py') {
          await run(cwd, {}, '', 'python3', '-m', 'venv', '.venv')
          env.PATH = `${cwd}/.venv/bin:${process.env.PATH}`
        }
        if (code[0] === 'php') {
          if (!await run(cwd, {}, '', 'composer', '--version').catch(() => '')) {
            console.log('NOT CHECKED: the package for PHP: composer is not installed')
            t.skip('composer is not installed')
            return
          }
          // Guzzle is Debian's, so that nothing is asked of Packagist.
          await writeFile(join(cwd, 'composer.json'), JSON.stringify({
            name: 'crm/example', repositories: { 'packagist.org': false }, provide: { 'guzzlehttp/guzzle': '7.5.0', 'guzzlehttp/psr7': '2.4.5' }
          }))
          Object.assign(env, { COMPOSER_NO_INTERACTION: '1', COMPOSER_ALLOW_SUPERUSER: '1', COMPOSER_HOME: join(cwd, '.composer') })
        }
        if (code[0] === 'go') {
          await writeFile(join(cwd, 'go.mod'), 'module crm.example\n\ngo 1.26.0\n')
          await writeFile(join(cwd, 'main.go'), goMain)
          env.GOFLAGS = '-mod=mod'
        }
        await writeFile(join(cwd, file), code[1] + caller)
        await run(cwd, env, '', 'bash', '-euc', blocks.find(([language]) => language === 'sh')[1])
        if (code[0] === 'java') {
          const [, dependency] = blocks.find(([language]) => language === 'xml')
          await writeFile(join(cwd, 'pom.xml'), `<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
            <groupId>example</groupId><artifactId>crm</artifactId><version>1</version><dependencies>${dependency}</dependencies></project>`)
          await writeFile(join(cwd, 'Main.java'), javaMain)
          await run(cwd, {}, '', 'mvn', '-q', '-B', 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies', '-DoutputDirectory=lib')
          await run(cwd, {}, '', 'javac', '-Xlint:all,-processing', '-Werror', '-cp', 'lib/*', '-d', 'out', 'Receive.java', 'Main.java')
        }
        assert.equal(await run(cwd, { ...env, ...signed('whsec_1') }, body, ...command), 'webhook.ping evt_1 is typed')
        await assert.rejects(run(cwd, { ...env, ...signed('whsec_2') }, body, ...command), /mismatch/)
      })
    }
    await t.test('partnerctl', async () => {
      const cwd = join(temp, 'cli')
      await mkdir(cwd)
      const [install, use] = Object.entries(guide).flatMap(([heading, blocks]) => heading === 'Command line' ? blocks.filter(([l]) => l === 'sh') : [])
      await run(cwd, {}, '', 'bash', '-euc', install[1])
      const told = await run(cwd, { PATH: `${cwd}:${process.env.PATH}`, CLIENT_ID: app.clientId, CLIENT_SECRET: app.clientSecret }, '', 'bash', '-euc', use[1])
      assert.match(told, /TO DO/)
    })
    await t.test('what is served', async () => {
      const check = guide.Packages.find(([language]) => language === 'sh')[1]
      assert.match(await run(folder, {}, '', 'bash', '-euc', check), /tgz: OK/)
      const [name] = (await readdir(folder)).filter(name => name.endsWith('.tgz'))
      const response = await fetch(`${offering.base}/docs/downloads/${name}`)
      assert.equal(response.headers.get('cache-control'), 'public, max-age=31536000, immutable')
      await response.arrayBuffer()
      for (const path of ['nothing', '..%2fkeys', '%2e%2e/data', 'SHA256SUMS/..', '']) {
        assert.notEqual((await fetch(`${offering.base}/docs/downloads/${path}`)).status, 200, path)
      }
    })
  } finally {
    await offering.stop()
    await rm(temp, { recursive: true, force: true })
  }
})
