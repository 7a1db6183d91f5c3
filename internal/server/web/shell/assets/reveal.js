// Shows and hides a typed password. The button appears only with this script. The password is hidden again before the form is
// sent, so that browsers recognise it as a password.
(() => {
  'use strict'
  for (const button of document.querySelectorAll('[data-reveal]')) {
    const field = document.getElementById(button.dataset.reveal)
    const show = button.textContent
    const set = shown => {
      field.type = shown ? 'text' : 'password'
      button.textContent = shown ? button.dataset.hide : show
      button.setAttribute('aria-pressed', String(shown))
    }
    button.addEventListener('click', () => set(field.type === 'password'))
    field.form.addEventListener('submit', () => set(false))
    button.hidden = false
  }
})()
