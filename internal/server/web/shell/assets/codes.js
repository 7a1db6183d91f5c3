// Copies and prints the recovery codes. Without this script, people select or download the codes, or print the page.
(() => {
  'use strict'
  const copy = document.getElementById('codes-copy')
  const print = document.getElementById('codes-print')
  const codes = () => [...document.querySelectorAll('.codes code')].map(code => code.textContent).join('\n')
  if (navigator.clipboard) { // only in a secure context
    copy.hidden = false
    copy.addEventListener('click', async () => {
      const say = document.getElementById('codes-say')
      try {
        await navigator.clipboard.writeText(codes())
        say.textContent = say.dataset.copied
      } catch {
        say.textContent = say.dataset.failed
      }
    })
  }
  print.hidden = false
  print.addEventListener('click', () => globalThis.print())
})()
