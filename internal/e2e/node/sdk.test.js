import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdirSync, writeFileSync } from 'node:fs'
import { after, before, test } from 'node:test'
import openapiTS, { astToString } from 'openapi-typescript'
import { pathToFileURL } from 'node:url'
import { beginLink, discover } from './partner.js'
import { Person } from './person.js'
import { contract, password, start, startSite } from './program.js'

const here = import.meta.dirname

// Without the option a field that has a default would be required in requests too.
before(async () => {
  mkdirSync(`${here}/generated`, { recursive: true })
  writeFileSync(`${here}/generated/partner.d.ts`, astToString(await openapiTS(pathToFileURL(contract), { defaultNonNullable: false })))
})

let program, site
before(async () => { [program, site] = [await start(), await startSite()] })
after(async () => {
  await program?.stop()
  await site?.stop()
})

test('types generated from the contract compile, and code written with them runs', async () => {
  try {
    execFileSync(process.execPath, ['node_modules/typescript/bin/tsc', '--project', '.'], { cwd: here, encoding: 'utf8' })
  } catch (e) {
    assert.fail(e.stdout)
  }
  const { consult } = await import('./generated/out/sample.js')
  const app = await program.application('SDK', site.callback)
  const begun = await beginLink(await discover(program.base, app), site.callback)
  const tokens = await begun.redeem(await new Person().allow(begun.url, await program.client(2000), password))
  const made = await consult(program.base, tokens.access_token, randomUUID())
  assert.equal(made.priceCents, 2000)
  await assert.rejects(consult(program.base, tokens.access_token, randomUUID()), { message: 'top up first' })
})
