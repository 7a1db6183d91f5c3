// Adds to the documentation: buttons that copy code, one language choice for all samples, and redirects from the anchors of an
// earlier single page. Everything is readable without this script.
'use strict'
{
  const docs = document.querySelector('.docs')
  const { copy, copied } = docs.dataset

  if (window.matchMedia('(min-width: 64rem)').matches) docs.querySelector('.menu').open = true

  for (const pre of docs.querySelectorAll('pre')) {
    const button = document.createElement('button')
    button.type = 'button'
    button.className = 'copy'
    button.lang = document.documentElement.lang
    button.textContent = copy
    button.addEventListener('click', async () => {
      try {
        await navigator.clipboard.writeText(pre.textContent)
        button.textContent = copied
        setTimeout(() => { button.textContent = copy }, 2000)
      } catch { // the clipboard is not available: the text is selected instead
        window.getSelection().selectAllChildren(pre)
      }
    })
    const around = document.createElement('div')
    around.className = 'code'
    pre.replaceWith(around)
    around.append(pre, button)
  }

  const samples = [...docs.querySelectorAll('.sample')]
  const choose = language => {
    for (const s of samples) s.open = s.dataset.language === language
  }
  const key = 'docs-language'
  const kept = localStorage.getItem(key)
  if (samples.some(s => s.dataset.language === kept)) choose(kept)
  for (const s of samples) {
    s.querySelector('summary').addEventListener('click', () => {
      if (!s.open) localStorage.setItem(key, s.dataset.language)
    })
  }

  const follow = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)))
    const entry = target?.closest('.index li')
    if (entry && location.pathname === '/docs') location.replace(entry.querySelector('a').href)
    target?.closest('details')?.setAttribute('open', '')
  }
  window.addEventListener('hashchange', follow)
  follow()
}
