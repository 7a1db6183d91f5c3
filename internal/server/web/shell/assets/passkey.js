// Asks the browser for a passkey and puts its response into the form. Nothing else on this site requires a script.
(() => {
  'use strict'
  const form = document.getElementById('passkey')
  const button = document.getElementById('passkey-start')
  const fault = document.getElementById('passkey-fault')
  if (!form || !button) return

  const show = id => {
    fault.textContent = document.getElementById(id).textContent
    fault.hidden = false
    button.disabled = false
    button.focus()
  }
  if (!window.PublicKeyCredential) {
    show('passkey-unsupported')
    button.disabled = true
    return
  }
  document.getElementById('passkey-noscript').hidden = true
  button.hidden = false

  const bytes = text => Uint8Array.from(atob(text.replaceAll('-', '+').replaceAll('_', '/')), c => c.charCodeAt(0))
  const text = buffer => btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
  const listed = list => (list || []).map(c => ({ ...c, id: bytes(c.id) }))

  const answer = credential => {
    const r = credential.response
    const response = { clientDataJSON: text(r.clientDataJSON) }
    if (r.attestationObject) {
      response.attestationObject = text(r.attestationObject)
      response.transports = r.getTransports ? r.getTransports() : []
    } else {
      response.authenticatorData = text(r.authenticatorData)
      response.signature = text(r.signature)
      if (r.userHandle) response.userHandle = text(r.userHandle)
    }
    return { id: credential.id, rawId: text(credential.rawId), type: credential.type, clientExtensionResults: credential.getClientExtensionResults(), response }
  }

  const ask = async () => {
    const options = JSON.parse(form.dataset.options)
    options.challenge = bytes(options.challenge)
    if (form.dataset.do === 'get') {
      options.allowCredentials = listed(options.allowCredentials)
      return navigator.credentials.get({ publicKey: options })
    }
    options.user.id = bytes(options.user.id)
    options.excludeCredentials = listed(options.excludeCredentials)
    return navigator.credentials.create({ publicKey: options })
  }

  form.addEventListener('submit', async event => {
    if (form.elements.answer.value) return
    event.preventDefault()
    fault.hidden = true
    button.disabled = true
    try {
      form.elements.answer.value = JSON.stringify(answer(await ask()))
      form.submit()
    } catch (e) {
      show(e.name === 'InvalidStateError' ? 'passkey-known' : 'passkey-failed')
    }
  })
})()
