// Prism as a proxy that checks requests and responses against the contract.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { freePort } from './program.js'

/** Starts Prism before a service. What is not as the contract says is answered by it and told at the end. */
export async function startPrism(contract, upstream) {
  const port = await freePort()
  const child = spawn(process.execPath, ['node_modules/@stoplight/prism-cli/dist/index.js', 'proxy', contract, upstream, '--errors', '--port', String(port), '--host', '127.0.0.1'],
    { cwd: import.meta.dirname, stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, NO_COLOR: '1' } })
  let log = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', text => { log += text })
  const exited = once(child, 'exit')
  for (const giveUp = Date.now() + 60_000; !/Prism is listening/.test(log); await pause(50)) {
    assert(child.exitCode === null && Date.now() < giveUp, `Prism does not start: ${log}`)
  }
  return {
    base: `http://127.0.0.1:${port}`,
    async stop() {
      child.kill('SIGTERM')
      await exited
      if (process.env.DEBUG_PRISM) console.log(log)
      return log.split('\n').filter(line => /violation/i.test(line))
    }
  }
}
