// Copies a secret that is shown once. The button appears only with this script and where pages may write to the clipboard.
(() => {
  'use strict'
  if (!navigator.clipboard) return
  for (const button of document.querySelectorAll('[data-copy]')) {
    const secret = document.getElementById(button.dataset.copy)
    const say = button.nextElementSibling
    button.addEventListener('click', async () => {
      try {
        await navigator.clipboard.writeText(secret.textContent)
        say.textContent = say.dataset.copied
      } catch { // the reader copies the selection with the browser's own function
        window.getSelection().selectAllChildren(secret)
        say.textContent = say.dataset.failed
      }
    })
    button.hidden = false
  }
})()
