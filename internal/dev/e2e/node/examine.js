// Accessibility of one page: axe-core finds nothing, nothing is cut off, there is one top-level heading, and every text
// is complete.
import axe from 'axe-core'
import assert from 'node:assert/strict'
import { shoot } from './window.js'

export async function examine(page, name) {
  await shoot(page, name)
  await page.evaluate(axe.source)
  const checks = await page.evaluate(async () => {
    const { violations, incomplete } = await globalThis.axe.run(document, {
      runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']
    })
    // Contrast cannot be measured where a table or code is scrolled out of sight; the wide page shows the same content
    // in sight.
    const outOfSight = n => document.querySelector(n.target[0])?.closest('.scroll, pre')
    for (const check of incomplete) check.nodes = check.nodes.filter(n => check.id !== 'color-contrast' || !outOfSight(n))
    return [...violations, ...incomplete]
  })
  const found = checks.flatMap(v => v.nodes.map(n => `${v.id}: ${n.target.join(' ')}: ${n.failureSummary ?? v.help}`))
  assert.deepEqual(found, [], name)
  const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
  assert(overflow <= 0, `${name} is ${overflow} px too wide`)
  assert.equal(await page.locator('h1').count(), 1, `${name} has one first heading`)
  assert.doesNotMatch(await page.textContent('body'), /%!/, `${name} has a text that was not given what it says`)
}
