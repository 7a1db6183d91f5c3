// Generates an age key (https://age-encryption.org/v1) in the browser. The private key only goes into a file that the browser
// saves. The form contains only the public key.
(() => {
  'use strict'
  const byId = id => document.getElementById(id)
  const form = byId('key-form')
  if (!form) return
  let unsaved = false

  const alphabet = 'qpzry9x8gf2tvdw0s3jn54khce6mua7l'
  const checksum = values => {
    let sum = 1
    for (const v of values) {
      const top = sum >>> 25
      sum = ((sum & 0x1ffffff) << 5) ^ v
      for (const [i, g] of [0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3].entries()) if ((top >>> i) & 1) sum ^= g
    }
    return sum >>> 0
  }
  // bech32 encodes bytes as in BIP 173, but without its length limit, as age does.
  const bech32 = (prefix, bytes) => {
    const words = []
    let held = 0
    let bits = 0
    for (const b of bytes) {
      held = ((held << 8) | b) & 0xfff
      for (bits += 8; bits >= 5;) words.push((held >>> (bits -= 5)) & 31)
    }
    if (bits) words.push((held << (5 - bits)) & 31)
    const name = [...prefix].map(c => c.charCodeAt(0))
    const sum = checksum([...name.map(c => c >>> 5), 0, ...name.map(c => c & 31), ...words, 0, 0, 0, 0, 0, 0]) ^ 1
    for (let i = 0; i < 6; i++) words.push((sum >>> (5 * (5 - i))) & 31)
    return prefix + '1' + words.map(w => alphabet[w]).join('')
  }

  const make = async () => {
    const pair = await crypto.subtle.generateKey({ name: 'X25519' }, true, ['deriveBits'])
    const secret = new Uint8Array(await crypto.subtle.exportKey('pkcs8', pair.privateKey)).slice(-32) // the last 32 bytes are the key
    const recipient = bech32('age', new Uint8Array(await crypto.subtle.exportKey('raw', pair.publicKey)))
    const file = ['# public key: ' + recipient, bech32('age-secret-key-', secret).toUpperCase(), ''].join('\n')
    return { recipient, file: new Blob([file], { type: 'text/plain' }) }
  }

  byId('key-noscript').hidden = true
  const button = byId('key-make')
  const link = byId('key-save')
  button.hidden = false
  button.addEventListener('click', async () => {
    byId('key-unsupported').hidden = true
    button.disabled = true
    try {
      const made = await make()
      URL.revokeObjectURL(link.href)
      link.href = URL.createObjectURL(made.file)
      form.elements.recipient.value = made.recipient
      unsaved = true
      byId('key-made').hidden = false
      link.focus()
    } catch {
      byId('key-unsupported').hidden = false
    }
    button.disabled = false
  })
  link.addEventListener('click', () => {
    unsaved = false
    byId('key-unsaved').hidden = true
  })
  form.elements.recipient.addEventListener('input', () => { unsaved = false })
  form.addEventListener('submit', event => {
    if (!unsaved) return
    event.preventDefault()
    byId('key-unsaved').hidden = false
    link.focus()
  })
})()
